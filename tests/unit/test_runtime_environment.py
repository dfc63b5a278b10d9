"""What a process is started with."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import botocore.session
import pytest
from botocore.utils import get_environ_proxies

from holdfast.lambda_api.runtime import environment
from holdfast.lambda_api.runtime.environment import command_of, environment_of, is_tried
from holdfast.lambda_api.runtime.function_warnings import runs_on, warnings_of
from holdfast.lambda_api.runtime.interpreters import Interpreters
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.model.errors import FunctionNotLoadable

HERE = f"python{sys.version_info.major}.{sys.version_info.minor}"


def described(**members: object) -> Runtime:
    return Runtime(**{"function": "f", "folder": "code", "handler": "app.handler", **members})  # type: ignore[arg-type]


def file_that(folder: Path, name: str, text: str) -> str:
    """An executable file in a folder of its own, which is answered."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return str(folder)


def python_of(folder: Path, version: str) -> str:
    """A folder with a Python that says it has this version; it lives behind a shim."""
    program = Path(file_that(folder / "real", "python", "#!/bin/sh\n")) / "python"
    return file_that(folder, f"python{version}", f"#!/bin/sh\necho {version} {program}\n")


def node_of(folder: Path, version: str) -> str:
    return file_that(folder, "node", f"#!/bin/sh\necho {version} {folder}/node\n")


@pytest.mark.parametrize("runtime", ["python3", "python", HERE])
def test_this_python_runs_the_official_client_if_it_is_there(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Interpreters("")
    assert command_of(described(runtime=runtime), nothing) == (sys.executable, "-s", "-m", "awslambdaric", "app.handler")
    assert warnings_of(described(runtime=runtime), nothing) == []
    monkeypatch.setattr(environment, "_has_official_client", lambda: False)
    program, *how, client, handler = command_of(described(runtime=runtime), nothing)
    assert (program, how, Path(client).name, handler) == (sys.executable, ["-s", "-u"], "python_client.py", "app.handler")
    assert Path(client).is_file()


def test_another_python_that_starts_runs_our_client_without_its_shim(tmp_path: Path) -> None:
    found = Interpreters(python_of(tmp_path / "a", "3.99"))
    program, *_, client, handler = command_of(described(runtime="python3.99"), found)
    assert (program, Path(client).name, handler) == (str(tmp_path / "a" / "real" / "python"), "python_client.py", "app.handler")
    assert warnings_of(described(runtime="python3.99"), found) == []
    assert runs_on("python3.99", found) == ""


@pytest.mark.parametrize(
    "script, why",
    [
        ("#!/bin/sh\necho 'shim: command not found' >&2\nexit 127\n", "it exits with 127: shim: command not found"),
        ("#!/bin/sh\necho 3.98 /bin/sh\n", "it is version 3.98"),
        ("#!/bin/sh\necho hello\n", "it does not say its version"),
        ("#!/nowhere/to/be/found\n", "it cannot be started: No such file or directory"),
        ("#!/bin/sh\nexec sleep 600\n", "it did not say its version within 0.1 s"),
    ],
)
def test_a_python_that_is_there_and_does_not_run_is_named_with_what_runs_instead(tmp_path: Path, script: str, why: str) -> None:
    folder = file_that(tmp_path / "shims", "python3.99", script)
    found = Interpreters(folder, seconds=0.1 if "sleep" in script else 10)
    assert command_of(described(runtime="python3.99"), found) == (sys.executable, "-s", "-m", "awslambdaric", "app.handler")
    (caution,) = warnings_of(described(runtime="python3.99"), found)
    assert caution.text.startswith(f"warning: python3.99 (wanted by f): {folder}/python3.99 is not used: {why}; the Python that serves (")
    assert caution.text.endswith(f"{sys.executable}) runs it instead.")
    assert runs_on("python3.99", found) == f"Python {HERE.removeprefix('python')}"


def test_a_python_behind_a_shim_that_does_not_run_is_used_and_the_shim_is_named(tmp_path: Path) -> None:
    broken = file_that(tmp_path / "shims", "python3.99", "#!/bin/sh\nexit 1\n")
    found = Interpreters(os.pathsep.join([broken, python_of(tmp_path / "a", "3.99")]))
    assert command_of(described(runtime="python3.99"), found)[0] == str(tmp_path / "a" / "real" / "python")
    (caution,) = warnings_of(described(runtime="python3.99"), found)
    assert caution.text.endswith(f"{broken}/python3.99 is not used: it exits with 1: it says nothing.")


def test_a_python_that_is_not_there_is_said_with_what_runs_instead(tmp_path: Path) -> None:
    (caution,) = warnings_of(described(runtime="python3.98"), Interpreters(str(tmp_path)))
    assert "there is no python3.98 on the path; the Python that serves (" in caution.text


def test_an_interpreter_that_is_chosen_is_known_while_another_one_is_tried(tmp_path: Path) -> None:
    script = f"#!/bin/sh\necho > {tmp_path}/tried\nwhile [ ! -e {tmp_path}/known ]; do sleep 0.01; done\nexit 1\n"
    slow = file_that(tmp_path / "slow", "python3.98", script)
    found = Interpreters(os.pathsep.join([python_of(tmp_path / "a", "3.99"), slow]), seconds=30)
    command = command_of(described(runtime="python3.99"), found)
    trying = threading.Thread(target=command_of, args=(described(runtime="python3.98"), found), daemon=True)
    trying.start()
    while not (tmp_path / "tried").exists():
        assert trying.is_alive()
    assert is_tried(described(runtime="python3.99"), found)
    assert command_of(described(runtime="python3.99"), found) == command
    assert trying.is_alive()
    (tmp_path / "known").touch()
    trying.join()


def test_each_file_is_tried_once_however_many_functions_want_it(tmp_path: Path) -> None:
    folder = file_that(tmp_path / "shims", "python3.99", f"#!/bin/sh\necho tried >> {tmp_path}/tries\nexit 1\n")
    found = Interpreters(os.pathsep.join([folder, folder]))
    for name in ("f", "g", "h"):
        command_of(described(function=name, runtime="python3.99"), found)
        assert [caution.about for caution in warnings_of(described(function=name, runtime="python3.99"), found)] == ["runtime python3.99"]
    assert (tmp_path / "tries").read_text().splitlines() == ["tried"]


def test_node_of_another_version_runs_a_function_and_that_is_said(tmp_path: Path) -> None:
    old = node_of(tmp_path / "old", "20.1.2")
    found = Interpreters(old)
    assert command_of(described(runtime="nodejs22.x"), found)[0] == f"{old}/node"
    (caution,) = warnings_of(described(runtime="nodejs22.x"), found)
    assert caution.text.endswith(f": Node 20.1.2 ({old}/node) runs it; there is no Node 22 on the path.")
    assert runs_on("nodejs22.x", found) == "Node 20.1.2"
    both = Interpreters(os.pathsep.join([old, node_of(tmp_path / "new", "22.0.0")]))
    assert command_of(described(runtime="nodejs22.x"), both)[0] == str(tmp_path / "new" / "node"), "the one that fits is used"


def test_node_runs_the_official_client_where_the_function_brings_a_built_one(tmp_path: Path) -> None:
    node = node_of(tmp_path / "bin", "22.0.0")
    found = Interpreters(node)
    runtime = described(runtime="nodejs22.x", folder=str(tmp_path))
    assert Path(command_of(runtime, found)[-2]).name == "node_client.mjs"
    assert Path(command_of(runtime, found)[-2]).is_file()
    client = tmp_path / "node_modules" / "aws-lambda-ric"
    (client / "bin").mkdir(parents=True)
    (client / "bin" / "index.mjs").touch()
    assert Path(command_of(runtime, found)[-2]).name == "node_client.mjs", "it was not built"
    (client / "build" / "Release").mkdir(parents=True)
    (client / "build" / "Release" / "rapid-client.node").touch()
    program, *_, script, handler = command_of(runtime, found)
    assert (program, script, handler) == (f"{node}/node", str(client / "bin" / "index.mjs"), "app.handler")


@pytest.mark.parametrize("memory, semi, old", [(128, 6, 116), (512, 25, 461), (10240, 512, 9216)])
def test_nodes_heap_has_the_sizes_that_lambda_gives_it(tmp_path: Path, memory: int, semi: int, old: int) -> None:
    found = Interpreters(node_of(tmp_path, "22.0.0"))
    command = command_of(described(runtime="nodejs22.x", memory_mb=memory), found)
    assert command[1:3] == (f"--max-semi-space-size={semi}", f"--max-old-space-size={old}")


@pytest.mark.parametrize(
    "own, left",
    [
        ("--max-old-space-size=100", ["--max-semi-space-size=6"]),
        ("--max_semi_space_size=1 --no-warnings", ["--max-old-space-size=116"]),
        ("--max-old-space-size=100 --max-semi-space-size=1", []),
    ],
)
def test_what_a_function_says_of_its_heap_itself_stays(tmp_path: Path, own: str, left: list[str]) -> None:
    found = Interpreters(node_of(tmp_path, "22.0.0"))
    _, *given, _, _ = command_of(described(runtime="nodejs22.x", environment={"NODE_OPTIONS": own}), found)
    assert given == left


def test_what_cannot_be_run_is_told(tmp_path: Path) -> None:
    nothing = Interpreters("")
    with pytest.raises(FunctionNotLoadable, match=r"'ruby3\.3', which is not known here"):
        command_of(described(runtime="ruby3.3"), nothing)
    with pytest.raises(FunctionNotLoadable, match="there is no `node` on the path"):
        command_of(described(runtime="nodejs20.x"), nothing)
    (caution,) = warnings_of(described(runtime="nodejs20.x"), nothing)
    assert caution.text.startswith("error[function_not_loadable]: nodejs20.x (wanted by f) cannot run: there is no `node` on the path;")
    broken = file_that(tmp_path, "node", "#!/bin/sh\necho no version is set >&2\nexit 126\n")
    (caution,) = warnings_of(described(runtime="nodejs20.x"), Interpreters(broken))
    assert f"{broken}/node is not used: it exits with 126: no version is set; install Node 20 on the path" in caution.text


def test_a_function_may_bring_its_own_command() -> None:
    assert command_of(described(runtime="provided.al2023", command=("./bootstrap",)), Interpreters("")) == ("./bootstrap",)


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


CONFIG = """[default]
ignore_configured_endpoint_urls = true
endpoint_url = http://elsewhere:1
services = other
[services other]
lambda =
  endpoint_url = http://elsewhere:2
"""


@pytest.mark.parametrize(
    "own",
    [
        {"AWS_ENDPOINT_URL_LAMBDA": "http://elsewhere:1"},
        {"AWS_ENDPOINT_URL": "http://elsewhere:1"},
        {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
        {"AWS_CONFIG_FILE": "config"},
        {"HTTP_PROXY": "http://elsewhere:1"},
        {"http_proxy": "http://elsewhere:1", "no_proxy": "example.com", "NO_PROXY": "example.org"},
        {"ALL_PROXY": "http://elsewhere:1", "NO_PROXY": "*"},
    ],
    ids=lambda own: "+".join(own),
)
def test_nothing_of_a_functions_own_variables_sends_its_checkpoints_elsewhere(
    own: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    made = environment_of(described(environment=own), ("python",), "127.0.0.1:5", "stream", str(tmp_path))
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in made.items():
        monkeypatch.setenv(name, value)
    endpoint = botocore.session.get_session().create_client("lambda").meta.endpoint_url
    assert endpoint == "http://127.0.0.1:5"
    assert {"http", "all"} & set(get_environ_proxies(endpoint)) == set(), "a proxy would have them too"


def test_a_variable_that_would_send_checkpoints_elsewhere_is_named_with_its_function(tmp_path: Path) -> None:
    own = {
        "AWS_ENDPOINT_URL_LAMBDA": "http://a:1",
        "AWS_ENDPOINT_URL": "http://b:1",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "MINE": "1",
    }
    said = [caution.text for caution in warnings_of(described(function="checkout", environment=own), Interpreters(""))]
    assert [text.partition(" is ")[0] for text in said] == [
        "warning: checkout: its variable AWS_ENDPOINT_URL_LAMBDA",
        "warning: checkout: its variable AWS_ENDPOINT_URL",
        "warning: checkout: its variable AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    ]
    assert not any("http://" in text for text in said), "its values may be secrets"
