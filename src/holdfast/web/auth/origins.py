"""Web pages of other sites must not use the server. Such a page can make a browser send requests to a server on the user's own machine, but
it cannot choose the headers Host and Origin. Pure.

Host: if the DNS name of a page is made to point to 127.0.0.1 (DNS rebinding), the browser sends that name as Host. Origin: if a page of
another origin makes a request, the browser sends that origin in it, or `null` if the origin is hidden.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

from holdfast.web.auth.denials import Denial, Denied

_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether a host is `localhost` or a loopback address, so that only this machine can reach a server that listens there."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_host(hosts: Sequence[str], allowed: Collection[str] | None) -> None:
    """Raises Denied if the Host header is missing, is given twice, cannot be read, or is neither an allowed name nor a loopback name. If
    `allowed` is None, nothing is checked."""
    if allowed is None:
        return
    found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if found is None:
        raise Denied(Denial.DENIED, "A request must have exactly one Host header: a name or an address, and a port if there is one.")
    name = found["name"].lower()
    if not is_loopback(name) and name not in allowed:
        raise Denied(
            Denial.DENIED, f"{name} is not a known name of this server. If this name is right, start the server with --allow-host {name}."
        )


def check_origin(origins: Sequence[str], hosts: Sequence[str], fetch_site: Sequence[str], fetch_mode: Sequence[str], *,
                 method: str, scheme: str, allowed: Collection[str]) -> None:  # fmt: skip
    """Raises Denied if the header Origin is given twice, or names another origin than this server and those in `allowed`. Without this
    header, raises Denied if Sec-Fetch-Site says that a page of another site makes the request; but to open a page of this server by a link
    (with GET or HEAD) is allowed.

    The first four parameters are the values of the headers Origin, Host, Sec-Fetch-Site and Sec-Fetch-Mode. Programs that are not browsers
    send neither Origin nor Sec-Fetch-Site. Their requests are allowed here.
    """
    if not origins:
        if "cross-site" in fetch_site and ("navigate" not in fetch_mode or method not in ("GET", "HEAD")):
            raise Denied(Denial.DENIED, "A page of another site may not use this server.")
        return
    ours = {f"{scheme}://{host}".lower() for host in hosts} | {origin.lower() for origin in allowed}
    if len(origins) > 1 or origins[0].lower() not in ours:
        raise Denied(Denial.DENIED, "A page of another origin may not use this server.")
