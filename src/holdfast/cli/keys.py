"""`holdfast keys`: the credentials of a server's clients. A secret is printed once, when it is made, and cannot be read again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.arguments import CodecOption, JsonOption, LinesOption, StoreOption, StorePlace, local_actor
from holdfast.cli.keys_secret import with_taken
from holdfast.cli.terminal import moment, print_document, print_line, print_table, say, seconds, working
from holdfast.model.clock import Clock
from holdfast.model.credentials import Credential, CredentialKind, Role, checked_person, checked_roles
from holdfast.model.errors import InvalidParameter, StoreNotFound
from holdfast.store.seam import CredentialStore, Store
from holdfast.store.shown_address import shown
from holdfast.web.auth.key_sealing import Sealing, access_keys
from holdfast.web.auth.keys import Issued, new_access_key, new_token, seal_anew, sealing_of
from holdfast.web.auth.secret import KeysSecrets

app = typer.Typer(help="Make, list and revoke the credentials of a server.", no_args_is_help=True, rich_markup_mode=None)
_ROLES = ", ".join(Role)


@app.command("create")
def create(
    role: Annotated[list[str], typer.Option("--role", metavar="ROLE", help=f"What the key may do: {_ROLES}. May be given several times.")],
    token: Annotated[
        bool, typer.Option("--token", help="Make a bearer token, for clients other than AWS's. Without it: an access key, for AWS's.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="The key sees and starts only executions of this tenant.")
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note for people, such as the owner.")] = "",
    person: Annotated[
        str | None,
        typer.Option(
            "--person", metavar="NAME", help="The person who holds the key. In approvals, all keys of one person count as one person."
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", metavar="N", help="For how many days the key is valid. Without it: until revoked.")
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Make a credential and print its secret. The secret cannot be printed again."""
    roles, place = checked_roles(role), StorePlace.of(store, codec)
    with _opened(place, create=True) as (opened, clock):
        given: dict[str, Any] = {"tenant": tenant, "note": note, "days": days, "person": person}
        if token:
            issued = new_token(roles=roles, now=clock.now(), chance=os.urandom, **given)
        else:
            sealing = sealing_of(opened, KeysSecrets(with_taken(), place.where), os.urandom, wanted=True)
            issued = new_access_key(sealing, roles=roles, now=clock.now(), chance=os.urandom, **given)
        made = issued.credential
        whose = "" if made.tenant is None else f" of tenant {made.tenant}"
        whose += "" if made.person is None else f", for {made.person}"
        opened.put_credential(made, local_actor().did("create key", made.id, f"made: {', '.join(made.roles)}{whose}", clock.now()))
    _print_secret(issued, json)


def _print_secret(issued: Issued, json: bool) -> None:
    made = issued.credential
    if json:
        print_document(_described(made) | {"secret": issued.secret})
        return
    if made.kind is CredentialKind.TOKEN:
        print(f"HOLDFAST_TOKEN={issued.secret}")
    else:
        print(f"AWS_ACCESS_KEY_ID={made.id}\nAWS_SECRET_ACCESS_KEY={issued.secret}")
    say(f"made {made.id} ({', '.join(made.roles)}); its secret is shown this once")


@app.command("list")
def list_(json_lines: LinesOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """List credentials, without their secrets."""
    with _opened(StorePlace.of(store, codec)) as (opened, clock):
        found, now = opened.credentials(), clock.now()
    if json_lines:
        for credential in found:
            print_line(_described(credential))
        return
    rows = [
        (x.id, x.kind.value, ", ".join(x.roles), x.tenant or "-", x.person or "-", seconds(x.created_at), _end(x, now), x.note or "-")
        for x in found
    ]
    print_table(["ID", "KIND", "ROLES", "TENANT", "PERSON", "CREATED", "EXPIRES", "NOTE"], rows, folds="NOTE")


@app.command("assign")
def assign(
    credential: Annotated[str, typer.Argument(metavar="ID", help="Its id, as `holdfast keys list` prints it.")],
    person: Annotated[str, typer.Option("--person", metavar="NAME", help="The person who holds it.")],
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Store which person holds a credential. The credential stays valid. Running servers know the person within about a second."""
    place, name = StorePlace.of(store, codec), checked_person(person)
    with _opened(place) as (opened, clock):
        found = next((one for one in opened.credentials() if one.id == credential), None)
        if found is None:
            raise InvalidParameter(f"There is no credential {credential!r} in {shown(place.where)}.")
        note = local_actor().did("assign key", credential, f"held by {name}, before by {found.person or 'no named person'}", clock.now())
        opened.put_credential(msgspec.structs.replace(found, person=name), note)
    say(f"{credential} is held by {name}")


@app.command("revoke")
def revoke(
    credential: Annotated[str, typer.Argument(metavar="ID", help="Its id, as `holdfast keys list` prints it.")],
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Revoke a credential. Running servers refuse it within about a second."""
    place = StorePlace.of(store, codec)
    with _opened(place) as (opened, clock):
        if not opened.remove_credential(credential, local_actor().did("revoke key", credential, "revoked", clock.now())):
            raise InvalidParameter(f"There is no credential {credential!r} in {shown(place.where)}.")
    say(f"revoked {credential}")


@app.command("rotate")
def rotate(
    lost: Annotated[bool, typer.Option("--lost", help="Revoke the access keys that none of the given secrets opens.")] = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Seal (encrypt) every access key with the current secret. Keys stay valid: only their sealed form in the store changes.

    To change the secret, set HOLDFAST_KEYS_SECRET to the new one and HOLDFAST_KEYS_SECRET_BEFORE to the old one.
    """
    place = StorePlace.of(store, codec)
    with working("sealing access keys"), _opened(place) as (opened, clock):
        secrets = KeysSecrets(with_taken(), place.where)
        revoked = _revoke_lost(opened, secrets, clock) if lost else []
        sealing_of(opened, secrets, os.urandom)
        count = len(access_keys(opened.credentials()))
        opened.note(local_actor().did("rotate keys", f"{count} access keys", f"sealed anew: {secrets.says()}", clock.now()))
    for credential in revoked:
        say(f"revoked {credential}, which no secret here opens")
    keys = "1 access key is" if count == 1 else f"{count} access keys are"
    say(f"{keys} sealed with the current secret; {secrets.says()}" if count else "there are no access keys")


def _revoke_lost(opened: CredentialStore, secrets: KeysSecrets, clock: Clock) -> list[str]:
    sealing = Sealing(opened.seal, secrets, chance=os.urandom)
    seal_anew(opened, sealing)
    found = [credential.id for credential in access_keys(opened.credentials()) if not sealing.opens(credential)]
    for credential in found:
        opened.remove_credential(credential, local_actor().did("revoke key", credential, "revoked: its secret is lost", clock.now()))
    return found


def _opened(place: StorePlace, *, create: bool = False) -> contextlib.AbstractContextManager[tuple[Store, Clock]]:
    """The store, open until the block is left, and its clock. Raises StoreNotFound if the store's file does not exist, unless `create` is
    set."""
    if not create and "://" not in place.where and not Path(place.where).exists():
        raise StoreNotFound(f"There is no store at {place.where}. `holdfast keys create` or the first execution makes it.")
    return place.opened()


def _end(credential: Credential, now: int) -> str:
    if credential.expires_at is None:
        return "never"
    return "expired" if credential.is_expired(now) else seconds(credential.expires_at)


def _described(credential: Credential) -> dict[str, Any]:
    return {
        "id": credential.id,
        "kind": credential.kind.value,
        "roles": [role.value for role in credential.roles],
        "tenant": credential.tenant,
        "person": credential.person,
        "note": credential.note,
        "created_at": moment(credential.created_at),
        "expires_at": moment(credential.expires_at),
    }
