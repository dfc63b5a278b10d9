"""Web pages must not reach in. A page of another site can make a browser ask a server on its user's own machine; what it cannot do is
choose the headers Host and Origin. Pure.

Host: a page whose own name was pointed at 127.0.0.1 (DNS rebinding) is of the same origin for the browser, but its requests carry its
name. Origin: any other page's requests carry its origin, `null` for one that hides it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

from holdfast.web.auth.refusing import Refusal, Refused

_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_host(hosts: Sequence[str], allowed: Collection[str] | None) -> None:
    """Refuse a request that was meant for somebody else. None allows every name."""
    if allowed is None:
        return
    found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if found is None:
        raise Refused(Refusal.DENIED, "A request must have one Host header.")
    name = found["name"].lower()
    if not is_loopback(name) and name not in allowed:
        raise Refused(Refusal.DENIED, f"This server is not {name}. If it is, start it with that name as an allowed host (--allow-host).")


def check_origin(origins: Sequence[str], hosts: Sequence[str], fetch_site: Sequence[str], fetch_mode: Sequence[str], *,
                 method: str, scheme: str, allowed: Collection[str]) -> None:  # fmt: skip
    """Refuse what a page of another origin asks; a link that somebody follows is no question of the page.

    Programs that are no browsers send no Origin.
    """
    if not origins:
        if "cross-site" in fetch_site and ("navigate" not in fetch_mode or method not in ("GET", "HEAD")):
            raise Refused(Refusal.DENIED, "A page of another site may not ask this server.")
        return
    ours = {f"{scheme}://{host}".lower() for host in hosts} | {origin.lower() for origin in allowed}
    if len(origins) > 1 or origins[0].lower() not in ours:
        raise Refused(Refusal.DENIED, "A page of another origin may not ask this server.")
