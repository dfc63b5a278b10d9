"""fetch_url, against real servers on this machine."""

import asyncio
import codecs
import gzip
import hashlib
import threading
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.workers.tools.fetch_url import FetchSettings, FetchUrl
from holdfast.workers.tools.seam import Effect, cool_down_keys
from tests.tools.calls import called, failure
from tests.tools.servers import Asked, Site, head, self_signed, site

TICK = 0.05


@pytest.fixture
async def web() -> AsyncIterator[Site]:
    async with site() as here:
        yield here


@pytest.fixture
async def fetch() -> AsyncIterator[FetchUrl]:
    tool = FetchUrl(FetchSettings(allow_private=("127.0.0.1",), max_bytes=100_000))
    yield tool
    await tool.close()


# --- a page


async def test_a_page_comes_with_its_text_its_hash_and_where_it_came_from(web: Site, fetch: FetchUrl) -> None:
    body = "<p>Grüße</p>".encode()
    web.page("/a", body, etag='"7"', set_cookie="secret=1")
    result = (await called(fetch, {"url": f"{web.url}/a"})).result
    assert result == {
        "url": f"{web.url}/a", "status": 200, "text": "<p>Grüße</p>", "charset": "utf-8", "redirects": [], "size_bytes": len(body),
        "headers": {"content-type": "text/html; charset=utf-8", "etag": '"7"'},
        "sha256": hashlib.sha256(body).hexdigest(), "fetched_at": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    assert fetch.effect is Effect.READ


async def test_headers_that_are_allowed_are_sent_and_cookies_are_not(web: Site, fetch: FetchUrl) -> None:
    web.page("/a", "x", set_cookie="a=1")
    await called(fetch, {"url": f"{web.url}/a", "user_agent": "me/1", "headers": {"accept-language": "de"}})
    await called(fetch, {"url": f"{web.url}/a"})
    first, second = [asked.headers for asked in web.asked if asked.path == "/a"]
    assert (first["user-agent"], first["accept-language"], second["user-agent"]) == ("me/1", "de", "holdfast-worker/1")
    assert "cookie" not in second


async def test_nothing_of_the_environment_is_used(web: Site, fetch: FetchUrl, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:  # noqa: ASYNC230 - a test's one small file
        file.write("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", netrc)
    web.page("/a", "direct")
    assert (await called(fetch, {"url": f"{web.url}/a"})).result["text"] == "direct"
    assert all("authorization" not in asked.headers for asked in web.asked)


@pytest.mark.parametrize("content_type,body,text", [
    ("text/html; charset=iso-8859-1", "caf\xe9 \x93quoted\x94".encode("latin-1"), "café “quoted”"),
    ("text/html", b"<meta charset='shift_jis'>" + "日本".encode("shift_jis"), "<meta charset='shift_jis'>日本"),
    ("text/html", "﻿ü".encode(), "ü"),
    ("text/html; charset=\"UTF-16\"", b"\xff\xfe" + "ü".encode("utf-16-le"), "ü"),
    ("text/html; charset=utf-16", "ü日".encode("utf-16-le"), "ü日"),
    ("text/html; charset=utf-32", "ü日".encode("utf-32-le"), "ü日"),
    ("text/html; charset=nonsense", "ü".encode(), "ü"),
    ("text/html; charset=base64", "ü".encode(), "ü"),
    ("text/plain", b"caf\xe9 au lait", "café au lait"),
    ("application/xml", b"<?xml version='1.0' encoding='iso-8859-15'?><a>\xa4</a>", "<?xml version='1.0' encoding='iso-8859-15'?><a>€</a>"),
])  # fmt: skip
async def test_the_text_is_read_in_its_charset(web: Site, fetch: FetchUrl, content_type: str, body: bytes, text: str) -> None:
    web.page("/a", body, content_type=content_type)
    assert (await called(fetch, {"url": f"{web.url}/a"})).result["text"] == text


async def test_a_page_is_decoded_in_small_steps_beside_the_loop(web: Site, fetch: FetchUrl) -> None:
    """The site chooses the charset: four megabytes of bytes that it does not have took the event loop two seconds, and one long step in a
    thread would hold up the loop as well."""
    steps: list[tuple[int, bool]] = []

    class Noted(codecs.IncrementalDecoder):
        def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]  # of bytes alone
            steps.append((len(data), threading.current_thread() is threading.main_thread()))
            return data.decode("ascii")

    def whole(data: bytes, errors: str = "strict") -> tuple[str, int]:
        return Noted().decode(data), len(data)

    def noted(name: str) -> codecs.CodecInfo | None:
        return codecs.CodecInfo(whole, whole, incrementaldecoder=Noted, name=name) if name == "x_noted" else None  # type: ignore[arg-type]

    codecs.register(noted)
    try:
        web.page("/a", b"x" * 100_000, content_type="text/html; charset=x-noted")
        page = (await called(fetch, {"url": f"{web.url}/a"})).result
    finally:
        codecs.unregister(noted)
    assert page["text"] == "x" * 100_000
    assert (max(size for size, _ in steps) <= 8 * 1024, any(on_loop for _, on_loop in steps)) == (True, False)


# --- redirects


async def test_redirects_are_followed_and_named(web: Site, fetch: FetchUrl) -> None:
    web.page("/a", status=302, location="/b?x=1")
    web.page("/b", status=301, location=f"{web.url}/c#part")
    web.page("/c", "here")
    result = (await called(fetch, {"url": f"{web.url}/a"})).result
    assert (result["url"], result["text"], result["redirects"]) == (f"{web.url}/c", "here", [f"{web.url}/b?x=1", f"{web.url}/c"])


async def test_ten_redirects_are_enough(web: Site, fetch: FetchUrl) -> None:
    web.page("/a", status=302, location="/a")
    error = await failure(fetch, {"url": f"{web.url}/a"})
    assert (error.code, web.paths().count("/a")) == ("tool_failed", 11)


@pytest.mark.parametrize("location", [
    "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/", "http://[::ffff:7f00:1]/", "http://0.0.0.0/", "http://2130706433/",
    "http://0x7f.1/", "file:///etc/passwd", "http://localhost/", "http://127.0.0.2/", "http://user@127.0.0.1/", "http://127.0.0.1\\@x/",
])  # fmt: skip
async def test_a_redirect_into_the_private_network_is_refused(web: Site, location: str) -> None:
    fetch = FetchUrl(FetchSettings(allow_private=(f"127.0.0.1:{web.port}",)))
    web.page("/a", status=302, location=location)
    assert (await failure(fetch, {"url": f"{web.url}/a"})).code == "egress_denied"
    await fetch.close()


async def test_a_redirect_to_a_domain_that_the_contract_does_not_name_is_refused(web: Site, fetch: FetchUrl) -> None:
    web.page("/a", status=302, location="https://elsewhere.example/")
    error = await failure(fetch, {"url": f"{web.url}/a"}, egress=("127.0.0.1",))
    assert (error.code, "elsewhere.example is not among" in error.message) == ("egress_denied", True)


# --- addresses


async def test_without_the_operators_word_the_machine_itself_is_not_reached(web: Site) -> None:
    fetch = FetchUrl(FetchSettings(ports=(80, 443, web.port)))
    error = await failure(fetch, {"url": f"{web.url}/a"})
    assert (error.code, "loopback" in error.message, web.asked) == ("egress_denied", True, [])
    assert f'[fetch] allow_private = ["127.0.0.1:{web.port}"]' in error.message
    await fetch.close()


async def test_the_refusal_of_a_port_names_both_settings_that_open_it(web: Site) -> None:
    fetch = FetchUrl(FetchSettings())
    error = await failure(fetch, {"url": f"{web.url}/a"})
    assert (error.code, "[fetch] ports" in error.message, web.asked) == ("egress_denied", True, [])
    assert f'[fetch] allow_private = ["127.0.0.1:{web.port}"]' in error.message
    await fetch.close()


async def test_a_name_is_resolved_once_and_only_what_was_checked_is_connected_to(web: Site) -> None:
    """DNS rebinding: the name server answers an open address first and a closed one afterwards, or both at once."""
    answers = iter([["127.0.0.2", "127.0.0.1"], ["127.0.0.1"]])
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    fetch = FetchUrl(FetchSettings(ports=(web.port,), allow_private=("127.0.0.2",), robots=False), resolver=rebinding)
    first = await failure(fetch, {"url": f"http://rebind.example:{web.port}/a"})  # no server listens at 127.0.0.2
    second = await failure(fetch, {"url": f"http://rebind.example:{web.port}/a"})
    assert (first.code, second.code) == ("tool_unavailable", "egress_denied")
    assert (asked, web.asked) == (["rebind.example", "rebind.example"], [])
    await fetch.close()


async def test_the_name_of_the_url_is_asked_for_in_tls_and_its_certificate_checked(tmp_path: Path) -> None:
    certificate = self_signed("shop.example", tmp_path)

    async def local(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with site(tls=certificate) as web:
        web.page("/a", "hello")
        fetch = FetchUrl(FetchSettings(allow_private=("shop.example", "other.example"), ca_file=str(certificate)), resolver=local)
        assert (await called(fetch, {"url": f"https://shop.example:{web.port}/a"})).result["text"] == "hello"
        assert "certificate" in (await failure(fetch, {"url": f"https://other.example:{web.port}/a"})).message.lower()
        await fetch.close()
        strict = FetchUrl(FetchSettings(allow_private=("shop.example",)), resolver=local)
        assert (await failure(strict, {"url": f"https://shop.example:{web.port}/a"})).code == "tool_unavailable"
        await strict.close()


async def test_the_host_header_stays_the_name_while_the_connection_goes_to_the_address(web: Site) -> None:
    async def local(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    fetch = FetchUrl(FetchSettings(allow_private=("shop.example",)), resolver=local)
    web.page("/a", "hello")
    assert (await called(fetch, {"url": f"http://shop.example:{web.port}/a"})).result["text"] == "hello"
    assert web.asked[-1].headers["host"] == f"shop.example:{web.port}"
    await fetch.close()


async def test_a_name_that_does_not_exist_is_unavailable() -> None:
    async def no_address(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    fetch = FetchUrl(FetchSettings(robots=False), resolver=no_address)
    assert (await failure(fetch, {"url": "http://nowhere.example/"})).code == "tool_unavailable"
    await fetch.close()


# --- size, type, time


PACKED = {
    "gzip": ("gzip", gzip.compress(b"a" * 50_000)),
    "gzip twice": ("gzip", gzip.compress(b"a" * 25_000) * 2),
    "deflate": ("deflate", zlib.compress(b"a" * 50_000)),
    "bare deflate": ("deflate", zlib.compress(b"a" * 50_000)[2:-4]),
    "identity": ("identity", b"a" * 50_000),
}


@pytest.mark.parametrize("encoding,packed", PACKED.values(), ids=PACKED)
async def test_a_packed_page_is_unpacked(web: Site, fetch: FetchUrl, encoding: str, packed: bytes) -> None:
    web.page("/a", packed, content_encoding=encoding)
    assert (await called(fetch, {"url": f"{web.url}/a"})).result["text"] == "a" * 50_000


async def test_a_gzip_bomb_is_never_unpacked_beyond_the_cap(web: Site, fetch: FetchUrl) -> None:
    import tracemalloc

    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(b"\0" * 1_000_000) for _ in range(60)) + packer.flush()
    assert len(bomb) < 100_000
    web.page("/bomb", bomb, content_encoding="gzip")
    tracemalloc.start()
    error = await failure(fetch, {"url": f"{web.url}/bomb"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (error.code, error.details) == ("tool_failed", {"reason": "too_large"})
    assert peak < 5_000_000


async def test_a_page_without_end_is_cut_off(web: Site, fetch: FetchUrl) -> None:
    sent = 0

    async def endless(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head(200, {"content-type": "text/html"}))
        while True:
            writer.write(b"<p>more</p>" * 1000)
            sent += 11_000
            await writer.drain()

    web.pages["/endless"] = endless
    assert (await failure(fetch, {"url": f"{web.url}/endless"})).details == {"reason": "too_large"}
    assert sent < 20_000_000


async def test_a_call_may_lower_the_cap_and_not_raise_it(web: Site, fetch: FetchUrl) -> None:
    web.page("/a", "a" * 5_000)
    web.page("/b", "a" * 200_000)
    assert (await failure(fetch, {"url": f"{web.url}/a", "max_bytes": 1_000})).details == {"reason": "too_large"}
    assert (await failure(fetch, {"url": f"{web.url}/b", "max_bytes": 1_000_000})).details == {"reason": "too_large"}


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd"])
async def test_an_encoding_that_was_not_asked_for_is_refused(web: Site, fetch: FetchUrl, encoding: str) -> None:
    web.page("/a", b"xx", content_encoding=encoding)
    assert (await failure(fetch, {"url": f"{web.url}/a"})).code == "tool_failed"


@pytest.mark.parametrize("body", [b"not gzip at all", gzip.compress(b"a" * 90_000)[:-20]], ids=["none", "half"])
async def test_broken_compression_is_a_clear_failure(web: Site, fetch: FetchUrl, body: bytes) -> None:
    web.page("/a", body, content_encoding="gzip")
    assert "compress" in (await failure(fetch, {"url": f"{web.url}/a"})).message


async def test_a_type_that_is_no_text_is_refused_before_it_is_read(web: Site, fetch: FetchUrl) -> None:
    web.page("/a.zip", b"PK", content_type="application/zip")
    web.page("/a.json", b"{}", content_type="application/ld+json")
    assert (await failure(fetch, {"url": f"{web.url}/a.zip"})).details == {"reason": "content_type"}
    assert (await called(fetch, {"url": f"{web.url}/a.json"})).result["text"] == "{}"


async def test_a_slow_page_is_a_fetch_timeout(web: Site) -> None:
    async def silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def dripping(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"content-type": "text/html"}))
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(TICK)

    web.pages |= {"/silent": silent, "/drip": dripping}
    fetch = FetchUrl(FetchSettings(allow_private=("127.0.0.1",), silence_seconds=0.3, timeout_seconds=1.0))
    assert (await failure(fetch, {"url": f"{web.url}/silent"})).code == "fetch_timeout"
    assert (await failure(fetch, {"url": f"{web.url}/drip"})).code == "fetch_timeout"
    assert (await failure(fetch, {"url": f"{web.url}/drip"}, seconds=0.2)).message.startswith("The page did not arrive within 0.")
    await fetch.close()


async def test_a_connection_that_breaks_off_is_unavailable(web: Site, fetch: FetchUrl) -> None:
    async def broken(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"content-type": "text/html", "content-length": "100"}) + b"half")

    async def garbage(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x01 this is not http\r\n\r\n")

    web.pages |= {"/broken": broken, "/garbage": garbage}
    assert (await failure(fetch, {"url": f"{web.url}/broken"})).code == "tool_unavailable"
    assert (await failure(fetch, {"url": f"{web.url}/garbage"})).code == "tool_unavailable"


# --- statuses and cool-down


@pytest.mark.parametrize("status,code", [
    (401, "access_denied"), (403, "access_denied"), (451, "access_denied"), (408, "tool_unavailable"),
    (500, "tool_unavailable"), (503, "tool_unavailable"),
])  # fmt: skip
async def test_a_status_that_is_no_page_is_a_failure(web: Site, fetch: FetchUrl, status: int, code: str) -> None:
    web.page("/a", "sorry", status=status)
    assert (await failure(fetch, {"url": f"{web.url}/a"})).code == code


async def test_a_page_that_is_not_there_is_an_answer(web: Site, fetch: FetchUrl) -> None:
    web.page("/gone", "not here", status=410)
    assert (await called(fetch, {"url": f"{web.url}/gone"})).result["status"] == 410


@pytest.mark.parametrize("status,header,seconds", [
    (429, "7", 7), (503, "7", 7), (429, "", 60), (429, "Thu, 01 Jan 2026 00:01:30 GMT", 90), (429, "Wed, 01 Jan 2020 00:00:00 GMT", 0),
    (429, "99999999999", 86400), (429, "soon", 60), (429, "-5", 0), (429, "nan", 60),
])  # fmt: skip
async def test_too_many_requests_closes_the_domain_for_as_long_as_it_says(
    web: Site, fetch: FetchUrl, status: int, header: str, seconds: float
) -> None:
    web.page("/a", status=status, retry_after=header)
    error = await failure(fetch, {"url": f"{web.url}/a"})
    assert (error.code, error.retry_after_seconds, error.closes) == ("rate_limited", seconds, "domain:127.0.0.1")


async def test_a_closed_domain_is_not_asked_again_by_its_tenant_and_open_to_others(web: Site, fetch: FetchUrl) -> None:
    web.page("/a", status=429, retry_after="100")
    web.page("/b", "fine")
    await failure(fetch, {"url": f"{web.url}/a"}, tenant="one")
    again = await failure(fetch, {"url": f"{web.url}/b"}, tenant="one")
    assert (again.code, 98 < (again.retry_after_seconds or 0) <= 100, web.paths().count("/b")) == ("rate_limited", True, 0)
    assert (await called(fetch, {"url": f"{web.url}/b"}, tenant="two")).result["text"] == "fine"


def test_the_gateway_can_ask_which_keys_a_call_stands_under() -> None:
    assert cool_down_keys(FetchUrl(), {"url": "https://Shop.example/x"}) == ("tool:fetch_url", "domain:shop.example")
    assert cool_down_keys(FetchUrl(), {"url": "nonsense"}) == ("tool:fetch_url",)


# --- robots


async def test_robots_are_asked_once_and_obeyed(web: Site, fetch: FetchUrl) -> None:
    web.page("/robots.txt", "User-agent: *\nDisallow: /private\n\nUser-agent: friend\nAllow: /\n", content_type="text/plain")
    web.page("/private/a", "x")
    web.page("/open", "y")
    error = await failure(fetch, {"url": f"{web.url}/private/a"})
    assert (error.code, error.details) == ("access_denied", {"reason": "robots"})
    assert (await called(fetch, {"url": f"{web.url}/open"})).result["text"] == "y"
    assert (await called(fetch, {"url": f"{web.url}/private/a", "user_agent": "friend/2"})).result["text"] == "x"
    assert (web.paths().count("/robots.txt"), web.paths().count("/private/a")) == (1, 1)


async def test_a_redirect_to_what_robots_forbid_is_refused(web: Site, fetch: FetchUrl) -> None:
    web.page("/robots.txt", "User-agent: *\nDisallow: /private\n")
    web.page("/a", status=302, location="/private")
    web.page("/private", "x")
    assert (await failure(fetch, {"url": f"{web.url}/a"})).code == "access_denied"
    assert "/private" not in web.paths()


@pytest.mark.parametrize("status,reached", [(404, True), (403, True), (200, True), (500, False), (503, False)])
async def test_no_robots_allows_and_failing_robots_forbid_for_now(web: Site, fetch: FetchUrl, status: int, reached: bool) -> None:
    web.page("/robots.txt", "", status=status)
    web.page("/a", "x")
    if reached:
        assert (await called(fetch, {"url": f"{web.url}/a"})).result["text"] == "x"
    else:
        assert (await failure(fetch, {"url": f"{web.url}/a"})).code == "tool_unavailable"


async def test_huge_silent_and_redirecting_robots_do_no_harm(web: Site, fetch: FetchUrl) -> None:
    web.page("/a", "x")
    web.page("/robots.txt", "User-agent: *\nDisallow: /x\n" + "Disallow: /" + "*a" * 3_000 + "\n" + "Disallow: /q*q*q$\n" * 60_000)
    assert (await called(fetch, {"url": f"{web.url}/a"})).result["text"] == "x"

    async def silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with site() as other:
        other.pages["/robots.txt"] = silent
        hasty = FetchUrl(FetchSettings(allow_private=("127.0.0.1",), robots_seconds=0.5))
        assert (await failure(hasty, {"url": f"{other.url}/a"})).code == "fetch_timeout"
        await hasty.close()
    async with site() as other:
        other.page("/robots.txt", status=302, location="http://10.0.0.1/robots.txt")
        assert (await failure(fetch, {"url": f"{other.url}/a"})).code == "egress_denied"
