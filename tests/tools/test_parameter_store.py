"""parameter_store: from a file, and from SSM as moto's server plays it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest

from holdfast.workers.tools.parameters import ParameterFile, ParameterStore, Ssm, parameters_from
from holdfast.workers.tools.seam import Effect
from holdfast.workers.tools.secrets import FileSecrets, Secrets, SsmSecrets, secrets_from
from tests.tools.calls import called, failure

TOML = """
[parameters]
limit = 5
"/shop/exact" = "whole name"
since = 2026-01-02
[parameters.shop.limits]
max = 1900
names = ["a", "b"]
[secrets]
KEY = "never"
"""


@pytest.fixture
def store(tmp_path: Path) -> ParameterStore:
    (tmp_path / "p.toml").write_text(TOML)
    return ParameterStore(ParameterFile(tmp_path / "p.toml"))


@pytest.mark.parametrize("name,value", [
    ("limit", 5), ("/limit", 5), ("/shop/exact", "whole name"), ("/shop/limits/max", 1900),
    ("shop/limits", {"max": 1900, "names": ["a", "b"]}),
    ("since", "2026-01-02"),
])  # fmt: skip
async def test_a_parameter_is_found_by_its_name_or_along_its_parts(store: ParameterStore, name: str, value: Any) -> None:
    assert (await called(store, {"name": name})).result == value
    assert store.effect is Effect.READ


@pytest.mark.parametrize("name", ["KEY", "secrets/KEY", "/secrets/KEY", "../secrets/KEY", "nothing", "limit/more", "/"])
async def test_what_is_no_parameter_is_not_found_and_a_secret_is_none(store: ParameterStore, name: str) -> None:
    error = await failure(store, {"name": name})
    assert (error.code, error.details, "never" in error.message) == ("tool_failed", {"reason": "not_found"}, False)


async def test_a_json_file_and_a_changed_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"parameters": {"a": 1}}')
    store = ParameterStore(ParameterFile(path))
    assert (await called(store, {"name": "a"})).result == 1
    path.write_text('{"parameters": {"a": 2}}')
    assert (await called(store, {"name": "a"})).result == 2
    path.write_text("[]")
    assert (await failure(store, {"name": "a"})).details == {"reason": "not_found"}
    path.write_text("{")
    assert "is not valid TOML or JSON" in (await failure(store, {"name": "a"})).message
    path.unlink()
    assert (await failure(store, {"name": "a"})).code == "tool_unavailable"


# --- SSM


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    server = pytest.importorskip("moto.server", reason="moto's server is not installed: SSM is not asked").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def ssm(aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ssm]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with closing(boto3.client("ssm", region_name="eu-central-1", endpoint_url=aws)) as client:
        for name, value, kind in [
            ("/w/a", "1", "String"),
            ("/w/list", "x,y", "StringList"),
            ("/w/key", "hush", "SecureString"),
            ("/other/b", "2", "String"),
        ]:
            client.put_parameter(Name=name, Value=value, Type=kind, Overwrite=True)
    with closing(Ssm(prefix="/w/", region="eu-central-1", endpoint_url=aws)) as made:
        yield made


async def test_parameters_come_from_ssm_under_the_operators_prefix(ssm: Ssm) -> None:
    store = ParameterStore(ssm)
    assert [(await called(store, {"name": name})).result for name in ("/w/a", "/w/list")] == ["1", ["x", "y"]]
    assert (await failure(store, {"name": "/w/nothing"})).details == {"reason": "not_found"}
    assert (await failure(store, {"name": "/other/b"})).code == "access_denied"


async def test_a_secure_string_is_for_tools_only(ssm: Ssm) -> None:
    error = await failure(ParameterStore(ssm), {"name": "/w/key"})
    assert (error.code, "hush" in error.message) == ("access_denied", False)
    assert Secrets([SsmSecrets(ssm, "/w/")]).resolve(["key"], "pay") == {"key": "hush"}


async def test_ssm_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    gone = Ssm(prefix="/", region="eu-central-1", endpoint_url="http://127.0.0.1:1", timeout_seconds=1)
    assert (await failure(ParameterStore(gone), {"name": "/a"})).code == "tool_unavailable"


def test_a_setting_names_a_file_or_ssm() -> None:
    assert [type(parameters_from(text)) for text in ("p.toml", "ssm:/w/")] == [ParameterFile, Ssm]
    assert [type(secrets_from(text)) for text in ("s.toml", "ssm:/w/")] == [FileSecrets, SsmSecrets]
