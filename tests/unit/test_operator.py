"""holdfast.toml: what it may say, what the environment adds, and what is refused instead of being passed over. Its page lists all of it."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.terms import RateLimit
from holdfast.model.errors import InvalidParameter
from holdfast.model.schedule_errors import ScheduleInvalid
from holdfast.operator.holdfast_toml import read_operator
from holdfast.queues.declarations import Queue
from holdfast.service.runtimes.worker_runtime import ToolSettings, WorkerSettings
from holdfast.service.runtimes.worker_signals import SignalSettings
from holdfast.workers.policy import DayCaps, Policy, RiskRule
from holdfast.workers.tools.cassettes import CassetteMode, CassetteSettings
from holdfast.workers.tools.fetch_url import FetchSettings
from holdfast.workers.tools.language_model import ModelSettings
from holdfast.workers.tools.prices import Price
from holdfast.workers.tools.read_repo import RepoSettings

WHOLE = """
parameters = "parameters.toml"
secrets = ["secrets", "ssm:/shop/"]

[policy]
isolation = "process"
approvals = ["refund_payment"]
approvers = ["ada"]

[policy.caps]
runs = 100
tokens = 5000
cost_usd = 1.5

[policy.tenant_caps.acme]
runs = 7

[policy.rate_limits.refund-worker]
count = 2
per_seconds = 60
per = "user"

[policy.retry_codes.web-scrape-worker]
access_denied = true

[fetch]
allow_private = ["10.0.0.7:8080"]
ports = [80, 443, 8443]

[model]
model = "small"
base_url = "http://models.internal/v1"

[model.prices]
small = { input = 0.15, output = 0.60 }

[cassette]
mode = "replay"
path = "calls.jsonl"
tools = ["language_model"]
"""


def settings(folder: Path, text: str, **environment: str) -> WorkerSettings:
    file = folder / "holdfast.toml"
    file.write_text(text)
    return read_operator(file=file, environment=environment)


def test_every_setting_reaches_its_place(tmp_path: Path) -> None:
    (tmp_path / "calls.jsonl").write_text("")
    told = settings(tmp_path, WHOLE)
    assert told.policy.caps == DayCaps(runs=100, tokens=5000, cost_usd=Decimal("1.5"))
    assert told.policy.caps_of("acme") == DayCaps(runs=7)
    assert told.policy.rate_limits == {"refund-worker": RateLimit(2, 60, "user")}
    assert told.policy.retry_codes == {"web-scrape-worker": {"access_denied": True}}
    assert (told.policy.isolation, told.policy.approvals, told.policy.approvers) == ("process", frozenset({"refund_payment"}), ("ada",))
    assert (told.fetch.allow_private, told.fetch.ports) == (("10.0.0.7:8080",), (80, 443, 8443))
    assert (told.model.model, told.model.prices) == ("small", {"small": Price(input=Decimal("0.15"), output=Decimal("0.60"))})
    assert (told.parameters, told.secrets) == (str(tmp_path / "parameters.toml"), (str(tmp_path / "secrets"), "ssm:/shop/"))
    assert told.cassette == CassetteSettings(CassetteMode.REPLAY, str(tmp_path / "calls.jsonl"), ("language_model",))


def test_the_environment_brings_keys_and_has_the_last_word_on_cassettes(tmp_path: Path) -> None:
    told = settings(
        tmp_path, WHOLE, HOLDFAST_MODEL_KEY="k", HOLDFAST_MODEL="large", HOLDFAST_MODEL_URL="http://other/v1", HOLDFAST_CASSETTE="off"
    )
    assert (told.model.api_key, told.model.model, told.model.base_url) == ("k", "large", "http://other/v1")
    assert told.cassette == CassetteSettings()
    assert "k" not in repr(told.model).replace("api_key", "")


def test_without_a_file_everything_is_as_it_is_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_operator(environment={}) == WorkerSettings()
    assert read_operator("process", environment={}).policy == Policy(isolation="process")


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"There is no file .*none\.toml"):
        read_operator(environment={"HOLDFAST_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize(
    "text, says",
    [
        ("[policy", "is not TOML"),
        ("[limits]\n", "has limits, which Holdfast does not know"),
        ("[polcy]\n", "groups, risks. Did you mean `policy`?"),
        ('[policy]\nestimate = "wurst"', "holdfast.toml: policy is wrong: `estimate` is 'wurst'; write one of worst, typical, none."),
        ('[schedules.a]\nrun = "x"\ncron = "0 2"', "holdfast.toml: [schedules.a]: The cron expression '0 2' has 2 fields"),
        ('[schedules.a]\nrun = "x"\ncron = 2', "[schedules.a] is wrong: `cron` is a whole number, and must be a text."),
        ('[schedules.a]\nrun = "x"\ncorn = "0 2 * * *"', "Did you mean `cron`?"),
        ('[schedules.a]\nrun = "no name"\nevery = "1h"', "holdfast.toml: [schedules.a]: "),
        ('[schedules."a b"]\nrun = "x"\nevery = "1h"', "holdfast.toml: [schedules.a b]: "),
        ('[schedules.a]\nrun = "x"\nevery = "1h"\ninput = nan', "holdfast.toml: [schedules.a]: "),
        ('[schedules.a]\nrun = "x"\nevery = "often"', "holdfast.toml: [schedules.a]: "),
        ("[cassette]\nmode = 3", "cassette is wrong"),
        ("[signals]\nlog = 3", "signals is wrong"),
        ("[queues]\n'a b' = 3", "holdfast.toml: queues.a b is 3"),
        ("[queues.'a b']\nmost_waiting = 3", "holdfast.toml: "),
        ("policy = 3", "policy is wrong: it is a whole number, and must be a table."),
        ('[policy]\nisolation = "none"', "policy is wrong: `isolation` is 'none'; write one of all, process, inline."),
        ("[policy]\ncap = 3", "[policy] has cap, which Holdfast does not know; it may have isolation,"),
        ('[policy]\nlink_base = "h.example"', "policy.link_base is 'h.example'; write the address of the server"),
        ('[policy]\nlink_base = "https://h.example/?x="', "policy.link_base is"),
        ('[policy]\nlink_base = "https://h.example:x"', "policy.link_base is"),
        (
            "[policy.caps]\ntoken = 3",
            "[policy.caps] has token, which Holdfast does not know; it may have tokens, cost_usd, runs. Did you mean `tokens`?",
        ),
        ("[policy.tenant_caps.acme]\nrun = 3", "[policy.tenant_caps.acme] has run, which Holdfast does not know"),
        ("[policy.rate_limits.w]\ncount = 3\nper_seconds = 1\nuser = 1", "[policy.rate_limits.w] has user, which Holdfast does not know"),
        ("[policy.rate_limits.w]\ncount = 3", "policy is wrong: `rate_limits[...]` lacks `per_seconds`."),
        ('[policy.caps]\nruns = "many"', "policy is wrong: `caps.runs` is a text, and must be a whole number."),
        ("fetch = 3", "fetch is wrong"),
        ("[fetch]\nrobot = false", "[fetch] has robot, which Holdfast does not know"),
        ("model = 3", "model is wrong"),
        ("[model]\nprices = 3", "model.prices is wrong"),
        ("[model.prices.small]\ninput = 1", "holdfast.toml: [model]: The price of 'small'"),
        ("parameters = 3", "parameters is wrong"),
        ('secrets = "one"', "secrets is wrong"),
        ("cassette = 3", "The cassette setting is '3'"),
        ('[cassette]\nmode = "play"', "cassette is wrong"),
        ("[cassette]\ntool = []", "[cassette] has tool, which Holdfast does not know"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises((InvalidParameter, ScheduleInvalid), match=re.escape(says)) as refused:
        settings(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "holdfast.toml"))


TABLES: dict[str, Any] = {
    "The file": WorkerSettings,
    "policy": Policy,
    "policy.caps": DayCaps,
    "policy.rate_limits.WORKER": RateLimit,
    "fetch": FetchSettings,
    "model": ModelSettings,
    "model.prices.MODEL": Price,
    "repos.NAME": RepoSettings,
    "cassette": CassetteSettings,
    "signals": SignalSettings,
    "tools": ToolSettings,
    "queues.NAME": Queue,
    "risks.RISK": RiskRule,
}
NOT_SET_HERE = {"was_example", "name", "groups", "risks"}
"""Groups and risks are tables of their own."""


@pytest.mark.parametrize("table", TABLES)
def test_the_page_lists_every_setting_and_no_other(root: Path, table: str) -> None:
    page = (root / "docs/reference/holdfast-toml.md").read_text()
    (section,) = re.findall(rf"^## \[?{re.escape(table)}\]?\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    listed = set(re.findall(r"^\| `(\w+)` \|", section, re.M))
    own = {"groups", "risks"} if table == "The file" else set()
    assert listed == set(TABLES[table].__struct_fields__) - NOT_SET_HERE | own
