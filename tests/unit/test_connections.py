"""The server counts connections, in all and by address; it closes the one that is idle longest for another, or refuses the new one."""

from __future__ import annotations

import logging

import pytest

from holdfast.web.connections import MOST, Connections, usual_most


class One:
    def __init__(self, address: str, *, idle: bool = True) -> None:
        self.address, self.is_idle, self.ended = address, idle, False

    def end(self) -> None:
        self.ended = True


def test_an_idle_connection_of_the_same_address_makes_room_for_the_next() -> None:
    doors = Connections(most=10, most_of_one=2)
    first, second, third = (One("a") for _ in range(3))
    assert [doors.open(one) for one in (first, second)] == [None, None]
    doors.asked(first)
    assert doors.open(third) is None
    assert (first.ended, second.ended, len(doors)) == (False, True, 2)


def test_an_address_that_is_busy_everywhere_is_refused_and_told_why() -> None:
    doors = Connections(most=10, most_of_one=2)
    busy = [One("a", idle=False) for _ in range(3)]
    assert [doors.open(one) for one in busy] == [None, None, "at most 2 connections of one address are allowed"]
    assert doors.open(One("b")) is None
    doors.closed(busy[0])
    assert doors.open(One("a")) is None


def test_the_address_that_holds_most_makes_room_for_one_that_holds_less() -> None:
    doors = Connections(most=3, most_of_one=3)
    crowd = [One("a") for _ in range(3)]
    assert [doors.open(one) for one in crowd] == [None] * 3
    assert doors.open(One("b")) is None
    assert [one.ended for one in crowd] == [True, False, False]


def test_a_full_server_refuses_whoever_holds_as_much_as_anybody() -> None:
    doors = Connections(most=2, most_of_one=2)
    assert [doors.open(One(address)) for address in "ab"] == [None, None]
    assert doors.open(One("a")) == "at most 2 connections are allowed"


def test_a_full_server_leaves_clients_of_a_unix_socket_alone() -> None:
    """They have no address."""
    doors = Connections(most=2, most_of_one=2)
    local = One("")
    assert [doors.open(one) for one in (local, One("a", idle=False))] == [None, None]
    assert doors.open(One("a")) == "at most 2 connections are allowed"
    assert (local.ended, len(doors)) == (False, 2)


def test_refusals_are_told_now_and_then_and_not_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    at = [0.0]
    doors = Connections(most=1, most_of_one=1, now=lambda: at[0])
    doors.open(One("a", idle=False))
    with caplog.at_level(logging.WARNING, logger="holdfast.server"):
        for second in range(25):
            at[0] = float(second)
            doors.open(One("a"))
    assert [record.getMessage().partition(". ")[0] for record in caplog.records] == [
        f"Refused connections since the last such line: {count}" for count in (1, 10, 10)
    ]


def test_a_connection_that_was_never_counted_can_be_closed() -> None:
    doors = Connections(most=1)
    doors.closed(One("a"))
    assert len(doors) == 0


def test_half_of_the_descriptors_are_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((256, 128), (1024, 512), (10, 8), (1_000_000, MOST), (-1, MOST)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert usual_most() == most
