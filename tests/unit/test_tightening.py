"""What a holdfast.toml may say in a folder that is not trusted: it may tighten, and everything else is named as ignored."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import InvalidParameter
from holdfast.operator.files import operator_files
from holdfast.operator.trust import TrustRefused
from holdfast.operator.untrusted_settings import RULES
from holdfast.service.runtimes.worker_runtime import ToolSettings, WorkerSettings
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.tools.cassettes import CassetteSettings
from holdfast.workers.tools.fetch_url import FetchSettings
from holdfast.workers.tools.language_model import ModelSettings


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def untrusted(here: Path, text: str, operators: str = "") -> tuple[WorkerSettings, tuple[str, ...]]:
    (here / "holdfast.toml").write_text(text)
    users = here.parent / "configuration" / "holdfast" / "holdfast.toml"
    users.parent.mkdir(parents=True, exist_ok=True)
    users.write_text(operators)
    files = operator_files(None, {"XDG_CONFIG_HOME": str(here.parent / "configuration")})
    return files.settings(trusted=False, isolation=None), files.ignored


LOOSE = """
parameters = "p.toml"
secrets = ["secrets"]
artifacts = "elsewhere"
cassette = "replay:answers.jsonl"
[policy]
isolation = "inline"
inline_artifact_bytes = 1
memory_mb = 100000
scratch_mb = 0
[policy.retry_codes.w]
access_denied = true
[policy.rate_limits.w]
count = 1000
per_seconds = 1
[fetch]
allow_private = ["169.254.169.254"]
ports = [22]
robots = false
ca_file = "mine.pem"
user_agent = "another"
max_bytes = -1
content_types = ["*/*"]
[model]
base_url = "http://127.0.0.1:1/v1"
model = "other"
models = ["other"]
api_key = "k"
max_output_tokens = 1000000
[model.prices]
small = { input = 0, output = 0 }
[signals]
log = "/tmp/log"
otel = true
[tools]
allow = ["pay"]
[queues.emails]
at_once = 1000
"""


def test_nothing_that_loosens_applies_and_all_of_it_is_named(here: Path) -> None:
    settings, ignored = untrusted(here, LOOSE)
    assert settings == WorkerSettings()
    assert ignored == (
        "artifacts", "cassette", "fetch.allow_private", "fetch.ca_file", "fetch.content_types", "fetch.max_bytes", "fetch.ports",
        "fetch.robots", "fetch.user_agent", "model.api_key", "model.base_url", "model.max_output_tokens", "model.model", "model.models",
        "model.prices", "parameters", "policy.inline_artifact_bytes", "policy.isolation", "policy.memory_mb", "policy.rate_limits",
        "policy.retry_codes", "policy.scratch_mb", "queues", "secrets", "signals", "tools",
    )  # fmt: skip


TIGHT = """
[policy]
isolation = "all"
approvals = ["pay"]
approval_seconds = 60
approvers = ["ada"]
memory_mb = 64
[policy.caps]
runs = 3
cost_usd = 0.5
[policy.tenant_caps.acme]
runs = 1
[policy.retry_codes.w]
access_denied = false
[fetch]
max_bytes = 1000
robots = true
ports = [443]
content_types = ["text/html"]
[model]
max_output_tokens = 10
"""


def test_what_tightens_applies_and_nothing_is_ignored(here: Path) -> None:
    settings, ignored = untrusted(here, TIGHT)
    assert ignored == ()
    assert settings.policy == Policy(
        approvals=frozenset({"pay"}), approval_seconds=60, approvers=("ada",), memory_mb=64, retry_codes={"w": {"access_denied": False}},
        caps=DayCaps(runs=3, cost_usd=Decimal("0.5")), tenant_caps={"acme": DayCaps(runs=1)},
    )  # fmt: skip
    assert settings.fetch == FetchSettings(max_bytes=1000, ports=(443,), content_types=("text/html",))
    assert settings.model.max_output_tokens == 10


OPERATORS = """
[policy]
isolation = "process"
approvers = ["ada", "bob"]
approvals = ["ship"]
[policy.caps]
runs = 10
[policy.tenant_caps.acme]
runs = 50
[policy.retry_codes.w]
access_denied = true
[fetch]
allow_private = ["10.0.0.7"]
robots = false
[model]
models = ["small", "large"]
[tools]
allow = ["ship"]
"""


@pytest.mark.parametrize(
    "text, reads, value, ignored",
    [
        ('[policy]\nisolation = "all"', "policy.isolation", "all", ()),
        ('[policy]\nisolation = "inline"', "policy.isolation", "process", ("policy.isolation",)),
        ('[policy]\napprovers = ["bob", "eve"]', "policy.approvers", ("bob",), ("policy.approvers",)),
        ('[policy]\napprovers = ["eve"]', "policy.approvers", ("ada", "bob"), ("policy.approvers",)),
        ("[policy]\napprovers = []", "policy.approvers", ("ada", "bob"), ("policy.approvers",)),
        ("[policy]\napprovals = []", "policy.approvals", frozenset({"ship"}), ()),
        ("[policy.caps]\nruns = 20", "policy.caps", DayCaps(runs=10), ("policy.caps",)),
        ("[policy.caps]\nruns = 5", "policy.tenant_caps", {"acme": DayCaps(runs=5)}, ()),
        ("[policy.caps]\nruns = -1", "policy.caps", DayCaps(runs=10), ("policy.caps",)),
        ("[policy.tenant_caps.acme]\nruns = 60", "policy.tenant_caps", {"acme": DayCaps(runs=50)}, ("policy.tenant_caps",)),
        (
            "[policy.tenant_caps.bolt]\nruns = 60",
            "policy.tenant_caps",
            {"acme": DayCaps(runs=50), "bolt": DayCaps(runs=10)},
            ("policy.tenant_caps",),
        ),
        ("[policy.retry_codes.w]\naccess_denied = false", "policy.retry_codes", {"w": {"access_denied": False}}, ()),
        ("[fetch]\nallow_private = []", "fetch.allow_private", (), ()),
        ("[fetch]\nrobots = true", "fetch.robots", True, ()),
        ('[model]\nmodels = ["small"]', "model.models", ("small",), ()),
        ('[tools]\nallow = ["pay"]', "tools", ToolSettings(allow=("ship",)), ("tools",)),
    ],
)
def test_the_operators_own_file_is_the_measure(here: Path, text: str, reads: str, value: Any, ignored: tuple[str, ...]) -> None:
    found, told = untrusted(here, text, OPERATORS)
    for name in reads.split("."):
        found = getattr(found, name)
    assert (found, told) == (value, ignored)


def test_the_file_of_a_trusted_folder_is_the_operators_and_that_of_the_user_stands_back(here: Path) -> None:
    (here / "holdfast.toml").write_text('[policy]\nisolation = "inline"\n')
    files = operator_files(None, {"XDG_CONFIG_HOME": str(here / "none")})
    assert files.settings(trusted=True, isolation=None).policy.isolation == "inline"
    assert files.settings(trusted=True, isolation="all").policy.isolation == "all"


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_file_that_is_named_is_the_operators_and_the_one_of_the_folder_is_not_read(here: Path, how: str) -> None:
    (here / "holdfast.toml").write_text("[policy\n")
    named = here.parent / "operator.toml"
    named.write_text('[policy]\nisolation = "process"\n')
    files = operator_files(named, {}) if how == "option" else operator_files(None, {"HOLDFAST_CONFIG": str(named)})
    assert (files.local, files.settings(trusted=False, isolation=None).policy.isolation) == (None, "process")


def test_a_users_file_that_others_could_write_is_refused(here: Path) -> None:
    users = here.parent / "configuration" / "holdfast" / "holdfast.toml"
    users.parent.mkdir(parents=True)
    users.write_text("")
    users.chmod(0o666)
    with pytest.raises(TrustRefused, match="writable by all users"):
        operator_files(None, {"XDG_CONFIG_HOME": str(here.parent / "configuration")})


@pytest.mark.parametrize("text", ["[" * 100_000, "a = " + "[" * 100_000, "#" * 2_000_000])
def test_a_hostile_file_costs_little_and_is_told(here: Path, text: str) -> None:
    (here / "holdfast.toml").write_text(text)
    with pytest.raises(InvalidParameter, match=r"holdfast\.toml is"):
        operator_files(None, {"XDG_CONFIG_HOME": str(here / "none")})


def test_the_page_has_the_rule_of_every_setting(root: Path) -> None:
    page = (root / "docs/reference/holdfast-toml.md").read_text()
    (section,) = re.findall(r"^## In a folder that is not trusted\n(.*?)(?=^## )", page, re.M | re.S)
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (applies|ignored)", section, re.M))
    kinds: dict[str, Any] = {"policy": Policy, "fetch": FetchSettings, "model": ModelSettings}
    wanted = {name: "ignored" for name in WorkerSettings.__struct_fields__ if name not in kinds}
    for table, kind in kinds.items():
        for name in kind.__struct_fields__:
            place = name if name in ("groups", "risks") else f"{table}.{name}"  # these two are tables of their own
            wanted[place] = "applies" if name in RULES[table] or name == "tenant_caps" else "ignored"
    assert rows == wanted
    assert CassetteSettings() == WorkerSettings().cassette
