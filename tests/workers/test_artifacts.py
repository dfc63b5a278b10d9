"""Artifacts in a bucket: shared by machines, as careful as a folder, and told of at the start when they cannot be kept there."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import obstore
import pytest

import holdfast
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.terms import Retries
from holdfast.model.errors import ExtraMissing, HoldfastError
from holdfast.operator.holdfast_toml import read_operator
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.artifacts import ArtifactMissing, Artifacts
from holdfast.workers.storage.bucket import Bucket
from holdfast.workers.storage.choice import open_storage
from holdfast.workers.storage.seam import ArtifactsUnusable
from holdfast.workers.tools.seam import ToolFailed
from tests.workers.harness import LOCAL, InlineWorker, contract, request, worker_service
from tests.workers.pages import page, write
from tests.workers.processes import Runner
from tests.workers.s3 import BUCKET, NO_SERVER, S3, an_s3

KEEPING = """
from holdfast import worker

@worker("keeping.md")
async def keep(inputs, ctx):
    if "open" in inputs:
        with await ctx.open(inputs["open"]) as file:
            return {"read": file.read().decode()}
    if "large" in inputs:
        return {"length": len(inputs["large"])}
    return {"kept": await ctx.artifact("note.txt", "hello", media_type="text/plain"), "large": "x" * 100_000}
"""
MOST = 1 << 24
NO_KEYS = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with an_s3() as made:
        yield made


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


def artifacts(prefix: str) -> Artifacts:
    return Artifacts(open_storage(f"s3://{BUCKET}/{prefix}"), MOST)


def kept(artifacts: Artifacts, tenant: str, data: bytes) -> str:
    return artifacts.keep(tenant, "a.bin", "application/octet-stream", io.BytesIO(data).read).artifact_id


def read(artifacts: Artifacts, tenant: str, identity: str) -> bytes:
    with os.fdopen(artifacts.open(tenant, identity), "rb") as file:
        return file.read()


# --- shared


def test_what_one_machine_has_kept_another_reads_after_its_death(s3: S3, tmp_path: Path) -> None:
    """Two runners, each with its own operator's file, on one store; bodies are in their jails."""
    file = write(tmp_path / "worker", KEEPING, keeping=page("keeping", attempts=1))

    def machine(name: str) -> Runner:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "holdfast.toml").write_text(f'artifacts = "s3://{BUCKET}/fleet"\n')
        return Runner(str(tmp_path / "s.db"), file, folder=folder, environment=s3.environment)

    one = machine("one")
    with closing(machine("other")) as other:
        made = one.run("keeping", {})["outputs"]
        one.kill()
        assert other.run("keeping", {"open": made["kept"]})["outputs"] == {"read": "hello"}
        assert other.run("keeping", {"large": made["large"]})["outputs"] == {"length": 100_000}
    assert not list(tmp_path.rglob("artifacts")), "none of it is in a folder"
    assert s3.environment["AWS_SECRET_ACCESS_KEY"] not in str(list(s3.bodies().values()))


# --- careful


def test_a_large_one_goes_in_parts_and_comes_back_as_a_file_that_cannot_be_written_to(s3: S3) -> None:
    large, data = artifacts("large"), os.urandom(11 << 20)
    identity = kept(large, "ann", data)
    assert kept(large, "ann", data) == identity, "keeping it again changes nothing"
    descriptor = large.open("ann", identity)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(descriptor, b"x")
    with os.fdopen(descriptor, "rb") as file:
        assert file.read() == data
    assert read(large, "ann", kept(large, "ann", b"")) == b""
    before = s3.bodies()
    with pytest.raises(ToolFailed, match="artifact_too_large"):
        kept(large, "ann", b"x" * (MOST + 1))
    assert s3.bodies() == before


def test_what_was_changed_or_removed_in_the_bucket_is_not_handed_out(s3: S3) -> None:
    careful = artifacts("careful")
    identity = kept(careful, "ann", b"as it was")
    (bytes_at,) = [key for key in s3.bodies() if key.endswith(identity)]
    note = s3.bodies()[f"{bytes_at}.json"]
    for changed in (b"as it is!", b"as it was, and much more", b""):
        s3.put(bytes_at, changed)
        with pytest.raises(ArtifactMissing, match="were changed after they were stored"):
            read(careful, "ann", identity)
    s3.put(bytes_at, bytes(8 << 20))
    descriptor = open_storage(f"s3://{BUCKET}/careful").open(bytes_at.split("/")[1], identity, 9)
    assert descriptor is not None
    assert 9 < os.fstat(descriptor).st_size < 4 << 20, "what is too large is not fetched to its end"
    os.close(descriptor)
    s3.client.delete_object(Bucket=BUCKET, Key=bytes_at)
    with pytest.raises(ArtifactMissing, match="are missing in the storage"):
        read(careful, "ann", identity)
    assert read(careful, "ann", kept(careful, "ann", b"as it was")) == b"as it was", "kept again, it is there again"
    for changed in (b"{", note.replace(b"a.bin", b"b.bin")):
        s3.put(f"{bytes_at}.json", changed)
        with pytest.raises(ArtifactMissing, match="The note"):
            careful.find("ann", identity)


def test_a_tenant_finds_its_own_in_a_bucket_and_nothing_else(s3: S3) -> None:
    ours = artifacts("tenants")
    identity = kept(ours, "ann", b"hers")
    for tenant, asked in (("bob", identity), ("ann", f"../{identity}"), ("ann", "0" * 32), ("../ann", identity)):
        with pytest.raises(ArtifactMissing):
            ours.open(tenant, asked)
    assert kept(ours, "bob", b"hers") == identity
    ours.forget("ann")
    with pytest.raises(ArtifactMissing):
        ours.open("ann", identity)
    assert read(ours, "bob", identity) == b"hers", "the same bytes are not shared"


def test_the_notes_of_a_tenant_are_removed_before_the_bytes(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, deleted = artifacts("forgotten"), list[str]()
    identities = {kept(ours, "ann", bytes([at])) for at in range(3)}
    real = obstore.delete

    def delete(store: Any, paths: Any) -> None:
        deleted.extend(path.rpartition("/")[2] for path in paths)
        real(store, paths)

    monkeypatch.setattr(obstore, "delete", delete)
    ours.forget("ann")
    assert {name.removesuffix(".json") for name in deleted[:3]} == set(deleted[3:]) == identities
    assert all(name.endswith(".json") for name in deleted[:3])


async def test_a_bucket_that_goes_away_costs_an_attempt_and_nothing_is_told_as_stored(s3: S3, tmp_path: Path) -> None:
    s3.client.create_bucket(Bucket="passing")
    storage = open_storage("s3://passing")
    s3.client.delete_object(Bucket="passing", Key="holdfast-artifacts")
    s3.client.delete_bucket(Bucket="passing")
    tried: list[str] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        tried.append(inputs["do"])
        if tried == ["come back", "come back"]:
            s3.client.create_bucket(Bucket="passing")
        if inputs["do"] == "open":
            await ctx.open({"artifact_id": "0" * 32})
        return {"large": "x" * 100_000} if inputs["do"] == "move out" else {"kept": await ctx.artifact("a", b"x")}

    worker = InlineWorker(contract(retries=Retries(max_attempts=2)), body)
    async with worker_service(worker, folder=tmp_path) as service:
        service.artifacts = Artifacts(storage, MOST)
        for do in ("keep", "open", "move out"):
            response = await service.invoke(request(do=do), LOCAL)
            assert response.error is not None
            assert (response.error.error_code, response.status, response.outputs) == (
                "tool_unavailable",
                ResponseStatus.RETRYABLE_ERROR,
                None,
            )
            assert (tried, "passing" in response.error.message) == ([do, do], False)
            tried.clear()
        response = await service.invoke(request(do="come back"), LOCAL)
        assert (response.status, len(tried)) == (ResponseStatus.OK, 2)


class _Overworked(BaseHTTPRequestHandler):
    """A service that answers 500 or hangs up for a while; afterwards it takes everything."""

    bad: ClassVar[int] = 0

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        type(self).bad -= 1
        if self.bad >= 0 and self.bad % 2:
            return
        self.send_response(500 if self.bad >= 0 else 200)
        self.send_header("content-length", "0")
        self.send_header("etag", '"e"')
        self.end_headers()


def test_a_service_that_is_overworked_for_some_seconds_costs_no_attempt(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Overworked) as busy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{busy.server_address[1]}")
        serving = threading.Thread(target=busy.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        storage = Bucket(f"s3://{BUCKET}/busy")
        _Overworked.bad = 5
        storage.publish("home", "id", io.BytesIO(b"kept"), b"{}")
        _Overworked.bad = 100
        with pytest.raises(ArtifactsUnusable, match="gave no valid answer"):
            storage.check()
        busy.shutdown()
        serving.join()


# --- at the start


@pytest.mark.parametrize(
    "where, environment, code, says",
    [
        ("s3://nobodys/x", {}, "artifacts_unusable", "there is no such bucket (NoSuchBucket)"),
        ("s3://box/x", {"AWS_SECRET_ACCESS_KEY": "hush-hush"}, "artifacts_unusable", "access was refused (SignatureDoesNotMatch)"),
        ("s3://box/x", {"AWS_ENDPOINT_URL": NO_SERVER}, "artifacts_unusable", "the storage gave no valid answer (Connect)"),
        ("s3://box/x", NO_KEYS, "artifacts_unusable", "there are no credentials in the environment (AWS_ACCESS_KEY_ID"),
        ("az://box/x", {}, "artifacts_unusable", "is missing or wrong (AZURE_STORAGE_ACCOUNT_NAME"),
        ("s3://me:hush-hush@box/x", {}, "invalid_parameter", "credentials or options in its address"),
        ("s3://box/x?secret=hush-hush", {}, "invalid_parameter", "credentials or options in its address"),
        (
            "ftp://box/x",
            {},
            "invalid_parameter",
            "`artifacts` is 'ftp://box/x', which is not supported; it may be s3://bucket/prefix, gs://",
        ),
        ("s3://", {}, "invalid_parameter", "`artifacts` is 's3://'"),
        (__file__, {}, "artifacts_unusable", "Not a directory"),
    ],
)
async def test_what_cannot_be_used_is_told_before_anything_is_started(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, environment: dict[str, str], code: str, says: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    file = write(tmp_path / "worker", KEEPING, keeping=page("keeping"))
    store = tmp_path / "s.db"
    with pytest.raises(HoldfastError) as caught:
        async with holdfast.open(str(store), workers=[file], worker_settings=WorkerSettings(artifacts=where)):
            raise AssertionError("it was opened")
    told = str(caught.value)
    assert (caught.value.code, says in told, "\n" in told, caught.value.__suppress_context__ or caught.value.__context__ is None) == (
        code,
        True,
        False,
        True,
    ), told
    assert "hush" not in told
    assert os.environ.get("AWS_SECRET_ACCESS_KEY", "hush") not in told
    assert not store.exists()


def test_without_the_extra_a_sentence_names_the_command_and_a_folder_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "holdfast.workers.storage.bucket", raising=False)
    with pytest.raises(ExtraMissing, match=r"pip install 'holdfast\[s3\]'"):
        open_storage("s3://box/x")
    (tmp_path / "holdfast.toml").write_text('artifacts = "shared"')
    beside = read_operator(file=tmp_path / "holdfast.toml", environment={}).artifacts
    assert beside == str(tmp_path / "shared")
    identity = kept(Artifacts(open_storage(beside), MOST), "ann", b"hers")
    assert read(Artifacts(open_storage((tmp_path / "shared").as_uri()), MOST), "ann", identity) == b"hers"
