"""`holdfast keys`: credentials made, listed and revoked on the command line are those that a server knows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.clock import SystemClock
from holdfast.model.errors import KeysSecretNeeded
from holdfast.store.backends import open_store
from holdfast.web.auth.denials import Denied
from holdfast.web.auth.key_sealing import Sealing
from holdfast.web.auth.keys import Keys
from holdfast.web.auth.secret import KeysSecrets
from tests.surface.auth_server import random_bytes
from tests.surface.cli_program import Program

SECRET = "an operator's secret, 32 characters"


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.environment.pop("HOLDFAST_KEYS_SECRET", None)
    program.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    return program


@contextlib.contextmanager
def server_keys(holdfast: Program, operator_secret: str | None = None) -> Iterator[Keys]:
    with contextlib.closing(open_store(str(holdfast.folder / "holdfast.db"), "server")) as store:
        secrets = KeysSecrets({"XDG_CONFIG_HOME": holdfast.environment["XDG_CONFIG_HOME"]}, given=operator_secret)
        keys = Keys(store, Sealing(store.seal, secrets, chance=random_bytes), SystemClock())
        keys.refresh()
        yield keys


def printed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_key_is_made_shown_once_listed_and_revoked(holdfast: Program) -> None:
    made = holdfast("keys", "create", "--role", "viewer", "--role", "operator", "--note", "Zoë's laptop", "--tenant", "acme")
    assert made.returncode == 0
    key = printed(made.stdout)
    assert key.keys() == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert key["AWS_SECRET_ACCESS_KEY"] not in made.stderr
    with server_keys(holdfast) as keys:
        credential, secret = keys.access_key(key["AWS_ACCESS_KEY_ID"])
    assert (secret, credential.roles, credential.tenant) == (key["AWS_SECRET_ACCESS_KEY"], ("operator", "viewer"), "acme")
    listed = holdfast("keys", "list")
    assert key["AWS_ACCESS_KEY_ID"] in listed.stdout
    assert "Zoë's laptop" in listed.stdout
    assert secret not in listed.stdout
    raw = b"".join(path.read_bytes() for path in holdfast.folder.glob("holdfast.db*") if path.is_file())
    assert secret.encode() not in raw
    assert holdfast("keys", "revoke", key["AWS_ACCESS_KEY_ID"]).returncode == 0
    assert holdfast("keys", "list", "--json").stdout == ""
    with server_keys(holdfast) as keys, pytest.raises(Denied):
        keys.access_key(key["AWS_ACCESS_KEY_ID"])


def test_a_token_is_made_and_described_for_machines(holdfast: Program) -> None:
    made = json.loads(holdfast("keys", "create", "--token", "--role", "approver", "--days", "30", "--json").stdout)
    secret = made.pop("secret")
    assert json.loads(holdfast("keys", "list", "--json").stdout) == made
    with server_keys(holdfast) as keys:
        credential = keys.token(secret)
    assert (credential.id, credential.kind, credential.roles) == (made["id"], "token", ("approver",))
    assert credential.expires_at == credential.created_at + 30 * 86_400_000
    plain = printed(holdfast("keys", "create", "--token", "--role", "viewer").stdout)
    assert plain["HOLDFAST_TOKEN"].startswith("hf_")


def test_a_key_made_with_the_operators_secret_needs_it(holdfast: Program) -> None:
    holdfast.environment["HOLDFAST_KEYS_SECRET"] = SECRET
    key = printed(holdfast("keys", "create", "--role", "admin").stdout)
    with server_keys(holdfast, SECRET) as keys:
        assert keys.access_key(key["AWS_ACCESS_KEY_ID"])[1] == key["AWS_SECRET_ACCESS_KEY"]
    with server_keys(holdfast) as keys, pytest.raises(KeysSecretNeeded):
        keys.access_key(key["AWS_ACCESS_KEY_ID"])
    holdfast.environment["HOLDFAST_KEYS_SECRET"] = "short"
    assert "HOLDFAST_KEYS_SECRET" in holdfast("keys", "create", "--role", "admin").stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (["create"], "--role"),
        (["create", "--role", "boss"], "There is no role 'boss'. The roles are viewer, operator, approver, settler, admin."),
        (["create", "--role", "admin", "--days", "0"], "1 to 36500 days"),
        (["create", "--role", "admin", "--tenant", "a\tb"], "Tenant"),
        (["create", "--role", "admin", "--note", "two\nlines"], "one line"),
        (["revoke", "nobody"], "There is no store"),
        (["list"], "There is no store"),
    ],
)
def test_a_mistake_is_said_clearly_and_makes_no_credential(holdfast: Program, words: list[str], said: str) -> None:
    ended = holdfast("keys", *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    if words[0] == "create":
        assert holdfast("keys", "list", "--json").stdout == ""
    else:
        assert not (holdfast.folder / "holdfast.db").exists()
