"""What waits for a stranger never holds up what waits for the disk: each kind of waiting has threads of its own."""

from __future__ import annotations

import asyncio
import io
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.threads import Purpose, in_thread, pool_for
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.pinned_connection import asking_for, resolve
from tests.unit.source_files import modules


async def test_a_name_server_that_hangs_delays_no_artifact_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hanging(*_: Any, **__: Any) -> Any:
        release.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    artifacts = Artifacts(Folder(tmp_path), 1000)
    kept = artifacts.keep("default", "a", "application/json", io.BytesIO(b"[1]").read)
    names = [asyncio.ensure_future(_looked_up(f"t{number}", f"{number}.example")) for number in range(100)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(20):
            found = await artifacts.resolved("default", {"x": {"$artifact": {"artifact_id": kept.artifact_id}}})
            assert found == {"x": [1]}
            assert await in_thread(Purpose.KEYS, lambda: "key") == "key"
        assert not any(name.done() for name in names)
    finally:
        release.set()
    await asyncio.gather(*names)


async def test_one_tenants_slow_names_leave_threads_for_the_names_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def slow(host: str, *_: Any, **__: Any) -> Any:
        if host.startswith("slow"):
            release.wait(60)
        return [(0, 0, 0, "", ("192.0.2.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    hostile = [asyncio.ensure_future(_looked_up("hostile", f"slow{number}.example")) for number in range(100)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(20):
            assert await _looked_up("neighbour", "quick.example") == ["192.0.2.1"]
    finally:
        release.set()
    await asyncio.gather(*hostile)


async def _looked_up(tenant: str, host: str) -> list[str]:
    asking_for.set(tenant)
    return await resolve(host, 80)


def test_each_purpose_has_a_bounded_pool_of_its_own() -> None:
    pools = {purpose: pool_for(purpose) for purpose in Purpose}
    assert len(set(map(id, pools.values()))) == len(Purpose)
    assert all(0 < pool._max_workers <= 32 for pool in pools.values())


def test_nothing_of_ours_waits_in_the_loops_own_pool() -> None:
    """Libraries resolve names there."""
    used = [module.name for module in modules() if re.search(r"\bto_thread\(|run_in_executor\(None", module.text)]
    assert used == []
