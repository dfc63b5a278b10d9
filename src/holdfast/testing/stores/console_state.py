"""What the console stores and reads in addition to lists: sessions, saved views, summaries, outlines, attempts, runners, subscribers and
values."""

import msgspec
import pytest

from holdfast.model.browse_errors import TooManyViews
from holdfast.model.console_state import MAX_VIEWS, ConsoleSession, SavedView
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Birth, Outcome, OutcomeStatus, Terms
from holdfast.model.history import EventType
from holdfast.model.operations import RUN, Action, Failure, Kind, Type, Update
from holdfast.model.outside import Fire, Stop
from holdfast.model.summary import STOPPED, TIMED_OUT, Summary, begun
from holdfast.store.browse import Completed, RunnerStatus, SubscriberPosition
from holdfast.store.seam import Hosted, Store
from holdfast.testing.stores.opened_stores import OneHandle, TwoHandles
from holdfast.testing.stores.queue_writes import declare, queued
from holdfast.testing.stores.writes import (
    LEASE,
    T0,
    after,
    at,
    checkpoint,
    claim,
    closed,
    forgotten,
    id_at,
    live,
    now_at,
    settled,
    started,
    step,
    wait,
    wanted,
    written,
)

SESSION = ConsoleSession(id="ab" * 32, credential="hft-example", csrf="c" * 20, made_at=T0, seen_at=T0 + 5, expires_at=at(100))
VIEW = SavedView(owner="zoë@example.org", name="Failed today", query="status=failed&since=-1d", made_at=T0)


class ConsoleStateSuite(OneHandle):
    """Tests: sessions and saved views of the console. They need one handle of the store."""

    def test_a_session_is_read_back_and_takes_the_place_of_the_one_before(self, store: Store) -> None:
        assert store.session(SESSION.id) is None
        store.put_session(SESSION)
        assert store.session(SESSION.id) == SESSION
        seen = msgspec.structs.replace(SESSION, seen_at=T0 + 9)
        store.put_session(seen)
        assert store.session(SESSION.id) == seen

    def test_a_session_is_removed_alone_or_with_its_credential(self, store: Store) -> None:
        others = [msgspec.structs.replace(SESSION, id=f"{n:064x}", credential=f"c{n % 2}") for n in range(4)]
        for session in others:
            store.put_session(session)
        assert [store.remove_session(others[0].id) for _ in range(2)] == [True, False]
        assert [store.remove_sessions("c1") for _ in range(2)] == [2, 0]
        assert [store.session(session.id) is not None for session in others] == [False, False, True, False]

    def test_the_sessions_of_one_login_are_removed_together(self, store: Store) -> None:
        made = [("c", "one"), ("c", "one"), ("c", "two"), ("d", "one")]
        sessions = [msgspec.structs.replace(SESSION, id=f"{n:064x}", credential=c, csrf=csrf) for n, (c, csrf) in enumerate(made)]
        for session in sessions:
            store.put_session(session)
        assert [store.remove_login("c", "one") for _ in range(2)] == [2, 0]
        assert [store.session(session.id) is not None for session in sessions] == [False, False, True, True]

    def test_a_session_is_gone_when_its_time_is_over_and_not_before(self, store: Store) -> None:
        store.put_session(SESSION)
        forgotten(store, SESSION.expires_at - 1)
        assert store.session(SESSION.id) == SESSION
        assert forgotten(store, SESSION.expires_at) == 1
        assert store.session(SESSION.id) is None

    def test_views_are_read_back_by_owner_in_the_order_of_their_names(self, store: Store) -> None:
        other, mine = msgspec.structs.replace(VIEW, owner="adam"), msgspec.structs.replace(VIEW, name="All", query="")
        for view in (VIEW, other, mine):
            store.put_view(view)
        assert list(store.views(VIEW.owner)) == [mine, VIEW]
        changed = msgspec.structs.replace(VIEW, query="status=ok")
        store.put_view(changed)
        assert list(store.views(VIEW.owner)) == [mine, changed]
        assert [store.remove_view(VIEW.owner, VIEW.name) for _ in range(2)] == [True, False]
        assert (list(store.views(VIEW.owner)), list(store.views("adam"))) == ([mine], [other])

    def test_an_owner_has_at_most_a_hundred_views(self, store: Store) -> None:
        for n in range(MAX_VIEWS):
            store.put_view(msgspec.structs.replace(VIEW, name=f"view {n}"))
        with pytest.raises(TooManyViews, match="Remove one"):
            store.put_view(VIEW)
        store.put_view(msgspec.structs.replace(VIEW, name="view 7", query="changed"))
        store.put_view(msgspec.structs.replace(VIEW, owner="adam"))
        assert len(store.views(VIEW.owner)) == MAX_VIEWS

    def test_a_view_that_cannot_be_kept_is_refused(self, store: Store) -> None:
        name = "The name of a saved view is not allowed: use 1 to 100 printable characters, not only spaces"
        owner = "The owner of a saved view is not allowed: use 1 to 300 printable characters, not only spaces"
        query = "The query of a saved view is not allowed: use at most 8,000 printable characters"
        for field, value, told in (
            ("name", "", name),
            ("name", "x" * 101, name),
            ("name", "a\0", name),
            ("owner", " ", owner),
            ("query", "q" * 8001, query),
            ("query", "a\0", query),
        ):
            with pytest.raises(InvalidParameter, match=told):
                store.put_view(msgspec.structs.replace(VIEW, **{field: value}))
        assert list(store.views(VIEW.owner)) == []


class SummarySuite(OneHandle):
    """Tests: the summaries in the headers of executions. They need one handle of the store."""

    def test_a_plain_function_that_succeeds_has_no_summary(self, store: Store) -> None:
        assert now_at(store, closed(store, "a", steps=2)).summary is None

    def test_what_a_run_tells_at_its_end_is_kept_with_the_pipeline_of_its_start(self, store: Store) -> None:
        told = Summary(outcome="partial", error_code="rate_limited", cost=12_345_678_901, attempt=2, attempts=3)
        header = written(store, claim(started(store, "a", summary=begun("flow")), "here"))
        assert header.summary == begun("flow")
        header = after(store, header, step("s"))
        assert now_at(store, header).summary == begun("flow")
        ended = written(store, settled(header, Outcome(OutcomeStatus.SUCCEEDED, "1", summary=told)))
        assert now_at(store, ended).summary == msgspec.structs.replace(told, pipeline="flow")

    def test_a_bad_end_has_an_error_code(self, store: Store) -> None:
        failed = written(store, settled(live(store, "a"), Outcome(OutcomeStatus.FAILED, error=Failure("no", "NoSuchOrder"))))
        odd = written(store, settled(live(store, "b"), Outcome(OutcomeStatus.FAILED, error=Failure("no", "x\0y\n" * 2000))))
        stopped = written(store, Stop(started(store, "c").id))
        late = written(store, Fire(started(store, "d").id), at(9999))
        codes = [(now_at(store, one).summary or Summary()).error_code for one in (failed, odd, stopped, late)]
        assert codes == ["NoSuchOrder", ("x\ufffdy\ufffd" * 2000)[:128], STOPPED, TIMED_OUT]

    def test_a_pipeline_and_what_its_nodes_start_have_its_name(self, store: Store) -> None:
        start = msgspec.structs.replace(wanted("a", function="flow"), kind=Kind.PIPELINE)
        parent = written(store, claim(written(store, start), "here"))
        assert parent.summary == begun("flow")
        child = wanted("child", id=id_at(at(1)), parent=parent.id, parent_operation="r").header
        nested = wanted("nested", id=id_at(at(2)), function="inner", parent=parent.id, parent_operation="n").header
        runs = [Update(id=id, type=Type.CHAINED_INVOKE, action=Action.START, sub_type=RUN) for id in ("r", "n")]
        births = {"r": Birth(child, "{}", Kind.WORKER), "n": Birth(nested, "{}", Kind.PIPELINE)}
        written(store, msgspec.structs.replace(checkpoint(parent, *runs), children=births))
        assert (now_at(store, child).summary, now_at(store, nested).summary) == (begun("flow"), begun("inner"))


class OutlineSuite(OneHandle):
    """Tests: the outline of an execution, and the attempts of an operation. They need one handle of the store."""

    def test_an_outline_has_all_operations_in_order_without_their_payloads(self, store: Store) -> None:
        header = after(store, live(store, "a"), step("s1", Action.SUCCEED, payload='"big"'), step("s2"), wait("w"))
        whole = store.operations(header.id)
        bare = [msgspec.structs.replace(operation, result=None, error=None) for operation in whole]
        assert (list(store.outline(header.id)), len(bare)) == (bare, 3)
        seen = header.revision
        header = after(store, header, step("s2", Action.SUCCEED, payload="2"))
        assert [operation.id for operation in store.outline(header.id, seen)] == ["s2"]
        assert list(store.outline("none")) == []

    def test_the_attempts_of_an_operation_are_its_events_and_no_others(self, store: Store) -> None:
        header = after(store, live(store, "a"), step("s1"), step("other"))
        for n in range(3):
            failure = Failure(f"try {n}", "Busy")
            header = after(store, header, step("s1", Action.RETRY, error=failure, delay_seconds=1), now=at(10 * n))
            written(store, Fire(header.id), at(10 * n + 5))
            header = after(store, now_at(store, header), step("s1"), now=at(10 * n + 6))
        header = after(store, header, step("s1", Action.SUCCEED, payload='"done"'), step("other", Action.SUCCEED, payload="1"))
        place = next(operation.place for operation in store.operations(header.id) if operation.id == "s1")
        found = store.attempts(header.id, place)
        told = [line for line in store.history(header.id) if line.operation is not None and line.operation.id == "s1"]
        assert list(found) == told
        assert [line.event.type for line in found].count(EventType.STEP_FAILED) == 3
        assert found[-1].event.payload == '"done"'
        assert (list(store.attempts(header.id, 999)), list(store.attempts("none", 2))) == ([], [])


class DirectorySuite(OneHandle):
    """Tests: lists of runners, hosted functions and subscribers, and values for completion. They need one handle of the store."""

    def test_runners_are_told_with_what_they_hold(self, store: Store) -> None:
        live(store, "a"), live(store, "b")
        (here,) = store.runners()
        assert isinstance(here.code, int)
        assert here == RunnerStatus("here", LEASE, here.code, 2)
        store.join("also", LEASE + 1)
        assert [(runner.id, runner.holds) for runner in store.runners()] == [("also", 0), ("here", 2)]

    def test_everything_that_was_ever_hosted_is_told(self, store: Store) -> None:
        hosted = [
            Hosted("flow", "$LATEST", Terms(60), Kind.PIPELINE),
            Hosted("mail", "$LATEST", Terms(70), Kind.WORKER),
            Hosted("order", "1", Terms(80, 3), Kind.FUNCTION),
            Hosted("order", "2", Terms(), Kind.FUNCTION),
        ]
        store.publish(list(reversed(hosted)))
        assert list(store.all_hosted()) == hosted

    def test_subscribers_are_told_with_their_places(self, store: Store) -> None:
        assert list(store.subscribers()) == []
        for name in ("b", "a"):
            store.subscribe(name)
        closed(store, "x")
        taken = store.take_delivery("a", "here")
        signals = store.signals("a", "here", taken or 0, 10) or ()
        assert store.delivered("a", "here", signals[0].number)
        newest = signals[-1].number
        assert newest > signals[0].number
        assert list(store.subscribers()) == [
            SubscriberPosition("a", signals[0].number, newest, "here"),
            SubscriberPosition("b", 0, newest, None),
        ]

    def test_values_are_completed_in_order_within_a_tenant(self, store: Store) -> None:
        declare(store, "letters")
        written(store, queued("q", queue="letters"))
        places = (
            ("order", None, "flow"),
            ("order", "acme", "flow-2"),
            ("refund", "acme", None),
            ("mail", "zoo", None),
            ("órder", "zoo", None),
        )
        for n, (function, of, pipeline) in enumerate(places):
            header = started(store, f"n{n}", at(n), function=function, tenant=of, summary=begun(pipeline))
            if n % 2:
                written(store, Stop(header.id))
        asked: tuple[tuple[Completed, str, str | None, list[str]], ...] = (
            (Completed.FUNCTION, "", None, ["mail", "order", "refund", "órder"]),
            (Completed.FUNCTION, "o", None, ["order"]),
            (Completed.FUNCTION, "", "acme", ["order", "refund"]),
            (Completed.FUNCTION, "", "default", ["order"]),
            (Completed.FUNCTION, "o%", None, []),
            (Completed.QUEUE, "l", None, ["letters"]),
            (Completed.QUEUE, "", "acme", []),
            (Completed.TENANT, "", None, ["acme", "zoo"]),
            (Completed.TENANT, "a", "acme", ["acme"]),
            (Completed.TENANT, "z", "acme", []),
            (Completed.PIPELINE, "flow", None, ["flow", "flow-2"]),
            (Completed.PIPELINE, "", "default", ["flow"]),
            (Completed.ERROR_CODE, "", None, [STOPPED]),
            (Completed.ERROR_CODE, "\0", None, []),
        )
        for field, prefix, tenant, values in asked:
            assert list(store.values(field, prefix, 10, tenant)) == values, (field, prefix, tenant)
        assert list(store.values(Completed.FUNCTION, "", 2)) == ["mail", "order"]
        assert list(store.values(Completed.FUNCTION, "", 0)) == []


class SharedConsoleStateSuite(TwoHandles):
    """Tests: sessions and saved views in a store that several processes open. They need two handles of the store."""

    def test_sessions_and_views_are_there_for_the_other(self, store: Store, other: Store) -> None:
        store.put_session(SESSION)
        other.put_view(VIEW)
        assert (other.session(SESSION.id), list(store.views(VIEW.owner))) == (SESSION, [VIEW])
        assert other.remove_session(SESSION.id)
        assert store.session(SESSION.id) is None
