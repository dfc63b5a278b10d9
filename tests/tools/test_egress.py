"""Egress: which names and addresses a worker may reach."""

import tomllib

import pytest

from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools.egress import Egress, UrlOrigin, host_of
from holdfast.workers.tools.seam import ToolFailed

PUBLIC = Egress()


@pytest.mark.parametrize("address", [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.1.1", "169.254.169.254",
    "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255",
    "240.0.0.1", "255.255.255.255", "168.63.129.16", "100.100.100.200", "192.88.99.1",
    "::1", "::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::a00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::",
    "2001:0:53aa:64c::1", "2001:db8::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "100::1", "5f00::1",
])  # fmt: skip
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert PUBLIC.refusal("shop.example", 443, address) is not None


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.63.255.255", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_a_public_address_is_allowed(address: str) -> None:
    assert PUBLIC.refusal("shop.example", 443, address) is None


@pytest.mark.parametrize("entry,host,port,address,open", [
    ("127.0.0.1", "127.0.0.1", 80, "127.0.0.1", True),
    ("127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1", True),
    ("127.0.0.1:8080", "127.0.0.1", 8081, "127.0.0.1", False),
    ("10.0.0.0/8", "wiki.corp", 80, "10.9.9.9", True),
    ("10.0.0.0/8", "wiki.corp", 80, "192.168.0.1", False),
    ("wiki.corp", "wiki.corp", 80, "10.9.9.9", True),
    ("wiki.corp", "other.corp", 80, "10.9.9.9", False),
    ("wiki.corp", "wiki.corp", 80, "169.254.169.254", False),
    ("169.254.0.0/16", "meta", 80, "169.254.169.254", False),
    ("169.254.169.254", "meta", 80, "169.254.169.254", True),
    ("::1", "::1", 80, "::1", True),
    ("[::1]:8080", "::1", 8080, "::1", True),
    ("[::1]:8080", "::1", 8081, "::1", False),
    ("127.0.0.0/8", "mapped", 80, "::ffff:127.0.0.1", False),
])  # fmt: skip
def test_the_operator_opens_private_addresses_and_no_more(entry: str, host: str, port: int, address: str, open: bool) -> None:
    assert (Egress.of([entry]).refusal(host, port, address) is None) is open


def test_a_setting_that_is_no_address_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="10\\.0\\.0\\.0/99"):
        Egress.of(["10.0.0.0/99"])


@pytest.mark.parametrize("domain,url,open", [
    ("shop.example", "https://shop.example/a", True),
    ("shop.example", "https://www.SHOP.example./a", True),
    ("shop.example", "https://evilshop.example/a", False),
    ("shop.example", "https://shop.example.evil.test/a", False),
    ("*.shop.example", "https://shop.example/a", False),
    ("*.shop.example", "https://a.shop.example/a", True),
    ("shop.example:8443", "https://shop.example:8443/", True),
    ("shop.example:8443", "https://shop.example/", False),
    ("shop.example", "https://shop.example:8443/", False),
    ("bücher.example", "https://xn--bcher-kva.example/", True),
    ("xn--bcher-kva.example", "https://bücher.example/", True),
    ("8.8.8.8", "https://8.8.8.8/", True),
    ("8.8.8.8", "https://1.8.8.8.8/", False),
    ("", "https://shop.example/", False),
])  # fmt: skip
def test_a_domain_of_the_contract_covers_itself_and_what_is_under_it(domain: str, url: str, open: bool) -> None:
    if open:
        PUBLIC.admit(url, [domain])
    else:
        with pytest.raises(ToolFailed, match="egress_denied"):
            PUBLIC.admit(url, [domain])


@pytest.mark.parametrize("url", [
    "ftp://shop.example/", "file:///etc/passwd", "gopher://x/", "//shop.example/", "shop.example", "", "http://", "http:///x",
    "http://user:pw@shop.example/", "http://shop.example@127.0.0.1/", "http://sh op.example/", "http://shop.example\\@evil/", "http://shop.example:99999/",
    "http://shop.example:0x50/", "http://[::1/", "http://a\tb/", "http://a\r\nHost: b/", "javascript:alert(1)", "http://" + "a" * 9000,
    "http://shop.example:22/", "http://%31%32%37.0.0.1/",
])  # fmt: skip
def test_what_is_no_plain_web_address_is_refused(url: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        PUBLIC.admit(url, None)
    assert refused.value.code == "egress_denied"


def test_no_list_means_any_public_name_and_an_empty_list_means_none() -> None:
    assert PUBLIC.admit("https://shop.example/x", None) == UrlOrigin("https", "shop.example", 443)
    with pytest.raises(ToolFailed, match="egress domains"):
        PUBLIC.admit("https://shop.example/x", [])


def test_a_redirect_does_not_go_from_https_back_to_http() -> None:
    secure = PUBLIC.admit("https://shop.example/", None)
    with pytest.raises(ToolFailed, match="back to http"):
        PUBLIC.admit("http://shop.example/", None, secure)


@pytest.mark.parametrize("host, addresses, entry", [
    ("shop.internal", ["10.1.2.3"], '["shop.internal:8080"]'), ("127.0.0.1", ["127.0.0.1"], '["127.0.0.1:8080"]'),
    ("::1", ["::1"], '["[::1]:8080"]'),
    ("metadata.internal", ["169.254.169.254"], '["169.254.169.254:8080"]'),
])  # fmt: skip
def test_the_setting_that_is_named_opens_the_address_that_was_refused(host: str, addresses: list[str], entry: str) -> None:
    assert all(PUBLIC.refusal(host, 8080, address) for address in addresses)
    assert f"[fetch] allow_private = {entry}" in PUBLIC.remedy(host, 8080, addresses)
    opened = Egress.of(tomllib.loads(f"entry = {entry}")["entry"])
    assert [opened.refusal(host, 8080, address) for address in addresses] == [None] * len(addresses)


def test_a_name_without_an_address_is_not_said_to_be_private() -> None:
    assert PUBLIC.remedy("shop.example", 80, []) == ""


@pytest.mark.parametrize(
    "written, host",
    [
        ("Shop.Example.", "shop.example"),
        ("shop.example\u3002", "shop.example"),
        ("\uff11.2.3.4\u3002", "1.2.3.4"),
        ("a..", ""),
        ("a..b", ""),
        ("..", ""),
    ],
)
def test_a_host_has_one_form_for_all_dots_and_no_empty_part(written: str, host: str) -> None:
    assert host_of(written) == host
