"""Credentials: how they are made, kept in a store, and recognised.

The secret of an access key is kept sealed (key_sealing.py), because the server needs it to verify a signature. A token is kept as its
SHA-256: a token is long and random, so that no reader of the hash can guess the token.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from holdfast.model.clock import Clock, monotonic
from holdfast.model.credentials import KEYS_FILE_VARIABLE, Credential, CredentialKind, Role, checked_note, checked_person, checked_tenant
from holdfast.model.errors import InvalidParameter, KeysSecretNeeded
from holdfast.store.seam import CredentialStore
from holdfast.web.auth.denials import NO_SUCH_TOKEN, Denial, Denied
from holdfast.web.auth.key_sealing import Chance, Sealing, access_keys, needs_outside_secret
from holdfast.web.auth.secret import SECRET_VARIABLE, KeysSecrets

log = logging.getLogger("holdfast.server")

TOKEN_PREFIX: Final = "hf_"
KEY_PREFIX: Final = "HFKA"
_NAMED: Final = 5
_FRESH_SECONDS: Final = 1.0
"""The server uses the credentials that it has read for this many seconds, and then reads them again. A revoked credential is refused after
that time at the latest."""


class Issued(NamedTuple):
    """A new credential with its secret. The secret is shown once; nothing shows it again later."""

    credential: Credential
    secret: str


def new_access_key(
    sealing: Sealing,
    *,
    roles: Sequence[Role],
    now: int,
    chance: Chance,
    tenant: str | None = None,
    note: str = "",
    days: int | None = None,
    person: str | None = None,
) -> Issued:
    """A new access key, for clients that sign their requests as for AWS. `tenant`: the only tenant that it reaches; None: all. `days`: how
    long it is valid; None: without end. Raises KeysSecretNeeded if there is no secret to seal it. Raises InvalidParameter if `tenant`,
    `note`, `days` or `person` is not valid."""
    key_id = KEY_PREFIX + base64.b32encode(chance(10)).decode()
    secret = base64.b64encode(chance(30)).decode()
    sealed = sealing.sealed(key_id, secret)
    return Issued(_credential(key_id, CredentialKind.ACCESS_KEY, sealed, roles, tenant, note, now, days, person), secret)


def new_token(
    *,
    roles: Sequence[Role],
    now: int,
    chance: Chance,
    tenant: str | None = None,
    note: str = "",
    days: int | None = None,
    person: str | None = None,
) -> Issued:
    """A new bearer token, for clients that do not sign their requests. `tenant`: the only tenant that it reaches; None: all. `days`: how
    long it is valid; None: without end. Raises InvalidParameter if `tenant`, `note`, `days` or `person` is not valid."""
    secret = TOKEN_PREFIX + base64.urlsafe_b64encode(chance(32)).decode().rstrip("=")
    token_id = "hft-" + base64.b32encode(chance(10)).decode().lower()
    return Issued(_credential(token_id, CredentialKind.TOKEN, hashed(secret), roles, tenant, note, now, days, person), secret)


def _credential(
    id: str,
    kind: CredentialKind,
    secret: str,
    roles: Sequence[Role],
    tenant: str | None,
    note: str,
    now: int,
    days: int | None,
    person: str | None,
) -> Credential:
    if days is not None and not 1 <= days <= 36_500:
        raise InvalidParameter(f"A credential can be valid for 1 to 36500 days, not for {days} days.")
    return Credential(
        id=id,
        kind=kind,
        secret=secret,
        roles=tuple(roles),
        tenant=checked_tenant(tenant),
        note=checked_note(note),
        person=checked_person(person),
        created_at=now,
        expires_at=None if days is None else now + days * 86_400_000,
    )


def hashed(token: str) -> str:
    """The SHA-256 of a token, in hexadecimal digits. The store keeps it in place of the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class Keeper(Protocol):
    """What this module needs of a store: to read the credentials, and to replace the sealed secret of one."""

    def credentials(self) -> Sequence[Credential]: ...
    def reseal_credential(self, credential: str, before: str, after: str) -> bool: ...


def seal_anew(keeper: Keeper, sealing: Sealing) -> list[str]:
    """Seal again, with the current secret, each access key that was sealed with another secret. Returns the ids of those that no secret of
    this process can open; they stay as they are. If this process has no secret, nothing is sealed, and the result is empty."""
    lost, renewed = [], 0
    for credential in access_keys(keeper.credentials()):
        if not sealing.is_current(credential):
            try:
                after = sealing.sealed(credential.id, sealing.opened(credential))
            except KeysSecretNeeded:
                lost.append(credential.id)
            else:
                renewed += keeper.reseal_credential(credential.id, credential.secret, after)
    if renewed:
        log.warning("%d access keys are sealed with the current secret now; if others could read the store before, make new ones", renewed)
    return lost


def sealing_of(store: CredentialStore, secrets: KeysSecrets, chance: Chance, *, wanted: bool = False) -> Sealing:
    """The sealing of a store's access keys. If the store has no access key, and none will be made (`wanted` is False), no secret is
    looked for.

    Else, if there is no secret that seals, a key file is made; but not if an access key was sealed with a secret of the operator, because a
    new secret could not open that key. Keys that another secret has sealed are sealed again with the current one. Raises KeysSecretNeeded
    if a key cannot be opened, or if a key file is needed and cannot be made.
    """
    sealing = Sealing(store.seal, secrets, chance=chance)
    known = access_keys(store.credentials())
    if not known and not wanted:
        return sealing
    if not secrets.is_there and not any(map(needs_outside_secret, known)):
        made = secrets.make(chance)
        log.warning("the key file %s is made: it opens access keys. Back it up, but never together with the store", made)
    if secrets.is_there:
        seal_anew(store, sealing)
    lost = [credential.id for credential in access_keys(store.credentials()) if not sealing.opens(credential)]
    if lost:
        raise KeysSecretNeeded(
            f"The secret that sealed the access keys {', '.join(lost[:_NAMED])} is missing. Give it in {SECRET_VARIABLE}, in the file that "
            f"{KEYS_FILE_VARIABLE} names, or put the key file back with which they were made. "
            "If it is lost, `holdfast keys rotate --lost` revokes these keys; then make new ones."
        )
    return sealing


class Keys:
    """The credentials of a store, as a server uses them. One second after they were read they are stale: the server must call `refresh`
    before it uses them again."""

    def __init__(self, keeper: Keeper, sealing: Sealing, clock: Clock) -> None:
        self._keeper = keeper
        self._sealing = sealing
        self._clock = clock
        self._all: dict[str, Credential] = {}
        self._by_id: dict[str, Credential] = {}
        self._by_hash: dict[str, Credential] = {}
        self._secrets: dict[tuple[str, str], str] = {}
        self._read_at: float | None = None

    def is_stale(self) -> bool:
        """Whether the caller must call `refresh` first."""
        return self._read_at is None or monotonic() - self._read_at >= _FRESH_SECONDS

    def refresh(self) -> None:
        """Read the credentials from the store again. Blocks. An access key that was sealed with another secret than the current one is
        opened, if that is possible, and sealed with the current one."""
        found = self._keeper.credentials()
        if not all(map(self._sealing.is_current, access_keys(found))):
            seal_anew(self._keeper, self._sealing)
            found = self._keeper.credentials()
        self._all = {x.id: x for x in found}
        self._by_id = {x.id: x for x in found if x.kind is CredentialKind.ACCESS_KEY}
        self._by_hash = {x.secret: x for x in found if x.kind is CredentialKind.TOKEN}
        known = {(x.id, x.secret) for x in self._by_id.values()}
        self._secrets = {key: secret for key, secret in self._secrets.items() if key in known}
        self._read_at = monotonic()

    def access_key(self, key_id: str) -> tuple[Credential, str]:
        """An access key and its secret. Raises Denied if the key is unknown or has expired. Raises KeysSecretNeeded if its secret cannot be
        opened."""
        found = self._good(self._by_id.get(key_id))
        place = (found.id, found.secret)
        secret = self._secrets.get(place)
        if secret is None:
            secret = self._secrets[place] = self._sealing.opened(found)
        return found, secret

    def token(self, token: str) -> Credential:
        """The credential of a token. Raises Denied if the token is unknown or has expired. The search compares hashes, so the time that it
        takes tells an attacker nothing about the token."""
        return self._good(self._by_hash.get(hashed(token)))

    def credential(self, id: str) -> Credential:
        """The credential with this id, for a session that began with it. Raises Denied if the credential was revoked or has expired: the
        session then has ended too."""
        return self._good(self._all.get(id))

    def _good(self, found: Credential | None) -> Credential:
        if found is None:
            raise Denied(Denial.UNKNOWN, NO_SUCH_TOKEN)
        if found.is_expired(self._clock.now()):
            raise Denied(Denial.EXPIRED, f"The credential {found.id} has expired. Make a new one.")
        return found
