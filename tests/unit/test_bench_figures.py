"""From figures to a verdict, a table and a picture."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from bench.figures import LIMIT, Line, Report, Taken, Target, Verdict
from bench.lines import specs
from bench.measuring import rounds
from bench.picture import picture
from bench.table import aligned, figure, text
from bench.terms import Sizes

RECORDED = Report(
    conditions=("filesystem ext4 · synchronous=FULL", "a machine"),
    lines=(
        Line(
            workload="W1",
            what="step in sequence",
            unit="ms",
            limit="bare commit",
            targets=(Target(of=LIMIT, must=2.5, goal=1.3),),
            ours=Taken((0.4, 0.5, 0.75), (0.2, 0.25, 0.3)),
            peers={"DBOS": Taken((2.9, 3.0, 3.1))},
        ),
        Line(
            workload="W2",
            what="many executions",
            unit="steps/s",
            more=True,
            best=True,
            limit="sketch",
            targets=(Target(must=12_000, goal=20_000), Target(of="DBOS", must=20), Target(of="Restate", goal=8)),
            floor=0.12,
            ours=Taken((7_000.0, 7_500.0), (28_000.0, 30_000.0)),
            peers={"DBOS": Taken((240.0, 250.0)), "AWS SDK": Taken((100.0,))},
        ),
        Line(workload="W5", what="memory of one that waits", unit="KB", ours=Taken((5.0,)), peers={"DBOS": Taken((34.0,))}),
    ),
    notes=("DBOS 3.3.0: as it comes.",),
)


def test_one_row_says_figure_limit_ratio_must_goal_verdict_and_everybody_else() -> None:
    head, rule, *rows = text(RECORDED).split("\n\n")[1].splitlines()
    spans = [found.span() for found in re.finditer("-+", rule)]
    cells = [[line[start:end].strip() for start, end in spans] for line in (head, *rows)]
    assert cells == [
        ["", "", "unit", "Holdfast", "limit", "× limit", "must", "goal", "verdict",
         "DBOS", "AWS SDK", "limit is"],
        ["W1", "step in sequence", "ms", "0.5 ±35%", "0.25", "2 ×", "≤ 2.5 ×", "≤ 1.3 ×", "must",
         "3 ±3% (6 ×)", "", "bare commit"],
        ["W2", "many executions", "steps/s", "7,500 ±3%", "30,000", "0.25 ×", "≥ 12,000, ≥ 20 × DBOS", "≥ 20,000, ≥ 8 × Restate", "not yet",
         "250 ±2% (30 ×)", "100 (75 ×)", "sketch"],
        ["W5", "memory of one that waits", "KB", "5", "", "", "", "", "",
         "34 (6.8 ×)", "", ""],
    ]  # fmt: skip


def test_a_ratio_to_the_limit_is_the_median_of_pairs() -> None:
    """The medians would say 10: only the pairs know that the machine was slow in the middle, for both."""
    assert Taken((1.0, 10.0, 30.0), (1.0, 5.0, 1.0)).ratio == 2.0


def test_we_and_the_limit_take_turns() -> None:
    done: list[str] = []

    def does(what: str) -> Callable[[], float]:
        def measure() -> float:
            done.append(what)
            return len(done)

        return measure

    taken = rounds(2, {"one": does("one"), "two": does("two")}, does("limit"))
    assert done == ["one", "limit", "two", "limit"] * 2
    assert taken == {"one": Taken((1, 5), (2, 6)), "two": Taken((3, 7), (4, 8))}


@pytest.mark.parametrize(
    "ours, against, verdict",
    [
        ((21_000.0,), (30_000.0,), "goal"),
        ((21_000.0,), (60_000.0,), "must"),
        ((13_000.0,), (20_000.0,), "must"),
        ((11_000.0,), (20_000.0,), "not yet"),
        ((13_000.0,), (60_000.0,), "not yet"),
        ((13_000.0,), (130_000.0,), "BROKEN"),
    ],
)
def test_a_verdict_counts_every_target_and_the_floor_of_the_ratio(
    ours: tuple[float, ...], against: tuple[float, ...], verdict: Verdict
) -> None:
    targets = (Target(must=12_000, goal=20_000), Target(of=LIMIT, must=0.3, goal=0.6), Target(of="Nobody", must=1_000))
    line = Line(workload="W2", what="", unit="/s", more=True, limit="sketch", targets=targets, floor=0.12, ours=Taken(ours, against))
    assert line.verdict == verdict
    assert Report(conditions=(), lines=(line,)).broken == (verdict == "BROKEN")


def test_the_best_round_counts_where_noise_only_takes_away_and_the_median_elsewhere() -> None:
    def value(*, more: bool, best: bool) -> float:
        return Line(workload="", what="", unit="", more=more, best=best, ours=Taken((1.0, 5.0, 9.0))).value

    assert [value(more=True, best=True), value(more=False, best=True), value(more=True, best=False)] == [9, 1, 5]


def test_every_condition_and_note_is_printed() -> None:
    printed = text(RECORDED).splitlines()
    assert [line for line in (*RECORDED.conditions, *RECORDED.notes) if line not in printed] == []


def test_a_run_is_written_down_whole() -> None:
    assert Report.from_json(RECORDED.to_json()) == RECORDED


def test_the_picture_has_a_bar_for_everybody_who_was_measured_beside_a_limit() -> None:
    bars = _bars(picture(RECORDED))
    assert list(bars) == [
        "Holdfast: 2 times slower than the limit",
        "DBOS: 12 times slower than the limit",
        "Holdfast: 4 times slower than the limit",
        "DBOS: 120 times slower than the limit",
        "AWS SDK: 300 times slower than the limit",
    ]


def test_bars_are_as_long_as_the_logarithm_says() -> None:
    bars = _bars(picture(RECORDED))
    two, four = bars["Holdfast: 2 times slower than the limit"], bars["Holdfast: 4 times slower than the limit"]
    assert four == pytest.approx(2 * two, abs=0.2)


def test_nothing_in_the_picture_stands_outside_of_it() -> None:
    drawn = ElementTree.fromstring(picture(RECORDED))
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    places = [(float(part.get("x", 0)), float(part.get("y", 0)), float(part.get("width", 0))) for part in drawn]
    assert [place for place in places if not (0 <= place[0] <= place[0] + place[2] <= width and 0 <= place[1] <= height)] == []


def test_what_a_bar_is_called_fits_beside_it() -> None:
    called = [f"{spec.workload} {spec.what}" for spec in specs(Sizes(w5_executions=50_000)).values() if spec.limit]
    assert [words for words in called if len(words) > 36] == []


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
