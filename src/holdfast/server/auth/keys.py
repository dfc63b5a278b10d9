"""Credentials: making them, keeping them in a store, and recognising them.

The secret of an access key is kept under AES-256-GCM, because whoever verifies a signature needs it: with a key that the store itself has,
or with one made from a secret that only the operator has. A token is kept as its SHA-256: it is long and random, so that nobody can guess
one from its hash.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol

from holdfast.model.clock import Clock, monotonic
from holdfast.model.credentials import Credential, CredentialKind, Role, checked_note, checked_tenant
from holdfast.model.errors import InvalidParameter
from holdfast.model.ids import Seal
from holdfast.server.auth.refusing import NO_SUCH_TOKEN, Refusal, Refused
from holdfast.store.encryption import AesGcm

TOKEN_PREFIX: Final = "hf_"
KEY_PREFIX: Final = "HFKA"
SECRET_VARIABLE: Final = "HOLDFAST_KEYS_SECRET"
_LEAST_SECRET: Final = 32
_FRESH_SECONDS: Final = 1.0
"""How long what was read from the store is believed: a revoked credential is refused after that."""

Chance = Callable[[int], bytes]
"""Makes random bytes, as `os.urandom` does."""


class Sealing:
    """Seals the secrets of access keys. Each sealed text names its key, so that secrets from before an operator's secret go on working."""

    def __init__(self, seal: Seal, operator_secret: str | None = None, *, chance: Chance) -> None:
        self._keys = {"store": seal.derived(b"access keys")}
        if operator_secret is not None:
            if len(operator_secret) < _LEAST_SECRET:
                raise InvalidParameter(
                    f"The operator's secret ({SECRET_VARIABLE}) must have at least {_LEAST_SECRET} characters; make it at random."
                )
            self._keys["operator"] = hmac.digest(operator_secret.encode(), b"holdfast access keys", "sha256")
        self._chance = chance

    @cached_property
    def _codec(self) -> AesGcm:
        """Made when it is needed: tokens alone need no package for encryption."""
        return AesGcm(self._keys, "operator" if "operator" in self._keys else "store", chance=self._chance)

    def sealed(self, key_id: str, secret: str) -> str:
        """A secret as the store may have it; it can only be opened under the same id."""
        return self._codec.encode(secret, f"access key {key_id}")

    def opened(self, credential: Credential) -> str:
        """The secret of an access key."""
        return self._codec.decode(credential.secret, f"access key {credential.id}")


def operators_secret(environment: Mapping[str, str]) -> str | None:
    """The operator's secret as processes are given it: `HOLDFAST_KEYS_SECRET`; without it the store's own key seals."""
    return environment.get(SECRET_VARIABLE) or None


class Issued(NamedTuple):
    """A new credential, with the secret that nobody can read again."""

    credential: Credential
    secret: str


def new_access_key(
    sealing: Sealing, *, roles: Sequence[Role], now: int, chance: Chance, tenant: str | None = None, note: str = "", days: int | None = None
) -> Issued:
    """An access key, for clients that sign their requests as for AWS."""
    key_id = KEY_PREFIX + base64.b32encode(chance(10)).decode()
    secret = base64.b64encode(chance(30)).decode()
    return Issued(_credential(key_id, CredentialKind.ACCESS_KEY, sealing.sealed(key_id, secret), roles, tenant, note, now, days), secret)


def new_token(
    *, roles: Sequence[Role], now: int, chance: Chance, tenant: str | None = None, note: str = "", days: int | None = None
) -> Issued:
    """A bearer token, for everything else."""
    secret = TOKEN_PREFIX + base64.urlsafe_b64encode(chance(32)).decode().rstrip("=")
    token_id = "hft-" + base64.b32encode(chance(10)).decode().lower()
    return Issued(_credential(token_id, CredentialKind.TOKEN, hashed(secret), roles, tenant, note, now, days), secret)


def _credential(
    id: str, kind: CredentialKind, secret: str, roles: Sequence[Role], tenant: str | None, note: str, now: int, days: int | None
) -> Credential:
    if days is not None and not 1 <= days <= 36_500:
        raise InvalidParameter(f"A credential is good for 1 to 36500 days, not for {days}.")
    return Credential(
        id=id,
        kind=kind,
        secret=secret,
        roles=tuple(roles),
        tenant=checked_tenant(tenant),
        note=checked_note(note),
        created_at=now,
        expires_at=None if days is None else now + days * 86_400_000,
    )


def hashed(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class Keeper(Protocol):
    """The part of a store that keys are asked of."""

    def credentials(self) -> Sequence[Credential]: ...


class Keys:
    """The credentials of a store, as a server asks for them: read again when they are a second old."""

    def __init__(self, keeper: Keeper, sealing: Sealing, clock: Clock) -> None:
        self._keeper = keeper
        self._sealing = sealing
        self._clock = clock
        self._by_id: dict[str, Credential] = {}
        self._by_hash: dict[str, Credential] = {}
        self._secrets: dict[tuple[str, str], str] = {}
        self._read_at: float | None = None

    def is_stale(self) -> bool:
        """Whether `refresh` must be called before anything is asked."""
        return self._read_at is None or monotonic() - self._read_at >= _FRESH_SECONDS

    def refresh(self) -> None:
        """Read them again; blocks."""
        found = self._keeper.credentials()
        self._by_id = {x.id: x for x in found if x.kind is CredentialKind.ACCESS_KEY}
        self._by_hash = {x.secret: x for x in found if x.kind is CredentialKind.TOKEN}
        known = {(x.id, x.secret) for x in self._by_id.values()}
        self._secrets = {key: secret for key, secret in self._secrets.items() if key in known}
        self._read_at = monotonic()

    def access_key(self, key_id: str) -> tuple[Credential, str]:
        """An access key and its secret."""
        found = self._good(self._by_id.get(key_id))
        place = (found.id, found.secret)
        secret = self._secrets.get(place)
        if secret is None:
            secret = self._secrets[place] = self._sealing.opened(found)
        return found, secret

    def token(self, token: str) -> Credential:
        """The credential of a token. It is looked up by its hash, of which a guesser learns nothing from how long that takes."""
        return self._good(self._by_hash.get(hashed(token)))

    def _good(self, found: Credential | None) -> Credential:
        if found is None:
            raise Refused(Refusal.UNKNOWN, NO_SUCH_TOKEN)
        if found.is_expired(self._clock.now()):
            raise Refused(Refusal.EXPIRED, f"The credential {found.id} has expired. Make a new one.")
        return found
