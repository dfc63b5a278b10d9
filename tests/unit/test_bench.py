"""The bench measures what it says, and refuses to measure where the figures would lie."""

from pathlib import Path

import pytest

import bench.__main__
from bench import limit, workloads
from bench.table import Row, figure, table

MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /fast tmpfs rw 0 0
/dev/vdb /fast/really\\040slow xfs rw 0 0
overlay /twice overlay rw 0 0
tmpfs /twice tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    "path, kind",
    [
        ("/", "ext4"),
        ("/data", "ext4"),
        ("/faster", "ext4"),
        ("/fast", "tmpfs"),
        ("/fast/db", "tmpfs"),
        ("/fast/really slow/db", "xfs"),
        ("/twice/db", "tmpfs"),
    ],
)
def test_the_nearest_and_latest_mount_decides(path: str, kind: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert limit.filesystem(Path(path), mounts) == kind


def test_a_machine_that_lists_no_mounts_is_unknown_but_allowed(tmp_path: Path) -> None:
    assert limit.filesystem(tmp_path, tmp_path / "absent") == "unknown"
    assert limit.require_disk(tmp_path, "unknown") == "unknown"


@pytest.mark.parametrize("kind", sorted(limit.IN_MEMORY))
def test_a_filesystem_in_memory_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "filesystem", lambda _: kind)
    for measure in (limit.bare_commit, limit.sketch, limit.conditions):
        with pytest.raises(limit.NotADisk, match=f"is on {kind}, which lives in memory"):
            measure(tmp_path)


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests look at what is done, not how fast: they may run where the temporary folder is in memory."""
    monkeypatch.setattr(limit, "filesystem", lambda _: "ext4")


@pytest.mark.usefixtures("on_disk")
def test_the_limit_says_where_and_how_it_was_measured(tmp_path: Path) -> None:
    said = limit.conditions(tmp_path)
    assert "filesystem ext4" in said
    assert "synchronous=FULL" in said


@pytest.mark.usefixtures("on_disk")
def test_the_limit_does_the_work_it_measures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """`sketch` itself counts its rows and raises when one is lost."""
    assert limit.bare_commit(tmp_path, commits=3, runs=1) > 0
    assert limit.sketch(tmp_path, tasks=20, steps=3, runs=1) > 0
    assert list(tmp_path.iterdir()) == []


def test_rows_are_aligned_and_empty_columns_left_out() -> None:
    rows = [Row(what="bare commit", value=0.2514, unit="ms"), Row(what="W1", value=0.5, unit="ms", ratio=1.989, of="bare commit")]
    assert table(rows).splitlines() == [
        "what         measured   ratio  of",
        "-----------  --------  ------  -----------",
        "bare commit  0.251 ms",
        "W1             0.5 ms  1.99 ×  bare commit",
    ]


def test_a_broken_floor_is_said_aloud() -> None:
    row = Row(what="W2", value=7_000, unit="steps/s", floor="8,000 steps/s", kept=False)
    assert table([row]).splitlines()[-1].split() == ["W2", "7,000", "steps/s", "8,000", "steps/s", "BROKEN"]


@pytest.mark.parametrize("value, text", [(31_415.9, "31,416"), (100, "100"), (12.54, "12.5"), (0.23149, "0.231")])
def test_figures_show_the_digits_that_matter(value: float, text: str) -> None:
    assert figure(value) == text


def test_every_workload_is_measured_beside_the_limit_of_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.__main__, "PAIRS", 1)
    monkeypatch.setattr(bench.__main__, "FEW", 1)
    for name, small in (("W1_STEPS", 5), ("W2_EXECUTIONS", 10), ("W6_ROUNDS", 5), ("IDLE_SECONDS", 0.2)):
        monkeypatch.setattr(workloads, name, small)
    rows = {row.what: row for row in bench.__main__.measured(tmp_path)}
    for what in ("W1 async", "W1 def", "W2 async", "W2 def", "W2 async beside a CPU-bound step", "W6 start to result, median"):
        assert rows[what].value > 0
        assert rows[what].ratio is not None
        assert rows[what].of
    assert rows["W1 async"].floor == "≤ 2.5 ×"
    assert rows["W2 async"].floor == "≥ 8,000 and ≥ 0.25 ×"
    assert rows["answer in another process to wake, median"].floor == "≤ 100 ms"
    assert rows["idle CPU"].floor == "< 1 %"
