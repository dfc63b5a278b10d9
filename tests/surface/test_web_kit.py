"""The HTTP kit by itself: Starlette's requests and responses behind our router, which reads a path once and as it was sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.testclient import TestClient

from holdfast.web.app import App
from holdfast.web.limits import WebLimits
from holdfast.web.policy import UNKNOWN, Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.route_groups import RouteGroup
from holdfast.web.routing import Handler, Route, Router, in_group

VIEW = RoutePolicy("View", Needs.VIEW, Reach.ALL)


def client(handler: Handler, method: str = "GET", path: str = "/x") -> TestClient:
    return TestClient(App([Route(method, path, handler, VIEW)], WebLimits(), lambda: "an-id"), follow_redirects=False)


async def labels(request: Request) -> Reply:
    return json_reply({"labels": request.labels})


def test_a_handler_may_answer_with_any_response_of_starlette(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>hello</p>")
    answers: list[Response] = [FileResponse(tmp_path / "page.html"), RedirectResponse("/elsewhere")]

    async def handler(_: Request) -> Response:
        return answers.pop(0)

    asking = client(handler)
    file, redirect = asking.get("/x"), asking.get("/x")
    assert (file.status_code, file.text, file.headers["x-amzn-requestid"]) == (200, "<p>hello</p>", "an-id")
    assert (redirect.status_code, redirect.headers["location"]) == (307, "/elsewhere")


def test_a_handler_may_read_headers_cookies_and_the_query_as_starlette_has_them() -> None:
    async def handler(request: Request) -> Reply:
        return json_reply([request.headers["x-one"], request.cookies["session"], request.query_params["q"], request.text("q")])

    asking = client(handler)
    asking.cookies.set("session", "s")
    assert asking.get("/x?q=a+b", headers={"X-One": "1"}).json() == ["1", "s", "a b", "a b"]


@pytest.mark.parametrize("sent, found", [("/x/a%2Fb", ["a/b"]), ("/x/a%252Fb", ["a%2Fb"]), ("/x/%C3%A9", ["é"]), ("/x/a+b", ["a+b"])])
def test_a_label_is_decoded_once_after_the_path_was_matched(sent: str, found: list[str]) -> None:
    assert client(labels, path="/x/([^/]+)").get(sent).json() == {"labels": found}


@pytest.mark.parametrize("sent", ["/x%2Fa", "/x/a/b", "/%78/a", "//x/a", "/x/a/"])
def test_a_path_that_only_decoding_would_make_equal_is_another_path(sent: str) -> None:
    assert client(labels, path="/x/([^/]+)").get(sent).status_code == 404


def test_a_path_is_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    find = Router.find

    def counted(self: Router, *asked: Any) -> Any:
        found.append(asked)
        return find(self, *asked)

    monkeypatch.setattr(Router, "find", counted)
    assert client(labels).get("/x").status_code == 200
    assert found == [("GET", "/x", None)]


def test_a_request_that_no_route_takes_has_the_policy_that_needs_an_admin() -> None:
    router = Router([Route("GET", "/x", labels, VIEW)])
    for method, path in (("GET", "/y"), ("POST", "/x"), ("POST", "/y")):
        assert router.find(method, path).policy is UNKNOWN
    assert (router.find("HEAD", "/x").policy, router.find("HEAD", "/x").handler) == (VIEW, None)


class Odd(RouteGroup):
    """Errors that no other routes have."""

    prefix = "/odd"

    def failure(self, error: Exception, request: Request) -> Reply:
        return Reply(418, b"odd")


@pytest.mark.parametrize("sent, status", [("/odd", 418), ("/odd/x/y", 418), ("/oddly", 404), ("/x/odd", 404)])
def test_a_request_that_no_route_takes_has_the_errors_of_the_group_that_was_given_for_its_path(sent: str, status: int) -> None:
    routes = in_group(Odd(), [Route("GET", "/odd/x", labels, VIEW)])
    assert TestClient(App(routes, WebLimits(), lambda: "an-id")).get(sent).status_code == status
    assert client(labels).get(sent).status_code == 404
