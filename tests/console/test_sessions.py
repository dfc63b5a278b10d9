"""Sessions of browsers: new values, parallel requests, and the end of all values of one login."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from holdfast.model.audit import NoteFilter
from holdfast.web.auth.sessions import IDLE_MS, LIFE_MS, ROTATE_MS, Sessions, cookie_in
from tests.console.scene import Browser, Scene, client_of
from tests.surface.auth_server import BASE, token


def test_of_requests_at_once_the_second_does_not_end_the_session_that_the_first_made_new(scene: Scene) -> None:
    sessions, now = Sessions(scene.store, os.urandom), scene.clock.now()
    begun = sessions.begin(token(scene.store, "viewer", now=now).credential, now)
    later = now + ROTATE_MS
    first = sessions.find(begun.cookie, later)
    assert first is not None
    fresh = sessions.rotate(first, later)
    assert fresh is not None
    second = sessions.find(begun.cookie, later + 1)  # it was on its way with the old value
    assert second is not None
    assert sessions.rotate(second, later + 1) is None
    assert sessions.find(fresh.cookie, later + IDLE_MS - 1) is not None
    assert sessions.find(begun.cookie, later + ROTATE_MS) is None


def test_a_session_that_is_made_new_all_day_ends_when_its_time_is_over(scene: Scene) -> None:
    sessions, now = Sessions(scene.store, os.urandom), scene.clock.now()
    cookie = sessions.begin(token(scene.store, "viewer", now=now).credential, now).cookie
    for step in itertools.count(1):
        found = sessions.find(cookie, now + step * ROTATE_MS)
        if found is None:
            break
        fresh = sessions.rotate(found, now + step * ROTATE_MS)
        assert fresh is not None
        cookie = fresh.cookie
    assert step * ROTATE_MS == LIFE_MS


async def test_the_log_out_ends_every_value_of_the_login_and_no_other_login(scene: Scene) -> None:
    """A thief who had the cookie, and let the server give it a new value, is out as well."""
    sessions, issued = Sessions(scene.store, os.urandom), token(scene.store, "viewer", now=scene.clock.now())
    async with scene.app() as app, client_of(app) as client, client_of(app) as elsewhere:
        browser, other = await Browser(client).log_in(issued.secret), await Browser(elsewhere).log_in(issued.secret)
        now = scene.clock.now()
        found = sessions.find(client.cookies["holdfast_session"], now)
        assert found is not None
        stolen = sessions.rotate(found, now + ROTATE_MS)
        assert stolen is not None
        await client.post("/console/logout", headers={"Origin": BASE})
        client.cookies.clear()
        client.cookies.set("holdfast_session", stolen.cookie)
        await browser.get("runs", expect=303)
        await other.get("runs")


async def test_a_login_is_in_the_audit_log_and_its_token_is_not(scene: Scene) -> None:
    async with scene.browser("admin"):
        (noted,) = [one.note for one in scene.store.audit(NoteFilter(what="log in"))]
    assert (noted.outcome, noted.origin) == ("logged in", "127.0.0.1")
    assert noted.who.startswith("hft-")


@pytest.mark.parametrize(
    "header, found",
    [
        ("holdfast_session=a-_b", "a-_b"),
        ("theme=dark; holdfast_session=a; other=b=c", "a"),
        (" a b=1;holdfast_session = a ;;", "a"),
        ("holdfast_session=old; holdfast_session=new", "new"),
        ("holdfast_session", ""),
        ("other=holdfast_session; x_holdfast_session=a", None),
        ("", None),
        (None, None),
    ],
)
def test_the_cookie_of_the_session_is_found_among_others(header: str | None, found: str | None) -> None:
    assert cookie_in(header) == found


def test_a_cookie_full_of_backslashes_is_read_in_a_moment() -> None:
    header = 'holdfast_session="' + "\\1" * 4_000 + '"'
    began = time.process_time()
    for _ in range(30):
        cookie_in(header)
    assert time.process_time() - began < 0.3, "no browser sends such a header, and the caller is not known yet"
