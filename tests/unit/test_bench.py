"""The bench measures what it says, and refuses to measure where the figures would lie."""

from pathlib import Path

import pytest

import bench.__main__
import holdfast
from bench import limit, restart, workloads
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
    """`sketch` and `recall` themselves count their rows and raise when one is lost."""
    assert limit.bare_commit(tmp_path, commits=3, runs=1) > 0
    assert limit.sketch(tmp_path, tasks=20, steps=3, runs=1) > 0
    assert limit.recall(tmp_path, steps=20, runs=1) > 0
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
    sizes = {"W1_STEPS": 5, "W2_EXECUTIONS": 10, "W3_BRANCHES": 4, "W3_ITEMS": 6, "W6_ROUNDS": 5, "IDLE_SECONDS": 0.2}
    for name, small in sizes.items():
        monkeypatch.setattr(workloads, name, small)
    monkeypatch.setattr(restart, "W4_STEPS", 2)
    monkeypatch.setattr(restart, "W4_MANY_STEPS", 3)
    rows = {row.what: row for row in bench.__main__.measured(tmp_path)}
    steps = ("W1 async", "W1 def", "W2 async", "W2 def", "W2 async beside a CPU-bound step", "W6 start to result, median")
    branches = ("W3 parallel of 4, async", "W3 parallel of 4, def", "W3 map of 6, async", "W3 map of 6, def")
    restarts = ("W4 after 2 steps, async", "W4 after 2 steps, def", "W4 after 3 steps, async", "W4 after 3 steps, def")
    for what in (*steps, *branches, *restarts):
        assert rows[what].value > 0
        assert rows[what].ratio is not None
        assert rows[what].of
    floors = {what: row.floor for what, row in rows.items() if row.floor}
    assert floors == {
        "W1 async": "≤ 2.5 ×",
        "W2 async": "≥ 8,000 and ≥ 0.25 ×",
        "W3 parallel of 4, async": "≤ 0.25 s",
        "W3 map of 6, async": "≤ 2.5 s",
        "W4 after 2 steps, async": "≤ 30 ms",
        "W4 after 3 steps, async": "≤ 300 ms",
        "answer in another process to wake, median": "≤ 100 ms",
        "idle CPU": "< 1 %",
    }
    assert list(tmp_path.iterdir()) == []


async def test_a_restart_that_comes_to_something_else_is_not_measured(tmp_path: Path) -> None:
    """A figure for work that was not done would be the best one."""
    async with holdfast.open(tmp_path / "bench.db", functions=restart.FUNCTIONS) as opened:
        callback_id = await restart.asked(opened, "asks_late", 3)
        with pytest.raises(AssertionError, match=r"it came to \[3, 'now'\]"):
            await restart.answered(opened, callback_id, 4)


def test_a_process_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended without a word"):
        restart.w4(tmp_path, [("nobody", 3)], 1)
