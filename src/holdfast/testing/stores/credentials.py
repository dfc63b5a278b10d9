"""Credentials: the store keeps one per id, unchanged, until it is removed."""

import msgspec

from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import OneHandle, Opening, TwoHandles

KEY = Credential(
    id="HFKAEXAMPLE",
    kind=CredentialKind.ACCESS_KEY,
    secret="store:c2VhbGVk",
    roles=(Role.APPROVER, Role.OPERATOR),
    tenant="acme: north/1",
    note="Zoë's laptop",
    person="zoe@example.org",
    created_at=1_767_225_600_000,
    expires_at=1_767_225_600_001,
)
TOKEN = Credential(id="hft-example", kind=CredentialKind.TOKEN, secret="ab" * 32, roles=(Role.VIEWER,), created_at=0)


class CredentialsSuite(OneHandle):
    """Tests: the credentials of a server's clients. They need one handle of the store."""

    def test_a_new_store_has_no_credentials(self, store: Store) -> None:
        assert list(store.credentials()) == []

    def test_credentials_are_read_back_as_they_were_given_in_the_order_of_their_ids(self, store: Store) -> None:
        store.put_credential(TOKEN)
        store.put_credential(KEY)
        assert list(store.credentials()) == [KEY, TOKEN]

    def test_a_credential_takes_the_place_of_one_of_the_same_id(self, store: Store) -> None:
        store.put_credential(KEY)
        changed = msgspec.structs.replace(TOKEN, id=KEY.id, note="")
        store.put_credential(changed)
        assert list(store.credentials()) == [changed]

    def test_a_removed_credential_is_gone_and_no_other(self, store: Store) -> None:
        store.put_credential(TOKEN)
        store.put_credential(KEY)
        assert store.remove_credential(KEY.id)
        assert list(store.credentials()) == [TOKEN]
        assert not store.remove_credential(KEY.id)
        assert not store.remove_credential("absent\0")

    def test_a_secret_is_sealed_anew_only_in_the_place_of_the_one_that_was_read(self, store: Store) -> None:
        store.put_credential(KEY)
        store.put_credential(TOKEN)
        assert store.reseal_credential(KEY.id, KEY.secret, "v2.ab:bmV3")
        assert list(store.credentials()) == [msgspec.structs.replace(KEY, secret="v2.ab:bmV3"), TOKEN]
        assert not store.reseal_credential(KEY.id, KEY.secret, "v2.ab:bGF0ZXI=")
        store.remove_credential(KEY.id)
        assert not store.reseal_credential(KEY.id, "v2.ab:bmV3", "v2.ab:YmFjaw==")
        assert list(store.credentials()) == [TOKEN]


class SharedCredentialsSuite(TwoHandles):
    """Tests: the credentials in a store that several processes open. They need two handles of the store."""

    def test_the_other_process_sees_a_credential_and_its_end(self, store: Store, other: Store) -> None:
        store.put_credential(KEY)
        assert list(other.credentials()) == [KEY]
        store.remove_credential(KEY.id)
        assert list(other.credentials()) == []

    def test_credentials_are_there_after_reopening(self, opening: Opening, store: Store) -> None:
        store.put_credential(KEY)
        store.close()
        assert list(opening("later").credentials()) == [KEY]
