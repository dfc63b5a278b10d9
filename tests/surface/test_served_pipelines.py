"""Pipelines over HTTP, by the real server: invoked like workers, their nodes as JSON and as a picture, their person, their end."""

from __future__ import annotations

import json
from pathlib import Path

from tests.surface.serve_program import programs
from tests.surface.served_workers import approval_in, ask, events_of, web
from tests.surface.test_cli_pipelines import SOURCE


def test_a_served_pipeline_is_invoked_like_a_worker_and_tells_its_nodes(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(SOURCE)
    (tmp_path / "holdfast.toml").write_text('[signals]\nlog = "signals.log"\n')
    with programs(tmp_path) as started, web(started.begun("doubling.py", "--trust").started("/v1/workers/")) as client:
        assert [one["worker_id"] for one in client.get("/v1/workers").json()["workers"]] == ["doubling"]
        asked = ask(client, "doubling", {"n": 4}, idempotency_key="k")
        run = asked.json()["run_id"]
        nodes = client.get(f"/v1/runs/{run}/graph").json()["nodes"]
        picture = client.get(f"/v1/runs/{run}/graph", headers={"accept": "image/svg+xml"})
        decided = client.post(f"/v1/approvals/{approval_in(asked)['approval_id']}/approve", content="{}")
        over = client.get(f"/v1/runs/{run}", params={"wait": "30"})
        told = events_of(client.get(f"/v1/runs/{run}/events").text)
        missing = client.get("/v1/runs/none/graph")
        counted = [line for line in client.get("/metrics").text.splitlines() if line.startswith("node_count{")]
    assert [(node["node"], node["state"]) for node in nodes] == [("twice", "ok"), ("again", "ok"), ("sign-off", "waiting")]
    assert (picture.headers["content-type"], picture.text[:4]) == ("image/svg+xml", "<svg")
    assert (decided.status_code, over.json()["status"], over.json()["outputs"]) == (200, "ok", {"n": 16, "by": "approve"})
    ended = [data["node"] for _, event, data in told if event == "node" and data["state"] == "ok"]
    assert ended == ["twice", "again", "sign-off"]
    assert missing.status_code == 404
    assert counted == [f'node_count{{node="{node}",pipeline="doubling",state="ok"}} 1.0' for node in ended]
    lines = [json.loads(line) for line in (tmp_path / "signals.log").read_text().splitlines()]
    assert [(line["node"], line["run_id"]) for line in lines if line["event"] == "node_ended"] == [(node, run) for node in ended]
