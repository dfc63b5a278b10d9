"""The credentials of a store, for callers who administer all tenants. The secret of a credential is returned once, when it is made. This
module imports from holdfast.web, because holdfast.web makes credentials.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from holdfast.console.sources.viewer import Viewer
from holdfast.model.audit import Notes
from holdfast.model.credentials import Credential, checked_person, checked_roles
from holdfast.model.errors import InvalidParameter
from holdfast.web.auth.keys import Issued, new_token


class KeyNotFound(LookupError):
    """There is no credential with the id that was asked for. Only the console's pages catch this error, so it has no code of its own."""


class TokenAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The token that a person asks for in the form."""

    roles: tuple[str, ...] = ()
    tenant: str = ""
    person: str = ""
    note: str = ""
    days: str = ""


class KeysSource:
    """Reads, makes, assigns and revokes credentials."""

    def __init__(self, viewer: Viewer, chance: Callable[[int], bytes] = os.urandom) -> None:
        self._viewer = viewer
        self._chance = chance

    def all(self) -> Sequence[Credential]:
        """All credentials, in the order of their ids, without what the store keeps of their secrets."""
        return [msgspec.structs.replace(one, secret="") for one in self._viewer.store.credentials()]

    def find(self, credential: str) -> Credential:
        """One credential, without its secret. Raises KeyNotFound if there is none."""
        found = next((one for one in self.all() if one.id == credential), None)
        if found is None:
            raise KeyNotFound(f"There is no credential {credential!r:.100}.")
        return found

    def make(self, asked: TokenAsked) -> Issued:
        """Make a token, and write its credential to the store. The result has the secret, which cannot be read again later. Raises
        InvalidParameter if a field is wrong."""
        issued = new_token(
            roles=checked_roles(asked.roles),
            now=self._viewer.now,
            chance=self._chance,
            tenant=asked.tenant or None,
            note=asked.note,
            days=_days(asked.days),
            person=asked.person or None,
        )
        made = issued.credential
        whose = "" if made.tenant is None else f" of tenant {made.tenant}"
        whose += "" if made.person is None else f", for {made.person}"
        self._viewer.store.put_credential(made, self._did("create key", made.id, f"made: {', '.join(made.roles)}{whose}"))
        return issued

    def revoke(self, credential: str) -> None:
        """Remove a credential, and end every session that began with it. Raises KeyNotFound if there is none."""
        if not self._viewer.store.remove_credential(credential, self._did("revoke key", credential, "revoked")):
            raise KeyNotFound(f"There is no credential {credential!r:.100}.")
        self._viewer.store.remove_sessions(credential)

    def assign(self, credential: str, person: str) -> None:
        """Record which person holds a credential. Raises KeyNotFound if there is no such credential. Raises InvalidParameter if the name of
        the person is not valid."""
        found = next((one for one in self._viewer.store.credentials() if one.id == credential), None)
        if found is None:
            raise KeyNotFound(f"There is no credential {credential!r:.100}.")
        name = checked_person(person)
        note = self._did("assign key", credential, f"held by {name}, before by {found.person or 'no named person'}")
        self._viewer.store.put_credential(msgspec.structs.replace(found, person=name), note)

    def _did(self, what: str, on: str, outcome: str) -> Notes:
        actor = self._viewer.actor
        return () if actor is None else actor.did(what, on, outcome, self._viewer.now)


def _days(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise InvalidParameter(f"Days: {text!r:.50} is not a whole number from 1 to 36500. Write such a number, or leave the field empty.")
    return int(text)
