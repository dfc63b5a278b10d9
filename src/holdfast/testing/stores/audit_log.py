"""The audit log: a note is written together with its change or not at all, never changes, and is removed when its time is over."""

import msgspec

from holdfast.model import json_structs
from holdfast.model.audit import Actor, Note, NoteFilter, NoteKind
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import ExecutionStatus
from holdfast.model.outside import Stop
from holdfast.store.seam import Store
from holdfast.testing.stores.credentials import KEY
from holdfast.testing.stores.opened_stores import OneHandle, Opening, TwoHandles
from holdfast.testing.stores.writes import DAY, T0, answers, forgotten, live

ACTOR = Actor(who="HFKAEXAMPLE", origin="10.1.2.3", tenant="acme: north/1", days=2)
HOSTILE = "a\0b\x1b[31m\n\u202e\ud800" + "x" * 10_000


def stopping(execution: str, outcome: str = "stopped") -> tuple[Note, ...]:
    """The note of a stop of this execution, as a tuple with one element."""
    return ACTOR.did("stop", execution, outcome, T0)


def noted(store: Store, **wanted: object) -> list[Note]:
    """The notes of the log that match this filter, newest first."""
    return [found.note for found in store.audit(json_structs.converted(wanted, NoteFilter))]


class AuditSuite(OneHandle):
    """Tests: notes and their filters. They need one handle of the store."""

    def test_notes_are_read_back_as_they_were_given_newest_first(self, store: Store) -> None:
        first, second = ACTOR.refused("Invoke", "/x", "AccessDeniedException", T0), *stopping("e-1")
        plain = msgspec.structs.replace(first, tenant=None, times=7)
        store.note([first, second])
        store.note([plain])
        store.note([])
        found = store.audit(NoteFilter())
        assert [one.note for one in found] == [plain, second, first]
        assert found[0].number > found[1].number > found[2].number

    def test_notes_are_found_by_who_what_outcome_kind_and_time(self, store: Store) -> None:
        one = Note(at=T0, kind=NoteKind.DECISION, who="ann", what="stop", outcome="stopped", expires_at=T0 + DAY)
        other = Note(at=T0 + 5, kind=NoteKind.REFUSAL, who="bob", what="Invoke", outcome="denied", expires_at=T0 + DAY)
        store.note([one, other])
        for wanted in ({"who": "ann"}, {"what": "stop"}, {"outcome": "stopped"}, {"kind": "decision"}):
            assert noted(store, **wanted) == [one]
        assert noted(store, since=T0 + 1) == [other]
        assert noted(store, limit=1) == [other]
        assert noted(store, who="absent\0") == []
        (newest,) = store.audit(NoteFilter(limit=1))
        assert noted(store, before=newest.number) == [one]

    def test_a_refusal_that_was_written_late_has_its_place_by_time_on_every_page(self, store: Store) -> None:
        for number, at in enumerate((T0 + 10, T0 + 20, T0 + 5, T0 + 20, T0 + 15)):
            store.note([ACTOR.refused("Invoke", f"{number}", "denied", at)])
        whole = store.audit(NoteFilter())
        assert [(one.note.at - T0, one.note.on) for one in whole] == [(20, "3"), (20, "1"), (15, "4"), (10, "0"), (5, "2")]
        for number, one in enumerate(whole):
            following = store.audit(NoteFilter(before=one.number, limit=2))
            assert list(following) == list(whole[number + 1 : number + 3])
        assert [one.note.on for one in store.audit(NoteFilter(since=T0 + 15, before=whole[0].number))] == ["1", "4"]
        assert list(store.audit(NoteFilter(before=10**6))) == list(whole)

    def test_a_decision_and_its_note_are_written_together(self, store: Store) -> None:
        header = live(store, "a")
        (stopped,) = answers(store, Stop(header.id, notes=stopping(header.id)))
        assert not isinstance(stopped, HoldfastError)
        assert noted(store) == list(stopping(header.id))

    def test_what_was_not_decided_leaves_no_note(self, store: Store) -> None:
        header = live(store, "a")
        answers(store, Stop(header.id))
        answers(store, Stop(header.id, notes=stopping(header.id)))
        answers(store, Stop("nowhere", notes=stopping("nowhere")))
        assert noted(store) == []

    def test_of_several_decisions_in_one_batch_each_has_its_note(self, store: Store) -> None:
        one, two = live(store, "a"), live(store, "b")
        answers(
            store, Stop(one.id, notes=stopping(one.id)), Stop("nowhere", notes=stopping("nowhere")), Stop(two.id, notes=stopping(two.id))
        )
        assert sorted(note.on for note in noted(store)) == sorted([one.id, two.id])
        found = [store.find(header.id) for header in (one, two)]
        assert [header and header.status for header in found] == [ExecutionStatus.STOPPED] * 2

    def test_a_credential_comes_and_goes_with_its_note(self, store: Store) -> None:
        made, gone = ACTOR.did("create key", KEY.id, "made", T0), ACTOR.did("revoke key", KEY.id, "revoked", T0)
        store.put_credential(KEY, made)
        assert store.remove_credential(KEY.id, gone)
        assert not store.remove_credential(KEY.id, gone)
        assert noted(store) == [*gone, *made]

    def test_whatever_strangers_choose_is_kept_on_one_line_and_bounded(self, store: Store) -> None:
        store.note([Actor(who=HOSTILE, origin=HOSTILE, tenant=HOSTILE).refused(HOSTILE, HOSTILE, HOSTILE, T0)])
        (note,) = noted(store)
        for text in (note.who, note.what, note.on, note.origin, note.outcome, note.tenant or ""):
            assert text.isprintable()
            assert len(text) <= 400

    def test_a_note_goes_when_its_time_is_over_and_not_before(self, store: Store) -> None:
        kept = Actor(who="ann", origin="cli", days=3).did("stop", "e", "stopped", T0)
        store.note([*stopping("e-1"), *kept])
        assert forgotten(store, T0 + 2 * DAY - 1) == 0
        assert forgotten(store, T0 + 2 * DAY) > 0
        assert noted(store) == list(kept)


class SharedAuditSuite(TwoHandles):
    """Tests: the audit log of a store that several processes open. They need two handles of the store."""

    def test_the_other_process_and_the_next_one_see_what_was_noted(self, opening: Opening, store: Store, other: Store) -> None:
        store.note(stopping("e-1"))
        assert noted(other) == list(stopping("e-1"))
        store.close()
        other.close()
        assert noted(opening("later")) == list(stopping("e-1"))
