"""Addresses: which database, which schema in it, and how both are shown in messages without the password."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from holdfast.model.errors import InvalidParameter
from holdfast.store.shown_address import shown

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_ENCODE: Final = (
    "Write it as postgresql://user:password@host:port/database with parameters of libpq. In the user and in the password, write / as %2F, "
    "? as %3F, # as %23, @ as %40 and % as %25."
)
_DEFAULTS: Final = {
    "application_name": "holdfast",
    "connect_timeout": "5",
    # After a failover the next connection finds the server that accepts writes.
    "target_session_attrs": "read-write",
    # If a server vanishes without closing its connections, that is noticed after half a minute, not after two hours.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class Address(NamedTuple):
    """The database and the schema of a store. `shown` is the address without its password, for messages."""

    parameters: dict[str, str]
    """The connection parameters of libpq, by name."""
    schema: str
    shown: str


def parsed(where: str) -> Address:
    """Read `postgresql://user:password@host:port/database?schema=…`. Any parameter of libpq may follow the question mark. Without the
    parameter `schema`, the schema is `holdfast`. Raises InvalidParameter if the address is not valid."""
    told = shown(where).partition("#")[0].partition("?")[0]
    try:
        scheme, host, path, query, fragment = urlsplit(where)
        if host.count("@") > 1 or ("@" not in host and ("@" in path or "@" in fragment)):
            raise ValueError("the user or the password has a character that must be percent-encoded")
    except ValueError:  # the texts of Python's errors may have the password
        raise InvalidParameter(f"{told} is not the address of a Postgres database. {_ENCODE}") from None
    asked = parse_qsl(query, keep_blank_values=True)
    schemas = [value for name, value in asked if name == "schema"] or ["holdfast"]
    schema = schemas[-1]
    if not _SCHEMA.fullmatch(schema):
        raise InvalidParameter(f"Schema {schema!r}: use 1 to 63 lower-case letters, digits or '_', and no digit first.")
    rest = urlencode([(name, value) for name, value in asked if name != "schema"], quote_via=quote)
    told += "" if schema == "holdfast" else f"?schema={schema}"
    try:
        known = conninfo_to_dict(urlunsplit((scheme, host, path, rest, fragment)))
    except ProgrammingError as error:
        reason = str(error).partition('"')[0].strip(" :\n")  # libpq quotes what it cannot read, which may be the password
        raise InvalidParameter(f"{told} is not the address of a Postgres database: {reason}. {_ENCODE}") from None
    given = {name: str(value) for name, value in known.items() if value is not None}
    return Address(_DEFAULTS | given | {"client_encoding": "utf8"}, schema, told)


def _without_password(host: str) -> str:
    """The user and the host (or hosts) in an address, without the password."""
    user, at, hosts = host.rpartition("@")
    return f"{user.partition(':')[0]}{at}{hosts}"


def without_password(where: str) -> str:
    """The address without its password and without the parameter `schema`, which only Holdfast reads: for commands of Postgres's own
    tools."""
    scheme, host, path, query, fragment = urlsplit(where)
    rest = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name not in ("schema", "password")]
    return urlunsplit((scheme, _without_password(host), path, urlencode(rest, quote_via=quote), fragment))
