"""Egress: which hosts and addresses a worker may reach. Nothing here uses the network.

There are two checks for every request: `admit` checks the host's name in a URL, before the name is resolved. `refusal` checks an address
that the name resolved to, directly before the connection to this address. Pages, redirects and name servers may all be hostile.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final
from urllib.parse import urlsplit

import idna
from msgspec import Struct

from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools.seam import ToolFailed

IpAddress = IPv4Address | IPv6Address

_PORTS: Final = {"http": 80, "https": 443}
_LONGEST_URL: Final = 8192

# Networks that no worker may reach unless the operator opens them, each with a word for the error.
_REFUSED_V4: Final = [
    (IPv4Network(net), why)
    for net, why in [
        ("0.0.0.0/8", "reserved"), ("10.0.0.0/8", "private"), ("100.64.0.0/10", "shared (carrier-grade NAT)"), ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"), ("172.16.0.0/12", "private"), ("192.0.0.0/24", "reserved"), ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "6to4 relay"), ("192.168.0.0/16", "private"), ("198.18.0.0/15", "reserved"), ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"), ("224.0.0.0/4", "multicast"), ("240.0.0.0/4", "reserved"),
    ]
]  # fmt: skip
_REFUSED_V6: Final = [
    (IPv6Network(net), why)
    for net, why in [
        ("::1/128", "loopback"), ("::ffff:0:0/96", "v4-mapped"), ("::/96", "v4-compatible"),
        ("64:ff9b::/96", "NAT64"), ("64:ff9b:1::/48", "NAT64"),
        ("2001::/32", "Teredo"), ("2001::/23", "reserved"), ("2001:db8::/32", "reserved"), ("2002::/16", "6to4"), ("3fff::/20", "reserved"),
        ("fc00::/7", "private"), ("fe80::/10", "link-local"), ("fec0::/10", "site-local"), ("ff00::/8", "multicast"),
    ]
]  # fmt: skip
_GLOBAL_V6: Final = IPv6Network("2000::/3")
# Metadata services of clouds, which hand out credentials. Only an entry with exactly their address opens them; a range or a name does not.
_METADATA: Final = {
    ipaddress.ip_address(address)
    for address in [
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192",
        "fd00:ec2::254", "fd20:ce::254",
    ]
}  # fmt: skip


class UrlOrigin(Struct, frozen=True):
    """The scheme, host and port of a URL."""

    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        """Scheme, host and port as one text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class PrivateDestination(Struct, frozen=True):
    """One entry of the operator's `allow_private`: a host's name, or an address or range. If `port` is None, the entry covers every
    port."""

    name: str | None
    network: IPv4Network | IPv6Network | None
    port: int | None

    def covers(self, host: str, port: int, address: IpAddress | None) -> bool:
        """Whether this entry lets workers reach the host at this address and port. `address` is None if it is not known yet. An entry with
        a host's name covers every address of that host, except those of metadata services. A range does not cover a metadata service
        either; only an entry with exactly its address does."""
        if self.port is not None and self.port != port:
            return False
        if self.network is None:
            return host == self.name and address not in _METADATA
        if address is None or address.version != self.network.version or address not in self.network:
            return False
        return address not in _METADATA or self.network.num_addresses == 1


class Egress(Struct, frozen=True):
    """The operator's rules for egress. The domains that a contract allows are not part of it: they are an argument of `admit`."""

    private: tuple[PrivateDestination, ...] = ()
    ports: tuple[int, ...] = (80, 443)

    @classmethod
    def of(cls, allow_private: Sequence[str] = (), ports: Sequence[int] = (80, 443)) -> Egress:
        """The rules that the settings describe. `allow_private` has names, addresses or ranges; each may end with `:port`. `ports` are the
        ports that are open on every allowed host. Raises InvalidParameter if an entry of `allow_private` is not valid."""
        return cls(tuple(_private(entry) for entry in allow_private), tuple(ports))

    def admit(self, url: str, domains: Sequence[str] | None, before: UrlOrigin | None = None) -> UrlOrigin:
        """The target of this URL. Raises ToolFailed if the URL is not valid, if its scheme, host or port is not allowed, or if the redirect
        goes from https to http. `domains` are the contract's; None allows every host. `before` is the target that redirected to this URL;
        None if it is the first URL of the call."""
        target = target_of(url)
        if before is not None and before.scheme == "https" and target.scheme == "http":
            raise ToolFailed("egress_denied", f"The redirect from {before.origin} to {target.origin} goes from https back to http.")
        with_port = False
        if domains is not None:
            entry = next((entry for entry in domains if _covers(entry, target)), None)
            if entry is None:
                listed = ", ".join(domains) or "none"
                raise ToolFailed("egress_denied", f"{target.host} is not among the contract's egress domains ({listed}).")
            with_port = _split_port(entry)[1] is not None
        if target.port not in self.ports and not with_port and not self._opened(target):
            own = f"[fetch] allow_private = {_entry(target.host, target.port)} allows this host of your own network with its port"
            opens = f"In the operator's holdfast.toml, [fetch] ports lists the allowed ports; {own}"
            raise ToolFailed(
                "egress_denied", f"Port {target.port} of {target.host} is not allowed, only {', '.join(map(str, self.ports))}. {opens}."
            )
        return target

    def refusal(self, host: str, port: int, address: str) -> str | None:
        """Why the worker may not connect to this address; None if it may."""
        ip = _parsed(address)
        if ip is None:
            return f"{address} is not a valid address"
        if any(entry.covers(host, port, ip) for entry in self.private):
            return None
        if ip in _METADATA:
            return f"{ip} is a metadata service"
        if isinstance(ip, IPv4Address):
            why = next((why for net, why in _REFUSED_V4 if ip in net), None)
        else:
            why = next((why for net, why in _REFUSED_V6 if ip in net), None if ip in _GLOBAL_V6 else "reserved")
        return why and f"{ip} is {why}"

    @staticmethod
    def remedy(host: str, port: int, addresses: Sequence[str]) -> str:
        """A sentence for the operator, with the setting that would let workers reach these refused addresses; empty if none of `addresses`
        is valid. A metadata service needs its own address in the setting."""
        found = [ip for address in addresses if (ip := _parsed(address)) is not None]
        if not found:
            return ""
        name = str(found[0]) if any(ip in _METADATA for ip in found) else host
        return f" An operator who wants workers to reach it writes [fetch] allow_private = {_entry(name, port)} into holdfast.toml."

    def _opened(self, target: UrlOrigin) -> bool:
        return any(entry.covers(target.host, target.port, _parsed(target.host)) for entry in self.private)


def _entry(host: str, port: int) -> str:
    return f'["[{host}]:{port}"]' if ":" in host else f'["{host}:{port}"]'


def target_of(url: str) -> UrlOrigin:
    """The scheme, host and port of a URL. The URL is not trusted: raises ToolFailed if it is too long, cannot be parsed, contains blanks,
    control characters or backslashes, is neither http nor https, contains a user or password, or has no valid host."""
    if len(url) > _LONGEST_URL:
        raise ToolFailed("egress_denied", f"The URL has {len(url)} characters; at most {_LONGEST_URL} are allowed.")
    if any(ord(c) <= 0x20 or ord(c) == 0x7F for c in url) or "\\" in url:
        raise ToolFailed("egress_denied", f"The URL {url[:200]!r} contains blanks, control characters or backslashes.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ToolFailed("egress_denied", f"The URL {url[:200]!r} cannot be read: {error}.") from None
    if parts.scheme not in _PORTS:
        raise ToolFailed("egress_denied", f"The URL {url[:200]!r} is neither http nor https.")
    if "@" in parts.netloc:
        raise ToolFailed("egress_denied", "The URL contains a user or a password. Such a URL is not fetched.")
    name = host_of(host)
    if not name:
        raise ToolFailed("egress_denied", f"The URL {url[:200]!r} contains no valid host.")
    return UrlOrigin(parts.scheme, name, _PORTS[parts.scheme] if port is None else port)


def host_of(name: str) -> str:
    """A host's name in the form in which names are compared: lower case, punycode, without a dot at the end; an IP address in its usual
    form. Empty if the text is not a valid host."""
    name = name.strip().lower()
    try:
        name = name if name.isascii() else idna.encode(name, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        return ""
    name = name.removesuffix(".")  # now, because other scripts have other dots
    ip = _parsed(name)
    if ip is not None:
        return str(ip)
    return name if all(label and all(c.isalnum() or c in "-_" for c in label) for label in name.split(".")) else ""


def _covers(entry: str, target: UrlOrigin) -> bool:
    """Whether an entry of the contract's domains covers a target. `shop.example` covers itself and its subdomains; `*.shop.example` only
    the subdomains; an IP address only itself. An entry with `:port` covers only that port."""
    name, port = _split_port(entry)
    if port is not None and port != target.port:
        return False
    under = name.startswith("*.")
    domain = host_of(name.removeprefix("*."))
    if not domain:
        return False
    if _parsed(domain) is not None:
        return target.host == domain
    return target.host.endswith("." + domain) or (not under and target.host == domain)


def _private(entry: str) -> PrivateDestination:
    name, port = _split_port(entry)
    try:
        return PrivateDestination(None, ipaddress.ip_network(name.strip("[]"), strict=False), port)
    except ValueError:
        host = host_of(name)
        if not host or "/" in name:
            raise InvalidParameter(
                f"allow_private contains {entry!r}, which is not a valid host, address or range, with or without :port."
            ) from None
        return PrivateDestination(host, None, port)


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.count(":") > 1 and not entry.startswith("["):
        return entry, None  # an IPv6 address or range
    name, colon, port = entry.rpartition(":")
    return (name, int(port)) if colon and port.isdigit() else (entry, None)


def _parsed(text: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
