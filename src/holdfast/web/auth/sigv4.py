"""AWS Signature Version 4: the server builds the signed text from the request again, signs it, and compares. Pure.

The signature is in the `Authorization` header or in the query (a presigned address). Each part that changes the meaning of a request must
be signed: the method, the path, the query, the host, every `x-amz-` header except `x-amz-user-agent`, the header `Idempotency-Key`, and the
body. Over TLS or from the same machine, a request may leave its body unsigned (`UNSIGNED-PAYLOAD`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

import msgspec

from holdfast.web.auth.denials import Denial, Denied

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SKEW_MS: Final = 5 * 60_000
"""How many milliseconds the time of a signature may be later than the server's clock. For a signature in a header, it may also be at most
this much earlier."""
MAX_EXPIRES_SECONDS: Final = 7 * 86_400
"""The longest validity of a presigned address, as on AWS."""
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_STAMP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_PART: Final = re.compile(r"\s*(?P<key>\w+)=(?P<value>[^,]*)")
"""The value may end with spaces; the reader strips them. A pattern that leaves them out takes time that grows with their square."""
_SCOPE: Final = re.compile(r"(?P<key>[\w-]{1,128})/(?P<day>\d{8})/(?P<region>[\w-]{1,64})/(?P<service>[\w-]{1,64})/aws4_request", re.A)
_NAMED: Final = re.compile(r"Credential=(?P<key>[A-Z0-9]{4,32})/", re.A)
"""The form of an access key's id, Holdfast's or AWS's. Any other text is not logged: it may be a secret that a client sent by mistake."""
_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_QUERY: Final = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature")
_FREE: Final = frozenset({"x-amz-user-agent"})
"""Headers that need no signature: the server does not use them, and proxies rewrite them."""
_MEANT: Final = frozenset({"idempotency-key"})
"""Headers that must be signed in addition to the `x-amz-` headers, because they change what a request does."""


def gathered(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Headers by name, each with all its values in order."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value)
    return found


class SignedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the client sent it: nothing in it is percent-decoded."""

    method: str
    path: str
    """Percent-encoded as the client sent it, without the query."""
    query: str
    headers: Mapping[str, Sequence[str]]
    """All values of each header; names in lower case."""
    private: bool
    """Whether no other machine could change the request on its way: it arrived over TLS, or from this machine."""

    def values(self, name: str) -> Sequence[str]:
        """All values of a header, by its name in lower case; empty if the request does not have it."""
        return self.headers.get(name, ())


class SignatureScope(NamedTuple):
    """The key, day, region and service that a signature is for."""

    key: str
    day: str
    region: str
    service: str


class RequestSignature(msgspec.Struct, frozen=True, kw_only=True):
    """The signature that a request has, before it is verified."""

    scope: SignatureScope
    stamp: str
    signed_headers: tuple[str, ...]
    signature: str
    expires_seconds: int | None
    """How long a presigned address is valid; None for a signature in the Authorization header."""


def is_signed(request: SignedRequest) -> bool:
    """Whether a request has a signature, valid or not."""
    return any(value.startswith("AWS4-") for value in request.values("authorization")) or "X-Amz-Signature=" in request.query


def claimed(request: SignedRequest) -> str | None:
    """The id of the access key that a request names; None if it names none. The id does not prove who sent the request. It is no secret, so
    it may be logged."""
    for text in (*request.values("authorization"), unquote(request.query)):
        found = _NAMED.search(text)
        if found is not None:
            return found["key"]
    return None


def claim_of(request: SignedRequest) -> RequestSignature:
    """Read the signature of a request, without verifying it. Raises Denied if the request does not have exactly one signature, if its form
    is wrong, if its date is not that of its credential scope, or if the header `host` is not signed."""
    asked = request.values("authorization")
    presigned = "X-Amz-Signature=" in request.query
    if len(asked) + presigned != 1:
        raise _incomplete("A request must have exactly one signature: in one Authorization header, or in its query.")
    claim = _of_query(request) if presigned else _of_header(request, asked[0])
    if claim.scope.day != claim.stamp[:8]:
        raise Denied(Denial.SIGNATURE, "The date of the credential scope is not the date of the request.")
    if claim.signed_headers != tuple(sorted(set(claim.signed_headers))) or not all(map(_HEADER.fullmatch, claim.signed_headers)):
        raise _incomplete("SignedHeaders must be names of headers in lower case, sorted, each once.")
    if "host" not in claim.signed_headers:
        raise Denied(Denial.SIGNATURE, "The header 'host' must be signed.")
    return claim


def _of_header(request: SignedRequest, text: str) -> RequestSignature:
    algorithm, _, rest = text.partition(" ")
    if algorithm != ALGORITHM:
        raise _incomplete(f"Only the algorithm {ALGORITHM} is supported.")
    parts: dict[str, str] = {}
    for part in rest.split(","):
        found = _PART.fullmatch(part)
        if found is None or found["key"] in parts:
            raise _incomplete("The Authorization header must have Credential=…, SignedHeaders=…, Signature=….")
        parts[found["key"]] = found["value"].rstrip()
    if parts.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise _incomplete("The Authorization header must have Credential=…, SignedHeaders=…, Signature=….")
    return RequestSignature(
        scope=_scope(parts["Credential"]),
        stamp=_stamp(request),
        signed_headers=tuple(parts["SignedHeaders"].split(";")),
        signature=parts["Signature"],
        expires_seconds=None,
    )


def _of_query(request: SignedRequest) -> RequestSignature:
    found: dict[str, str] = {}
    for pair in request.query.split("&"):
        key, _, value = pair.partition("=")
        if key in _QUERY:
            if key in found:
                raise _incomplete(f"{key} is given twice.")
            found[key] = unquote(value)
    missing = [key for key in _QUERY if key not in found]
    if missing:
        raise _incomplete(f"A presigned address must have {missing[0]}.")
    if found["X-Amz-Algorithm"] != ALGORITHM:
        raise _incomplete(f"Only the algorithm {ALGORITHM} is supported.")
    expires = found["X-Amz-Expires"]
    if not re.fullmatch(r"[0-9]{1,6}", expires) or not 1 <= int(expires) <= MAX_EXPIRES_SECONDS:
        raise _incomplete(f"X-Amz-Expires must be a number of seconds from 1 to {MAX_EXPIRES_SECONDS}.")
    return RequestSignature(
        scope=_scope(found["X-Amz-Credential"]),
        stamp=_checked_stamp(found["X-Amz-Date"]),
        signed_headers=tuple(found["X-Amz-SignedHeaders"].split(";")),
        signature=found["X-Amz-Signature"],
        expires_seconds=int(expires),
    )


def _scope(text: str) -> SignatureScope:
    found = _SCOPE.fullmatch(text)
    if found is None:
        raise _incomplete("Credential must be KEY/DATE/REGION/SERVICE/aws4_request.")
    return SignatureScope(found["key"], found["day"], found["region"], found["service"])


def _stamp(request: SignedRequest) -> str:
    """The time of the signature: the header X-Amz-Date, else Date. Raises Denied if it is missing, given twice, or cannot be read."""
    given = request.values("x-amz-date")
    if len(given) == 1:
        return _checked_stamp(given[0])
    dates = request.values("date")
    if given or len(dates) != 1:
        raise _incomplete("A signed request must have one header X-Amz-Date.")
    try:
        at = parsedate_to_datetime(dates[0])
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    except (ValueError, OverflowError):  # the last hours of the year 9999 are in the year 10000 elsewhere
        raise _incomplete("The header Date cannot be read. Send X-Amz-Date.") from None


def _checked_stamp(text: str) -> str:
    if not _STAMP.fullmatch(text):
        raise _incomplete("X-Amz-Date must be like 20261231T235959Z.")
    return text


def check_time(claim: RequestSignature, now: int) -> None:
    """Raises Denied if the signature was made more than 5 minutes (SKEW_MS) after `now`, if it has expired, or if its time does not exist.
    A signature in a header expires 5 minutes after it was made. A presigned address expires after the number of seconds that it names."""
    signed_at = _moment(claim.stamp)
    if signed_at > now + SKEW_MS:
        raise Denied(
            Denial.SIGNATURE,
            f"Signature not yet current: {claim.stamp} is more than 5 minutes later than the server's clock. "
            "Correct the clock of your machine.",
        )
    good_ms = SKEW_MS if claim.expires_seconds is None else claim.expires_seconds * 1000
    if signed_at + good_ms < now:
        raise Denied(
            Denial.SIGNATURE, f"Signature expired: {claim.stamp} is too long ago. Sign again, and check the clock of your machine."
        )


@lru_cache(maxsize=64)
def _moment(stamp: str) -> int:
    """The time of a stamp, in milliseconds since 1970. Raises Denied if there is no such time. The results are cached, because many
    requests that arrive together have the same stamp."""
    try:
        return int(datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        raise _incomplete("X-Amz-Date is not a valid time.") from None


def body_hash(request: SignedRequest) -> str | None:
    """The hash of the signed body, or UNSIGNED if the client did not sign the body, from the header or the query member
    X-Amz-Content-Sha256. None if it is not given: then the body itself must be hashed. Raises Denied if it has two different values, if it
    is neither a SHA-256 nor UNSIGNED, or if it is UNSIGNED and the request arrived neither over TLS nor from this machine."""
    given = [*request.values("x-amz-content-sha256")]
    given += [unquote(pair.partition("=")[2]) for pair in request.query.split("&") if pair.lower().startswith("x-amz-content-sha256=")]
    if not given:
        return None
    if len(set(given)) > 1:
        raise _incomplete("X-Amz-Content-Sha256 is given twice, with different values.")
    if given[0] == UNSIGNED:
        if not request.private:
            raise Denied(Denial.SIGNATURE, "A body without a signature is accepted only over TLS or from the same machine.")
    elif not _HASH.fullmatch(given[0]):
        raise Denied(Denial.SIGNATURE, f"X-Amz-Content-Sha256 must be a SHA-256 in hex or {UNSIGNED}; signed chunks are not supported.")
    return given[0]


def hash_of(body: bytes) -> str:
    """The SHA-256 of a body, in hexadecimal digits."""
    return hashlib.sha256(body).hexdigest()


def check_body(signed: str, body: bytes) -> None:
    """Raises Denied if the body does not have the signed hash. UNSIGNED allows every body."""
    if signed != UNSIGNED and not hmac.compare_digest(signed, hash_of(body)):
        raise Denied(Denial.SIGNATURE, "The body is not the one that was signed.")


def check_signature(request: SignedRequest, claim: RequestSignature, secret: str, signed_body: str) -> None:
    """Raises Denied if the signature was not made with this secret for this request, or if the signature leaves out a header that must be
    signed. `signed_body` is the hash of the body, or UNSIGNED."""
    unsigned = {name for name in request.headers if name.startswith("x-amz-") or name in _MEANT} - set(claim.signed_headers) - _FREE
    if unsigned:
        raise Denied(Denial.SIGNATURE, f"These headers must be signed: {', '.join(sorted(unsigned))}.")
    key = signing_key(secret, claim.scope.day, claim.scope.region, claim.scope.service)
    headers = _canonical_headers(request, claim.signed_headers)
    scope = f"{claim.scope.day}/{claim.scope.region}/{claim.scope.service}/aws4_request"
    for query in _canonical_queries(request.query):
        asked = "\n".join([request.method, _canonical_path(request.path), query, headers, ";".join(claim.signed_headers), signed_body])
        text = f"{ALGORITHM}\n{claim.stamp}\n{scope}\n{hashlib.sha256(asked.encode('utf-8', 'surrogateescape')).hexdigest()}"
        expected = hmac.digest(key, text.encode(), "sha256").hex()
        if hmac.compare_digest(expected.encode(), claim.signature.encode("utf-8", "replace")):
            return
    raise Denied(
        Denial.SIGNATURE,
        "The request signature we calculated does not match the signature you provided. Check your secret access key and signing method.",
    )


@lru_cache(maxsize=256)
def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    """The key with which AWS's clients sign requests of one day, region and service."""
    key = b"AWS4" + secret.encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


@lru_cache(maxsize=512)
def _canonical_path(path: str) -> str:
    """The path in the form that was signed. It is the path that the client sent, without empty segments (but a slash at the end stays),
    with `.` and `..` resolved, and then percent-encoded once more. All AWS services except S3 sign this form."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            if kept:
                kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    closed = "/" if path.endswith("/") and kept else ""
    return quote(f"/{'/'.join(kept)}{closed}", safe="/~", encoding="utf-8", errors="surrogateescape")


def _canonical_queries(query: str) -> Iterable[str]:
    """The forms of the query that a signer may have signed, sorted and without the signature: as the client sent it; and, if this differs,
    encoded again, for signers that encode more or fewer characters.

    Two queries that the server reads differently never have a form in common. The server reads a plus sign as a space (requests.py), so it
    is encoded again as `%20`; only `%2B` is a plus.
    """
    if not query:
        yield ""
        return
    pairs = [pair.partition("=")[::2] for pair in query.split("&") if pair]
    pairs = [(key, value) for key, value in pairs if key != "X-Amz-Signature"]
    as_it_came = "&".join(f"{key}={value}" for key, value in sorted(pairs))
    yield as_it_came
    anew = "&".join(f"{key}={value}" for key, value in sorted((_encoded(key), _encoded(value)) for key, value in pairs))
    if anew != as_it_came:
        yield anew


def _encoded(text: str) -> str:
    return quote(unquote_plus(text, errors="surrogateescape"), safe="-_.~", errors="surrogateescape")


def _canonical_headers(request: SignedRequest, names: Iterable[str]) -> str:
    lines = []
    for name in names:
        values = request.values(name)
        if not values:
            raise Denied(Denial.SIGNATURE, f"The header {name!r} was signed, but the request does not have it.")
        lines.append(f"{name}:{','.join(' '.join(value.split()) for value in values)}\n")
    return "".join(lines)


def _incomplete(message: str) -> Denied:
    return Denied(Denial.INCOMPLETE, message)
