"""What a server says of the functions it is about to run: before the first invocation, by their names, each thing once."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest

from holdfast.lambda_api.functions.function_records import Config
from holdfast.lambda_api.operations.invoke import Invoke
from holdfast.lambda_api.routes.app import make_app
from holdfast.lambda_api.serving import Serving, open_serving
from holdfast.lambda_api.templates.descriptions import DescribedFunction, FolderCode, TextCode
from holdfast.model.execution import Terms
from holdfast.service.settings import Settings

PLAIN = "def handler(event, context):\n    return event\n"


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Serving]:
    async with open_serving((), settings=Settings(store=str(folder / "test.db")), private_app=make_app) as service:
        yield service


def described(
    name: str = "f", *, runtime: str = "python3", environment: Mapping[str, str] | None = None, durable: bool = False
) -> DescribedFunction:
    terms = Terms(600) if durable else None
    config = Config(handler="app.handler", runtime=runtime, timeout=30, environment=environment or {}, terms=terms)
    return DescribedFunction(name=name, config=config, code=TextCode("app.py", PLAIN), aliases=("live",))


async def test_a_python_shim_that_does_not_run_is_said_when_its_functions_are_deployed_and_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shim = tmp_path / "shims" / "python3.99"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho 'shim: python3.99: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    async with served(tmp_path) as service:
        for name in ("first", "second"):
            await service.deploy(described(name, runtime="python3.99"))
        (said,) = [record.getMessage() for record in caplog.records if "python3.99" in record.getMessage()]
        assert said.startswith(
            f"warning: python3.99 (wanted by first): {shim} is not used: it exits with 127: shim: python3.99: command not found;"
        )
        assert sys.executable in said
        answer = await service.api.invoke(Invoke(function="second", payload=b"7"))
        assert (answer.error, answer.payload) == (None, b"7")


async def test_a_functions_own_endpoint_for_lambda_is_said_once_and_its_checkpoints_come_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps = (
        "from aws_durable_execution_sdk_python import durable_execution\n"
        "@durable_execution\n"
        "def handler(event, context):\n"
        "    return context.step(lambda _: 7, name='seven')\n"
    )
    own = {
        "AWS_ENDPOINT_URL_LAMBDA": "http://127.0.0.1:9",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }
    wanted = msgspec.structs.replace(described("checkout", environment=own, durable=True), code=TextCode("app.py", steps))
    async with served(tmp_path) as service:
        await service.deploy(wanted)
        said = [record.getMessage() for record in caplog.records if "checkout" in record.getMessage()]
        assert [text.split()[4] for text in said] == ["AWS_ENDPOINT_URL_LAMBDA", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"], (
            "not for each version"
        )
        answer = await service.api.invoke(Invoke(function="checkout", qualifier="live"))
        assert (answer.error, answer.payload) == (None, b"7")


WRAPPER = """#!/bin/sh
export WRAPPED="by $(basename "$0")"
program=$1
shift
exec "$program" "$@"
"""
TELLS = "import os\ndef handler(event, context):\n    return os.environ.get('WRAPPED')\n"


@pytest.mark.parametrize("named", ["/var/task/wrap", "wrap", "/layers/otel-instrument", "app.py"])
async def test_a_wrapper_of_the_functions_code_is_obeyed_and_any_other_is_named_as_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, named: str
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "app.py").write_text(TELLS)
    (folder / "wrap").write_text(WRAPPER)
    (folder / "wrap").chmod(0o755)
    wanted = described("checkout", environment={"AWS_LAMBDA_EXEC_WRAPPER": named})
    async with served(tmp_path) as service:
        await service.deploy(msgspec.structs.replace(wanted, code=FolderCode(folder)))
        said = [record.getMessage() for record in caplog.records if "AWS_LAMBDA_EXEC_WRAPPER" in record.getMessage()]
        answer = await service.api.invoke(Invoke(function="checkout"))
        if named.endswith("wrap"):
            assert (said, answer.payload) == ([], b'"by wrap"')
        else:
            assert answer.payload == b"null"
            (text,) = said
            assert text.startswith(f"warning: checkout: its AWS_LAMBDA_EXEC_WRAPPER {named!r} is ignored: there is no such file")
