"""Everything that a server leaves on the disk, walked: nothing of it is for other users, whatever the umask."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.parts import one_of_each
from tests.surface.serve_program import Program, until
from tests.surface.served_workers import ask, web, written

SIGNALS = '[all]\nsink = "file"\npath = "events.jsonl"\n'
KEPT = {"orders.db", "orders.db-wal", "orders.db-shm", "orders.db-holdfast", "orders.db.functions", "orders.db.logs", "orders.db.workers"}


def prepared(folder: Path) -> set[str]:
    """What the user has written: it follows the user's umask, and is not ours."""
    written(folder)
    with (folder / "holdfast.toml").open("a") as file:
        file.write('[signals]\nlog = "workers.log"\n')
    (folder / "app.py").write_text("def handler(event, context):\n    print('heard')\n    return event\n")
    properties = {"FunctionName": "apart", "Handler": "app.handler", "Runtime": "python3.11", "CodeUri": "."}
    template = {"Resources": {"apart": {"Type": "AWS::Serverless::Function", "Properties": properties}}}
    (folder / "template.json").write_text(json.dumps(template))
    (folder / "signals.toml").write_text(SIGNALS)
    return {path.name for path in folder.iterdir()}


def wide(folder: Path, own: set[str]) -> dict[str, str]:
    """What other users could reach, by its path."""
    found = {}
    for place, folders, files in os.walk(folder):
        inside = Path(place).relative_to(folder)
        if inside.parts[:1] and (inside.parts[0] in own or inside.parts[0] == "__pycache__"):
            continue
        for name in (*folders, *files):
            path = inside / name
            if path.parts[0] in own or path.parts[0] == "__pycache__":
                continue
            mode = stat.S_IMODE((folder / path).lstat().st_mode)
            is_snapshot = len(path.parts) > 2 and path.parts[:2] == ("orders.db.workers", "packages")
            allowed = {0o444, 0o555} if is_snapshot else {0o700} if (folder / path).is_dir() else {0o600}
            if mode not in allowed:
                found[str(path)] = f"{mode:04o}"
    return found


@pytest.mark.parametrize("umask", one_of_each([0o000, 0o022], kind=lambda umask: "umask", name="umask {:03o}".format))
def test_nothing_that_a_server_leaves_is_for_other_users(umask: int, tmp_path: Path) -> None:
    folder, temporary = tmp_path / "here", tmp_path / "temporary"
    for made in (folder, temporary):
        made.mkdir(mode=0o700)
    own = prepared(folder)
    environment = {"TMPDIR": str(temporary), "HOLDFAST_CASSETTE": "record:tape.jsonl"}
    words = ("worker.py", "template.json", "--signals", "signals.toml", "--store", "orders.db", "--port", "0", "--trust")
    server = Program(*words, cwd=folder, environment=environment, umask=umask)
    try:
        server.started("/v1/workers/")
        assert server.invoke("apart", {"x": 1})["Payload"] == {"x": 1}
        with web(server) as client:
            assert ask(client, "echo", {"say": "hi", "do": "large"}).json()["artifacts"]
            noted = folder / "noted"
            (folder / "go").touch()
            asked = {"log": str(noted), "go": str(folder / "go")}
            assert ask(client, "slow", asked).json()["status"] == "ok"
        own |= {"noted", "go", "go.asked"}
        until(lambda: any((folder / "orders.db.logs").rglob("*.jsonl")) or any((folder / "orders.db.logs").iterdir()), "a log")
        until((folder / "events.jsonl").exists, "a signal")
        until((folder / "workers.log").exists, "a line of a worker")
        names = {path.name for path in folder.iterdir()}
        assert KEPT | {"events.jsonl", "workers.log", "tape.jsonl"} <= names
        assert any(temporary.rglob("home-*")), "a function's process has its home here"
        assert any(temporary.rglob("sandbox-*")), "a worker's sandbox has its folder here"
        assert [wide(folder, own), wide(temporary, set())] == [{}, {}]
    finally:
        server.leave()
        server.close()
    assert [wide(folder, own), wide(temporary, set())] == [{}, {}]
    assert [path for path in temporary.glob("*/*") if path.name.startswith(("home-", "sandbox-"))] == []
