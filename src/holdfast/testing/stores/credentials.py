"""Credentials: kept as they were given, one for each id, and gone when they are removed."""

from collections.abc import Callable

import msgspec
import pytest

from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.store.seam import Store

KEY = Credential(
    id="HFKAEXAMPLE",
    kind=CredentialKind.ACCESS_KEY,
    secret="store:c2VhbGVk",
    roles=(Role.APPROVER, Role.OPERATOR),
    tenant="acme: north/1",
    note="Zoë's laptop",
    created_at=1_767_225_600_000,
    expires_at=1_767_225_600_001,
)
TOKEN = Credential(id="hft-example", kind=CredentialKind.TOKEN, secret="ab" * 32, roles=(Role.VIEWER,), created_at=0)


class CredentialsSuite:
    """Who may ask a server. A class that has these facts provides the fixture `opening`, which opens its store for a member."""

    @pytest.fixture
    def keeper(self, opening: Callable[[str], Store]) -> Store:
        """The store of a process that is no runner."""
        return opening("keeper")

    def test_a_new_store_has_no_credentials(self, keeper: Store) -> None:
        assert list(keeper.credentials()) == []

    def test_credentials_are_read_back_as_they_were_given_in_the_order_of_their_ids(self, keeper: Store) -> None:
        keeper.put_credential(TOKEN)
        keeper.put_credential(KEY)
        assert list(keeper.credentials()) == [KEY, TOKEN]

    def test_a_credential_takes_the_place_of_one_of_the_same_id(self, keeper: Store) -> None:
        keeper.put_credential(KEY)
        changed = msgspec.structs.replace(TOKEN, id=KEY.id, note="")
        keeper.put_credential(changed)
        assert list(keeper.credentials()) == [changed]

    def test_a_removed_credential_is_gone_and_no_other(self, keeper: Store) -> None:
        keeper.put_credential(TOKEN)
        keeper.put_credential(KEY)
        assert keeper.remove_credential(KEY.id)
        assert list(keeper.credentials()) == [TOKEN]
        assert not keeper.remove_credential(KEY.id)
        assert not keeper.remove_credential("nobody\0")


class SharedCredentialsSuite(CredentialsSuite):
    """The same for a store that several processes may open."""

    def test_the_other_process_sees_a_credential_and_its_end(self, opening: Callable[[str], Store], keeper: Store) -> None:
        other = opening("server")
        keeper.put_credential(KEY)
        assert list(other.credentials()) == [KEY]
        keeper.remove_credential(KEY.id)
        assert list(other.credentials()) == []

    def test_credentials_are_there_after_reopening(self, opening: Callable[[str], Store], keeper: Store) -> None:
        keeper.put_credential(KEY)
        keeper.close()
        assert list(opening("later").credentials()) == [KEY]
