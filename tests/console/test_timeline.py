"""The timeline: what its rows say, how its axis folds idle time, and that a slice of a long run costs little."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from holdfast.console.pages.run_wire import marks
from holdfast.console.server_process import ServerProcess
from holdfast.console.sources.timeline import TimelineSlice, TimelineSource, Trees
from holdfast.console.sources.timeline_scale import WIDTH, Scale
from holdfast.console.sources.timeline_tree import TimelineFilter
from holdfast.console.sources.timeline_words import bare, brief, clear, counted
from holdfast.console.sources.viewer import Viewer
from holdfast.model.clock import VirtualClock
from holdfast.model.error_text import brief_class
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.ids import id_at
from holdfast.model.operations import SubType
from holdfast.workers.run_lookup import Caller
from tests.console.histories import History
from tests.console.scene import Scene

HOUR = 3_600_000
START = 1_790_000_000_000


def viewer(scene: Scene) -> Viewer:
    return Viewer(scene.store, scene.where, clock=scene.clock, ids=id_at, caller=Caller(), actor=None, tenant=None)


def source(scene: Scene) -> TimelineSource:
    return TimelineSource(viewer(scene))


def rows(found: TimelineSlice) -> list[str]:
    return [f"{'  ' * row.depth}{row.verb} {row.name} {row.tail}".rstrip() for row in found.rows]


# --- the axis


def test_long_times_in_which_nothing_ran_are_folded_and_short_ones_are_not() -> None:
    scale = Scale(0, 6 * HOUR + 2_000, [(0, 1_000), (1_500, 1_600), (6 * HOUR, 6 * HOUR + 2_000)])
    (fold,) = scale.folds
    assert (fold.start, fold.end) == (1_600, 6 * HOUR)
    assert fold.x1 - fold.x0 < WIDTH // 10
    assert scale.idle == 6 * HOUR - 1_600


def test_places_grow_with_time_and_stay_on_the_axis() -> None:
    scale = Scale(
        START, START + 3 * HOUR, [(START, START + 50), (START + HOUR, START + HOUR + 90), (START + 3 * HOUR - 5, START + 3 * HOUR)]
    )
    places = [scale.place(START + at) for at in range(-HOUR, 4 * HOUR, HOUR // 50)]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == WIDTH


def test_an_execution_that_has_only_begun_has_an_axis() -> None:
    scale = Scale(START, START, [])
    assert scale.place(START) == 0
    assert scale.ticks() == [(0, 0)]


def test_marks_of_the_axis_that_would_say_the_same_say_how_much_later_they_are() -> None:
    ticks = [(0, 0), (900, 2_211_000), (1_800, 2_211_050), (2_700, 2_211_100), (3_600, 2_212_000)]
    assert [label for _, label in marks(ticks)] == ["0", "36 m 51 s", "+50 ms", "+100 ms", "36 m 52 s"]


def test_many_folds_never_take_the_whole_axis() -> None:
    busy = [(at * HOUR, at * HOUR + 1_000) for at in range(500)]
    scale = Scale(0, 500 * HOUR, busy)
    assert sum(fold.x1 - fold.x0 for fold in scale.folds) <= WIDTH // 2
    assert len(scale.ticks()) < 20


# --- words


def test_payloads_are_brief_and_texts_of_strangers_hide_nothing() -> None:
    assert brief('"receipt-42"') == "receipt-42"
    assert brief('{"t":"m","v":{"order":{"t":"i","v":17}}}') == '{"order": 17}'
    batch = (
        '{"t":"br","v":{"all":{"t":"l","v":[{"t":"m","v":{"result":{"t":"s","v":"a"}}}]},"completionReason":{"t":"s","v":"ALL_COMPLETED"}}}'
    )
    assert bare(batch) == '{"all": [{"result": "a"}], "completionReason": "ALL_COMPLETED"}', "what map and parallel return"
    assert bare('{"t": 1}') == '{"t": 1}', "an object of the author is no mark of a type"
    assert brief("[" * 100_000).startswith("[[[")
    assert len(brief('"' + "x" * 1_000_000 + '"')) < 200
    assert clear("a\u202eb\x1b[31mc", 100) == "a\\u202eb\\x1b[31mc"
    assert brief_class("aws_durable_execution_sdk_python.exceptions.StepError") == "StepError"
    assert [brief_class(code) for code in ("page_not_found", "a b.c", "3.11", "x.")] == ["page_not_found", "a b.c", "3.11", "x."]
    assert counted(40, 38, 2) == "40 items: 38 ok, 2 failed"
    assert counted(1, 0, 0, "branch") == "1 branch: 1 to go"


# --- rows


def order(scene: Scene) -> Execution:
    made = History("order-17", START)
    made.step("charge", result='"receipt-42"')
    made.wait("cool-down", 30_000)
    pages = made.context("pages", SubType.MAP)
    for number in range(3):
        item = made.context(f"item-{number}", SubType.MAP_ITERATION, pages)
        made.step(f"fetch-{number}", parent=item, error="gone" if number == 1 else None)
    return made.kept(scene.store)


def test_rows_read_as_the_code_would_say_it_and_a_map_is_one_row_with_counts(scene: Scene) -> None:
    header = order(scene)
    found = source(scene).slice(header, Trees(), TimelineFilter())
    assert rows(found) == ["step charge → receipt-42", "wait cool-down 30 s", "map pages 3 items: 3 ok"]
    assert found.rows[2].kids == 3
    assert found.rows[2].closed
    assert (found.total, found.operations) == (3, 9)
    assert found.counts == {"ok": 8, "failed": 1}


@pytest.mark.parametrize("batch", [SubType.MAP, SubType.PARALLEL])
def test_what_flat_branches_did_is_not_counted_as_branches(scene: Scene, batch: SubType) -> None:
    """With NestingType.FLAT the branches have no rows: the operations inside them stand directly under the map or the parallel."""
    made = History("flat-17", START)
    pages = made.context("pages", batch)
    for number in range(3):
        made.step(f"fetch-{number}", parent=pages, error="gone" if number == 1 else None)
        made.step(f"keep-{number}", parent=pages)
    row = source(scene).slice(made.kept(scene.store), Trees(), TimelineFilter()).rows[0]
    assert (row.name, row.kids, row.tail, row.status) == ("pages", 6, "", "ok")


def test_a_row_opens_and_errors_are_found_with_everything_that_they_stand_under(scene: Scene) -> None:
    header, trees = order(scene), Trees()
    pages = source(scene).slice(header, trees, TimelineFilter()).rows[2]
    opened = source(scene).slice(header, trees, TimelineFilter(toggled=frozenset({pages.place})))
    assert [row.name for row in opened.rows[3:]] == ["item-0", "item-1", "item-2"]
    errors = source(scene).slice(header, trees, TimelineFilter(errors=True))
    assert rows(errors) == ["map pages 3 items: 3 ok", "  item item-1", "    step fetch-1 → ValueError: gone"]
    searched = source(scene).slice(header, trees, TimelineFilter(text="FETCH-2"))
    assert [row.name for row in searched.rows] == ["pages", "item-2", "fetch-2"]


def test_a_deep_link_opens_what_stands_above_its_operation(scene: Scene) -> None:
    header, trees = order(scene), Trees()
    wanted = source(scene).slice(header, trees, TimelineFilter(text="fetch-2")).rows[-1]
    found = source(scene).slice(header, trees, TimelineFilter(), wanted=wanted.id)
    assert found.selected is not None
    assert found.rows[found.selected - found.at].name == "fetch-2"
    assert len(found.toggled) == 2


def logging(scene: Scene, lines: Sequence[dict[str, Any]]) -> TimelineSource:
    """A source beside a server that has kept these lines of every execution."""
    found = viewer(scene)
    found.served = ServerProcess(asyncio.get_running_loop(), logs=lambda _: lines)
    return TimelineSource(found)


async def test_what_an_operation_logged_stands_under_its_row(scene: Scene) -> None:
    header = order(scene)
    first = source(scene).slice(header, Trees(), TimelineFilter())
    charge, trees = first.rows[0].id, Trees()
    lines = [{"operationId": charge, "level": "WARNING", "message": "few\nare \x1b[31mleft"}, {"operationId": "another", "message": "no"}]
    found = logging(scene, lines).slice(header, trees, TimelineFilter())
    assert rows(found)[:3] == ["step charge → receipt-42", "  log warning few are \\x1b[31mleft", "wait cool-down 30 s"]
    assert (found.total, found.operations, found.counts) == (4, 9, {"ok": 8, "failed": 1}), "a line is no operation"
    charged, line = found.rows[:2]
    assert (charged.bar, charged.x0, charged.x1) == ("work", first.rows[0].x0, first.rows[0].x1), "its bar is that of what it did"
    assert (line.id, line.status, line.bar, line.took) == (charge, "", "", None)
    closed = logging(scene, lines).slice(header, trees, TimelineFilter(toggled=frozenset({charged.place})))
    assert rows(closed)[:2] == ["step charge → receipt-42", "wait cool-down 30 s"]
    searched = logging(scene, lines).slice(header, trees, TimelineFilter(text="are \\x1b"))
    assert [row.verb for row in searched.rows] == ["step", "log"]


async def test_the_log_of_an_execution_that_goes_on_is_read_every_few_seconds_only(scene: Scene) -> None:
    over = order(scene)
    trees, reads = Trees(), list[str]()
    found, clock = viewer(scene), VirtualClock(over.touched_at)

    def read(header: Execution) -> Sequence[dict[str, Any]]:
        reads.append(header.status.value)
        return ()

    found.clock, found.served = clock, ServerProcess(asyncio.get_running_loop(), logs=read)
    going = msgspec.structs.replace(over, status=ExecutionStatus.RUNNING, ended_at=None)
    for revision, passed in enumerate((0, 100, 1_800, 100, 100)):
        clock.move_to(clock.now() + passed)
        trees.of(found, msgspec.structs.replace(going, revision=revision))
    assert len(reads) == 2
    trees.of(found, over)
    assert reads == ["RUNNING", "RUNNING", "SUCCEEDED"], "the last lines of one that is over are not missed"


async def test_of_many_lines_the_first_have_rows_and_the_rest_is_counted(scene: Scene) -> None:
    header = order(scene)
    charge = source(scene).slice(header, Trees(), TimelineFilter()).rows[0].id
    found = logging(scene, [{"operationId": charge, "message": f"line {n}"} for n in range(5_000)]).slice(header, Trees(), TimelineFilter())
    assert [row.tail for row in found.rows[1:22]] == [*(f"line {n}" for n in range(20)), "… 4,980 more"]
    assert found.total == 24


def test_bars_lie_on_the_axis_and_a_wait_is_not_work(scene: Scene) -> None:
    charge, wait, pages = source(scene).slice(order(scene), Trees(), TimelineFilter()).rows
    assert (charge.bar, wait.bar, pages.bar) == ("work", "wait", "group")
    assert 0 <= charge.x0 <= charge.x1 <= wait.x0 <= wait.x1 <= pages.x0 <= WIDTH


# --- much


@pytest.fixture
def large(scene: Scene) -> Execution:
    made = History("large", START)
    for batch in range(6):
        parent = made.context(f"batch-{batch}")
        for number in range(500):
            made.step(f"row-{batch}-{number}", parent=parent, error="broken" if number == 7 else None, result=f'"kept {number}"')
    return made.kept(scene.store)


def test_slices_of_a_long_run_are_parts_of_one_list(scene: Scene, large: Execution) -> None:
    trees, seen, at = Trees(), list[str](), 0
    choice = TimelineFilter(text="row-")
    while True:
        found = source(scene).slice(large, trees, choice, at)
        seen += [row.name for row in found.rows]
        at += len(found.rows)
        if at >= found.total:
            break
    assert found.total == 3_006
    assert len(seen) == len(set(seen)) == 3_006
    assert [row.tail for row in source(scene).slice(large, trees, TimelineFilter(text="row-5-49"), 2).rows[:2]] == [
        "→ kept 490",
        "→ kept 491",
    ]


def test_the_tree_of_a_long_run_is_read_once_and_only_payloads_of_shown_rows(
    scene: Scene, large: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[tuple[str, Any]] = []

    def counting(name: str) -> None:
        real = getattr(scene.store, name)

        def read(*given: Any, **more: Any) -> Any:
            reads.append((name, more.get("limit")))
            return real(*given, **more)

        monkeypatch.setattr(scene.store, name, read)

    counting("outline")
    counting("operations")
    trees = Trees()
    for at in (0, 1_000, 2_000, 1_000, 0):
        source(scene).slice(large, trees, TimelineFilter(text="row-"), at)
    assert [name for name, _ in reads].count("outline") == 1
    assert sum(limit for name, limit in reads if name == "operations") <= 3 * 200 + 50
    assert all(limit is not None for name, limit in reads if name == "operations")


def test_trees_are_bounded_together(scene: Scene, large: Execution) -> None:
    trees, small = Trees(most=2, operations=3_100), order(scene)
    trees.of(viewer(scene), large)
    first = trees.of(viewer(scene), small)
    assert trees.of(viewer(scene), small)[0] is first[0]
    assert len(trees._kept) == 2
    other = History("other", START + 1)
    for number in range(200):
        other.step(f"s{number}")
    trees.of(viewer(scene), other.kept(scene.store))
    assert large.id not in trees._kept
