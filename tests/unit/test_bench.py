"""The bench measures what it says, and refuses to measure where the figures would lie."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

import holdfast
from bench import limit, restart, waiting
from bench.__main__ import keep, processor
from bench.figures import ASYNC, DEF, LIMIT, Floor, Line, Report, Taken
from bench.lines import specs
from bench.measuring import MEASURES, measured
from bench.peers.running import PEERS, Failed, Figures, Missing, Peer, environment, run, said
from bench.picture import picture
from bench.table import aligned, figure, text
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


# --- the table and the picture, from recorded figures --------------------------------------------------------------------------

RECORDED = Report(
    conditions=("filesystem ext4 · synchronous=FULL", "a machine"),
    lines=(
        Line(
            workload="W1",
            what="step in sequence",
            unit="ms",
            limit="bare commit",
            cells={
                LIMIT: Taken((0.2, 0.25, 0.3)),
                ASYNC: Taken((0.4, 0.5, 0.75), (0.2, 0.25, 0.3)),
                DEF: Taken((0.6, 0.75, 0.9), (0.2, 0.25, 0.3)),
                "DBOS": Taken((2.9, 3.0, 3.1)),
            },
            floors=(Floor(bound=2.5, of_limit=True),),
        ),
        Line(
            workload="W2",
            what="many executions",
            unit="steps/s",
            more=True,
            limit="sketch",
            cells={
                LIMIT: Taken((30_000.0,)),
                ASYNC: Taken((7_500.0,), (30_000.0,)),
                "DBOS": Taken((250.0,)),
                "AWS SDK": Taken((100.0,)),
            },
            floors=(Floor(bound=8_000), Floor(bound=0.25, of_limit=True)),
        ),
        Line(workload="W5", what="memory of one that waits", unit="KB", cells={ASYNC: Taken((5.0,)), "DBOS": Taken((34.0,))}),
    ),
    notes=("DBOS 3.3.0: as it comes.",),
)


def test_the_table_sets_everybody_beside_the_limit_with_median_spread_and_ratios() -> None:
    head, rule, *rows = text(RECORDED).split("\n\n")[1].splitlines()
    spans = [found.span() for found in re.finditer("-+", rule)]
    cells = [[row[start:end].strip() for start, end in spans] for row in (head, *rows)]
    assert cells == [
        ["", "", "unit", "limit", "Holdfast async", "Holdfast def", "DBOS", "AWS SDK",
         "async/limit", "def/limit", "vs DBOS", "vs AWS SDK", "limit is"],
        ["W1", "step in sequence", "ms", "0.25 ±20%", "0.5 ±35%", "0.75 ±20%", "3 ±3%", "",
         "2 ×", "3 ×", "6 ×", "", "bare commit"],
        ["W2", "many executions", "steps/s", "30,000", "7,500", "", "250", "100",
         "0.25 ×", "", "30 ×", "75 ×", "sketch"],
        ["W5", "memory of one that waits", "KB", "", "5", "", "34", "",
         "", "", "6.8 ×", "", ""],
    ]  # fmt: skip


def test_a_ratio_to_the_limit_is_the_median_of_pairs() -> None:
    """The medians would say 10: only the pairs know that the machine was slow in the middle, for both."""
    assert Taken((1.0, 10.0, 30.0), (1.0, 5.0, 1.0)).ratio == 2.0


def test_every_condition_and_note_is_printed() -> None:
    printed = text(RECORDED).splitlines()
    assert [line for line in (*RECORDED.conditions, *RECORDED.notes) if line not in printed] == []


def test_a_broken_floor_is_said_aloud() -> None:
    promises = text(RECORDED).split("\n\n")[-1].splitlines()[2:]
    assert [line.split()[-1] for line in promises] == ["kept", "BROKEN", "kept"]
    assert promises[1].split()[-6:] == ["async", "≥", "8,000", "steps/s", "7,500", "BROKEN"]
    assert RECORDED.broken


def test_a_run_is_written_down_whole_and_drawn(tmp_path: Path) -> None:
    results, drawn = tmp_path / "results" / "latest.json", tmp_path / "bench.svg"
    keep(RECORDED, results, drawn)
    assert Report.from_json(results.read_text(encoding="utf-8")) == RECORDED
    assert drawn.read_text(encoding="utf-8") == picture(RECORDED)


def test_the_picture_has_a_bar_for_everybody_who_was_measured_beside_a_limit() -> None:
    bars = _bars(picture(RECORDED))
    assert list(bars) == [
        "Holdfast async: 2 times slower than the limit",
        "Holdfast def: 3 times slower than the limit",
        "DBOS: 12 times slower than the limit",
        "Holdfast async: 4 times slower than the limit",
        "DBOS: 120 times slower than the limit",
        "AWS SDK: 300 times slower than the limit",
    ]


def test_bars_are_as_long_as_the_logarithm_says() -> None:
    bars = _bars(picture(RECORDED))
    two, four = bars["Holdfast async: 2 times slower than the limit"], bars["Holdfast async: 4 times slower than the limit"]
    assert four == pytest.approx(2 * two, abs=0.2)


def test_nothing_in_the_picture_stands_outside_of_it() -> None:
    drawn = ElementTree.fromstring(picture(RECORDED))
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    places = [(float(part.get("x", 0)), float(part.get("y", 0)), float(part.get("width", 0))) for part in drawn]
    assert [place for place in places if not (0 <= place[0] <= place[0] + place[2] <= width and 0 <= place[1] <= height)] == []


def _bars(drawn: str) -> dict[str, float]:
    """What each bar says when pointed at, and how long it is."""
    svg = "{http://www.w3.org/2000/svg}"
    bars = [bar for bar in ElementTree.fromstring(drawn).iter(f"{svg}rect") if bar.find(f"{svg}title") is not None]
    return {bar.findtext(f"{svg}title", ""): float(bar.get("width", 0)) for bar in bars}


def test_empty_columns_are_left_out() -> None:
    rows = [("bare commit", "0.251 ms", "", ""), ("W1", "0.5 ms", "", "bare commit")]
    assert aligned(("what", "measured", "nothing", "of"), rows, (1,)).splitlines() == [
        "what         measured  of",
        "-----------  --------  -----------",
        "bare commit  0.251 ms",
        "W1             0.5 ms  bare commit",
    ]


@pytest.mark.parametrize("value, text", [(31_415.9, "31,416"), (100, "100"), (12.54, "12.5"), (0.23149, "0.231")])
def test_figures_show_the_digits_that_matter(value: float, text: str) -> None:
    assert figure(value) == text


def test_the_processor_has_a_name_where_the_kernel_tells_it(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nmodel name\t: Abacus 9\nmodel name\t: Abacus 9\n")
    assert processor(told) == "Abacus 9"
    assert processor(tmp_path / "absent")


# --- what is measured ------------------------------------------------------------------------------------------------------------

SMALL = Sizes(
    w1_steps=5, w2_executions=10, w3_branches=4, w3_items=6, w4_steps=2, w4_many_steps=3, w5_executions=4, w6_rounds=5, wakes=2,
    idle_seconds=0.2, pairs=1, few=1,
)  # fmt: skip


@pytest.mark.usefixtures("on_disk")
def test_every_workload_is_measured_beside_the_limit_of_the_same_run(tmp_path: Path) -> None:
    lines, _ = measured(tmp_path, SMALL, say=lambda _: None)
    found = {f"{line.workload} {line.what}": line for line in lines}
    beside = {what: [*line.cells] for what, line in found.items() if line.limit}
    both = [LIMIT, ASYNC, DEF]
    assert beside == {
        "W1 step of 5 in sequence": both,
        "W2 10 executions of 5 steps": both,
        "W3 parallel of 4": both,
        "W3 map of 6": both,
        "W4 killed after 2 steps": both,
        "W4 killed after 3 steps": both,
        "W5 4 started, until they wait": both,
        "W5 4 started, until they ask": [LIMIT, ASYNC],
        "W5 4 timers due at once": both,
        "W6 start to result, median": both,
        "W6 start to result, 99th percentile": both,
    }
    for what in beside:
        cells = found[what].cells
        assert all(taken.ratio for column, taken in cells.items() if column != LIMIT), what
        assert min(sample for taken in cells.values() for sample in taken.samples) > 0
    assert set(found) - set(beside) == {
        "W2 … beside a CPU-bound step",
        "W5 memory of one that waits",
        "W5 memory of one that asks",
        "W5 memory of one that was evicted",
        "W5 CPU while all wait",
        "W5 CPU while all ask",
        "rest answer elsewhere to wake, median",
        "rest idle CPU",
    }
    assert list(tmp_path.iterdir()) == []


def test_the_promises_are_those_of_the_design() -> None:
    """`make bench` fails without them. Those of W5 are for 10,000 that wait."""
    told = {
        f"{spec.workload} {spec.what}": [
            f"{figure(floor.bound)}{' × limit' if floor.of_limit else f' {spec.unit}'}" for floor in spec.floors
        ]
        for spec in specs(Sizes()).values()
        if spec.floors
    }
    assert told == {
        "W1 step of 200 in sequence": ["2.5 × limit"],
        "W2 1,000 executions of 5 steps": ["8,000 steps/s", "0.25 × limit"],
        "W3 parallel of 1,000": ["0.25 s"],
        "W3 map of 10,000": ["2.5 s"],
        "W4 killed after 1,000 steps": ["30 ms"],
        "W4 killed after 10,000 steps": ["300 ms"],
        "W5 10,000 started, until they wait": ["5,000 /s"],
        "W5 10,000 started, until they ask": ["5,000 /s"],
        "W5 memory of one that waits": ["6 KB"],
        "W5 memory of one that asks": ["6 KB"],
        "W5 memory of one that was evicted": ["0.5 KB"],
        "W5 10,000 timers due at once": ["3 s"],
        "rest answer elsewhere to wake, median": ["100 ms"],
        "rest idle CPU": ["1 %"],
    }


def test_more_that_wait_than_were_promised_have_no_time_promised() -> None:
    assert specs(Sizes(w5_executions=50_000))["W5 due"].floors == ()


def test_sizes_reach_other_processes_unchanged() -> None:
    assert Sizes.from_json(SMALL.to_json()) == SMALL


def test_a_scene_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the scene 'nowhere' failed"):
        waiting.w5(tmp_path, "nowhere", SMALL)


# --- peers -----------------------------------------------------------------------------------------------------------------------


@dataclass
class Other:
    """Somebody beside us, who knows his figures, or has an excuse."""

    name: str
    answer: Figures | Exception
    workloads: Sequence[str] = ("W6", "rest")
    note: str = "as he comes"
    asked: list[str] = field(default_factory=list)

    def figures(self, workload: str, folder: Path, sizes: Sizes) -> Figures:
        self.asked.append(workload)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.usefixtures("on_disk")
def test_a_peer_that_is_missing_leaves_its_cells_empty_and_is_asked_once(tmp_path: Path) -> None:
    here, away = Other("Here", {"W6": [0.5, 0.7, 0.6]}), Other("Away", Missing("Away is not measured: it could not be installed."))
    lines, notes = measured(tmp_path, SMALL, only=["W6", "rest"], peers=[here, away], say=lambda _: None)
    median = lines[0]
    assert [*median.cells] == [LIMIT, ASYNC, DEF, "Here"]
    assert median.cells["Here"].median == 600  # in the unit of the line
    assert median.better("Here") == 600 / median.cells[ASYNC].median
    assert notes == ("as he comes", "Away is not measured: it could not be installed.")
    assert (here.asked, away.asked) == (["W6", "rest"], ["W6"])


@pytest.mark.usefixtures("on_disk")
def test_a_peer_that_fails_at_one_workload_is_still_asked_for_the_next(tmp_path: Path) -> None:
    tired = Other("Tired", Failed("Tired failed."))
    _, notes = measured(tmp_path, SMALL, only=["W6", "rest"], peers=[tired], say=lambda _: None)
    assert tired.asked == ["W6", "rest"]
    assert notes == ("as he comes", "Tired failed.", "Tired failed.")


@pytest.mark.usefixtures("on_disk")
def test_a_peer_cannot_bring_lines_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no line for"):
        measured(tmp_path, SMALL, only=["rest"], peers=[Other("Inventive", {"W7": [1.0]})], say=lambda _: None)


def test_an_environment_is_used_again_while_its_requirements_stay_the_same(tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("--no-index\n")
    place = tmp_path / "there"
    place.mkdir()
    (place / "requirements.txt").write_text("--no-index\n")
    assert environment(place, wanted, "Peer") == place / "bin" / "python"
    assert sorted(path.name for path in place.iterdir()) == ["requirements.txt"], "nothing was made"


def test_what_cannot_be_installed_is_said_in_one_line_and_tried_again_next_time(tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("--no-index\nnothing-of-this-name==1\n")
    with pytest.raises(Missing, match=r"^Peer is not measured: it could not be installed: ERROR: .*nothing-of-this-name.*$"):
        environment(tmp_path / "there", wanted, "Peer")
    assert not (tmp_path / "there" / "requirements.txt").exists()


def test_a_peer_speaks_on_its_last_line() -> None:
    talk = "print('hello'); print('{\"W1\": [0.5]}')"
    assert said(run([sys.executable, "-c", talk], "Peer", "W1")) == {"W1": [0.5]}


def test_a_peer_that_breaks_is_said_in_one_line() -> None:
    with pytest.raises(Failed, match=r"^Peer failed at W1: RuntimeError: out of breath$"):
        run([sys.executable, "-c", "raise RuntimeError('out of breath')"], "Peer", "W1")


@pytest.mark.parametrize("workload, keys", [("W1", ["W1"]), ("W2", ["W2"]), ("W3", ["W3 parallel"]), ("W6", ["W6", "W6 p99"])])
def test_the_official_sdk_does_the_same_work(workload: str, keys: list[str], tmp_path: Path) -> None:
    """It is installed here anyway. What it measured is checked by itself: a wrong result is an error."""
    figures = said(run([sys.executable, "-m", "bench.peers.aws_sdk", workload, tmp_path, SMALL.to_json()], "AWS SDK", workload))
    assert list(figures) == keys
    assert all(sample > 0 for samples in figures.values() for sample in samples)


@pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
def test_a_peer_is_pinned_by_name_and_version_and_says_which(peer: Peer) -> None:
    lines = peer.requirements.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][\w.]*", line)] == []
    assert lines[0].partition("==")[2] in peer.note
    assert set(peer.workloads) <= set(MEASURES)


# --- a process that is killed -------------------------------------------------------------------------------------------------


async def test_a_restart_that_comes_to_something_else_is_not_measured(tmp_path: Path) -> None:
    """A figure for work that was not done would be the best one."""
    async with holdfast.open(tmp_path / "bench.db", functions=restart.FUNCTIONS) as opened:
        callback_id = await restart.asked(opened, "asks_late", 3)
        with pytest.raises(AssertionError, match=r"it came to \[3, 'now'\]"):
            await restart.answered(opened, callback_id, 4)


def test_a_process_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended without a word"):
        restart.w4(tmp_path, [("nobody", 3)], 1)
