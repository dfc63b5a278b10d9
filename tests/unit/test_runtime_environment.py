"""What a process is started with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.hosts.runtime import environment
from holdfast.hosts.runtime.description import Runtime
from holdfast.hosts.runtime.environment import command_of, environment_of
from holdfast.model.errors import FunctionNotLoadable

HERE = f"python{sys.version_info.major}.{sys.version_info.minor}"


def described(**members: object) -> Runtime:
    return Runtime(**{"function": "f", "folder": "code", "handler": "app.handler", **members})  # type: ignore[arg-type]


@pytest.mark.parametrize("runtime", ["python3", "python", HERE])
def test_this_python_runs_the_official_client_if_it_is_there(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_of(described(runtime=runtime)) == (sys.executable, "-s", "-m", "awslambdaric", "app.handler")
    monkeypatch.setattr(environment, "_has_official_client", lambda: False)
    program, *how, client, handler = command_of(described(runtime=runtime))
    assert (program, how, Path(client).name, handler) == (sys.executable, ["-s", "-u"], "python_client.py", "app.handler")
    assert Path(client).is_file()


def test_another_python_runs_our_client(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}" if name == "python3.99" else None)
    assert command_of(described(runtime="python3.99"))[0] == "/bin/python3.99"
    for _ in range(2):
        assert command_of(described(runtime="python3.98")) == (sys.executable, "-s", "-m", "awslambdaric", "app.handler")
    assert caplog.text.count("wants Python 3.98, which is not here") == 1, "it is said once, not with every process"


def test_node_runs_the_official_client_where_the_function_brings_a_built_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    runtime = described(runtime="nodejs22.x", folder=str(tmp_path))
    assert Path(command_of(runtime)[2]).name == "node_client.mjs"
    assert Path(command_of(runtime)[2]).is_file()
    client = tmp_path / "node_modules" / "aws-lambda-ric"
    (client / "bin").mkdir(parents=True)
    (client / "bin" / "index.mjs").touch()
    assert Path(command_of(runtime)[2]).name == "node_client.mjs", "it was not built"
    (client / "build" / "Release").mkdir(parents=True)
    (client / "build" / "Release" / "rapid-client.node").touch()
    assert command_of(runtime) == ("/bin/node", "--max-old-space-size=64", str(client / "bin" / "index.mjs"), "app.handler")


def test_nodes_heap_is_as_large_as_its_memory_allows_unless_the_function_says_so_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert command_of(described(runtime="nodejs22.x", memory_mb=512))[1] == "--max-old-space-size=448"
    own = {"NODE_OPTIONS": "--max-old-space-size=100"}
    assert Path(command_of(described(runtime="nodejs22.x", environment=own))[1]).name == "node_client.mjs"


def test_what_cannot_be_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FunctionNotLoadable, match=r"'ruby3\.3', which is not known here"):
        command_of(described(runtime="ruby3.3"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(FunctionNotLoadable, match="no `node` here"):
        command_of(described(runtime="nodejs20.x"))


def test_a_function_may_bring_its_own_command() -> None:
    assert command_of(described(runtime="provided.al2023", command=("./bootstrap",))) == ("./bootstrap",)


def test_a_functions_own_variables_win_except_those_that_reach_it() -> None:
    own = {"AWS_REGION": "eu-central-1", "MINE": "1", "AWS_LAMBDA_RUNTIME_API": "elsewhere:1", "_HANDLER": "other"}
    own["AWS_LAMBDA_FUNCTION_NAME"] = "another"
    made = environment_of(described(environment=own), ("python",), "127.0.0.1:5", "stream", "own-home")
    assert (made["AWS_REGION"], made["MINE"]) == ("eu-central-1", "1")
    assert (made["AWS_LAMBDA_RUNTIME_API"], made["_HANDLER"], made["AWS_LAMBDA_FUNCTION_NAME"]) == ("127.0.0.1:5", "app.handler", "f")


def test_the_standard_variables_are_there() -> None:
    made = environment_of(described(version="3", memory_mb=512, runtime="python3.13"), ("python",), "127.0.0.1:5", "stream", "own-home")
    wanted = {
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "AWS_LAMBDA_FUNCTION_VERSION": "3",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/f",
        "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "AWS_ENDPOINT_URL_LAMBDA": "http://127.0.0.1:5",
        "LAMBDA_TASK_ROOT": "code",
        "TZ": ":UTC",
    }
    assert {name: made[name] for name in wanted} == wanted
    assert (made["HOME"], made["TMPDIR"], made["PYTHONNOUSERSITE"]) == ("own-home", "own-home/tmp", "1")
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "PATH", "LANG"} <= made.keys()
