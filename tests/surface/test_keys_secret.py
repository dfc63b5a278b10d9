"""The key that seals access keys does not lie beside them: attacks with a copy of the store, and what happens to older stores."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.clock import SystemClock
from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.model.errors import KeysSecretNeeded
from holdfast.operator.trust import configuration_folder
from holdfast.store.backends import open_store
from holdfast.store.encryption import AesGcm
from holdfast.store.seam import Store
from holdfast.web.auth.key_sealing import Sealing, access_keys
from holdfast.web.auth.keys import Keys, new_access_key, sealing_of
from holdfast.web.auth.secret import KeysSecret, KeysSecrets
from holdfast.workers.tools.secrets import EnvironmentSecrets
from tests.surface.auth_server import gate, token
from tests.surface.cli_program import Program
from tests.surface.serve_program import Program as Server

SECRET, ANOTHER = "the operator's secret, long enough", "another secret that is long enough"
PLAIN = "the secret of an access key"


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    return program


@contextlib.contextmanager
def opened(where: Path) -> Iterator[Store]:
    with contextlib.closing(open_store(str(where), "test")) as store:
        yield store


def printed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def sealed_by_an_older_release(store: Store) -> Credential:
    """As releases before sealed it: with what the store has."""
    codec = AesGcm({"store": store.seal.derived(b"access keys")}, "store")
    sealed = codec.encode(PLAIN, "access key HFKAOLD")
    made = Credential(id="HFKAOLD", kind=CredentialKind.ACCESS_KEY, secret=sealed, roles=(Role.ADMIN,), created_at=0)
    store.put_credential(made)
    return made


def files_of(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in store.parent.glob(f"{store.name}*") if path.is_file())


# --- a copy of the store is not enough


def test_who_has_a_copy_of_the_store_cannot_open_its_access_keys(holdfast: Program, tmp_path: Path) -> None:
    key = printed(holdfast("keys", "create", "--role", "admin").stdout)
    stolen = tmp_path / "stolen"
    stolen.mkdir()
    for path in tmp_path.glob("holdfast.db*"):
        if path.is_file():
            shutil.copy(path, stolen / path.name)
    with opened(stolen / "holdfast.db") as store:
        (credential,) = access_keys(store.credentials())
        # Everything that the file has: the seal, and whatever older releases made of it.
        known = {"store": store.seal.derived(b"access keys"), "operator": store.seal.derived(b"access keys")}
        body = credential.secret.partition(":")[2]
        for name in known:
            with pytest.raises(Exception, match=r"damaged|made with"):
                AesGcm(known, "store").decode(f"{name}:{body}", f"access key {credential.id}")
        thief = KeysSecrets({"XDG_CONFIG_HOME": str(stolen / "config")}, str(stolen / "holdfast.db"))
        with pytest.raises(KeysSecretNeeded, match="HOLDFAST_KEYS_SECRET"):
            sealing_of(store, thief, os.urandom)
        assert not (stolen / "config").exists(), "no other key takes the place of the one that is missing"
    raw = files_of(stolen / "holdfast.db")
    assert key["AWS_SECRET_ACCESS_KEY"].encode() not in raw
    assert (tmp_path / "config" / "holdfast" / "keys.secret").read_bytes().strip() not in raw


def test_the_key_file_is_private_and_made_once(holdfast: Program, tmp_path: Path) -> None:
    first = holdfast("keys", "create", "--role", "admin")
    file = tmp_path / "config" / "holdfast" / "keys.secret"
    assert str(file) in first.stderr
    before = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (file.parent, file.parent.parent)] == [0o700, 0o700]
    assert [path.name for path in file.parent.iterdir()] == ["keys.secret"]
    assert before.strip() not in first.stdout + first.stderr
    second = holdfast("keys", "create", "--role", "viewer")
    assert (file.read_text(), second.stderr.count("key file")) == (before, 0)
    file.chmod(0o644)
    told = holdfast("keys", "create", "--role", "viewer").stderr
    assert f"{file} (was 0644)" in told
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_tokens_alone_need_no_secret(holdfast: Program, tmp_path: Path) -> None:
    assert holdfast("keys", "create", "--token", "--role", "admin").returncode == 0
    assert not (tmp_path / "config").exists()


# --- older stores


def test_access_keys_of_older_releases_are_sealed_anew_and_nothing_of_the_old_seal_is_left(tmp_path: Path) -> None:
    where = tmp_path / "holdfast.db"
    with opened(where) as store:
        old = sealed_by_an_older_release(store)
    body = old.secret.partition(":")[2].encode()
    assert body in files_of(where)
    secrets = KeysSecrets({"XDG_CONFIG_HOME": str(tmp_path / "config")}, str(where))
    with opened(where) as store:
        sealing = sealing_of(store, secrets, os.urandom)
        (new,) = access_keys(store.credentials())
        assert new.secret.startswith("v2.")
        assert sealing.opened(new) == PLAIN
        assert body not in files_of(where), "neither in the file nor in what lies beside it"
    assert body not in files_of(where)


def test_a_key_that_an_older_process_makes_meanwhile_is_sealed_anew_when_it_is_met(tmp_path: Path) -> None:
    with opened(tmp_path / "holdfast.db") as store:
        sealing = Sealing(store.seal, lambda: [KeysSecret(SECRET, "the test")], chance=os.urandom)
        keys = Keys(store, sealing, SystemClock())
        old = sealed_by_an_older_release(store)
        keys.refresh()
        found, secret = keys.access_key(old.id)
        assert (secret, found.secret.partition(".")[0]) == (PLAIN, "v2")


def test_a_key_that_is_revoked_meanwhile_is_not_brought_back(tmp_path: Path) -> None:
    with opened(tmp_path / "holdfast.db") as store:
        old = sealed_by_an_older_release(store)
        store.remove_credential(old.id)
        assert not store.reseal_credential(old.id, old.secret, "v2.x:y")
        assert access_keys(store.credentials()) == []


# --- losing it, and changing it


def test_a_lost_secret_is_told_with_what_to_do_and_rotate_mends_it(holdfast: Program, tmp_path: Path) -> None:
    key = printed(holdfast("keys", "create", "--role", "admin").stdout)
    shutil.rmtree(tmp_path / "config")
    for words in (["keys", "create", "--role", "admin"], ["keys", "rotate"], ["serve", "functions.py", "--port", "0"]):
        ended = holdfast(*words)
        assert (ended.returncode, ended.stdout) == (3, ""), words
        assert "error[keys_secret_needed]: The secret that sealed the access keys" in ended.stderr, words
        assert "`holdfast keys rotate --lost`" in ended.stderr
    assert not (tmp_path / "config").exists(), "a new secret is not made while keys are sealed with another"
    mended = holdfast("keys", "rotate", "--lost")
    assert (mended.returncode, f"revoked {key['AWS_ACCESS_KEY_ID']}" in mended.stderr) == (0, True)
    noted = [json.loads(line) for line in holdfast("audit", "--json", "--kind", "decision").stdout.splitlines()]
    assert [(note["what"], note["on"]) for note in noted[:2]] == [
        ("rotate keys", "0 access keys"),
        ("revoke key", key["AWS_ACCESS_KEY_ID"]),
    ]
    assert holdfast("keys", "create", "--role", "admin").returncode == 0


def test_the_secret_is_changed_with_both_at_hand(holdfast: Program) -> None:
    holdfast.environment["HOLDFAST_KEYS_SECRET"] = SECRET
    key = printed(holdfast("keys", "create", "--role", "admin").stdout)
    holdfast.environment |= {"HOLDFAST_KEYS_SECRET": ANOTHER, "HOLDFAST_KEYS_SECRET_BEFORE": SECRET}
    assert "1 access key is sealed" in holdfast("keys", "rotate").stderr
    with opened(holdfast.folder / "holdfast.db") as store:
        sealing = Sealing(store.seal, lambda: [KeysSecret(ANOTHER, "the new one")], chance=os.urandom)
        (credential,) = access_keys(store.credentials())
        assert sealing.opened(credential) == key["AWS_SECRET_ACCESS_KEY"]


# --- databases


def test_a_database_with_access_keys_needs_a_secret_of_the_operator(tmp_path: Path) -> None:
    address = "postgresql://here/orders"
    config = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    with opened(tmp_path / "holdfast.db") as store:
        with pytest.raises(KeysSecretNeeded, match=r"HOLDFAST_KEYS_SECRET.*HOLDFAST_KEYS_FILE"):
            sealing_of(store, KeysSecrets(config, address), os.urandom, wanted=True)
        own = configuration_folder(config)
        own.mkdir(parents=True)
        (own / "keys.secret").write_text(ANOTHER)
        with pytest.raises(KeysSecretNeeded, match="every server of it needs the same"):
            sealing_of(store, KeysSecrets(config, address), os.urandom, wanted=True)
        shared = tmp_path / "shared.secret"
        shared.write_text(SECRET + "\n")
        for given in ({"HOLDFAST_KEYS_SECRET": SECRET}, {"HOLDFAST_KEYS_FILE": str(shared)}):
            sealing = sealing_of(store, KeysSecrets(config | given, address), os.urandom, wanted=True)
            issued = new_access_key(sealing, roles=(Role.ADMIN,), now=0, chance=os.urandom)
            store.put_credential(issued.credential)
            assert sealing.opened(issued.credential) == issued.secret
        with pytest.raises(KeysSecretNeeded, match=r"none\.secret cannot be read"):
            sealing_of(store, KeysSecrets({"HOLDFAST_KEYS_FILE": "none.secret"}, address), os.urandom)


# --- no other process gets it


def test_a_server_says_which_secret_it_uses_and_its_functions_do_not_have_it(tmp_path: Path) -> None:
    (tmp_path / "looking.py").write_text(
        "import os\nfrom holdfast.durable import durable_execution\n\n\n"
        "@durable_execution(execution_timeout=60)\ndef looks(event, context):\n"
        "    return {name: value for name, value in os.environ.items() if 'KEYS' in name}\n"
    )
    (tmp_path / "app.py").write_text("import os\ndef handler(event, context):\n    return dict(os.environ)\n")
    template = {"Resources": {"apart": {"Type": "AWS::Serverless::Function", "Properties": {
        "FunctionName": "apart", "Handler": "app.handler", "Runtime": "python3.11", "CodeUri": "."}}}}  # fmt: skip
    (tmp_path / "template.json").write_text(json.dumps(template))
    program = Program(tmp_path)
    program.environment["HOLDFAST_KEYS_SECRET"] = SECRET
    key = printed(program("keys", "create", "--role", "admin").stdout)
    server = Server("looking.py", "template.json", "--port", "0", cwd=tmp_path, environment={"HOLDFAST_KEYS_SECRET": SECRET})
    try:
        server.started()
        assert [line for line in server.said if line.endswith("access keys are opened with HOLDFAST_KEYS_SECRET")]
        server.credentials = (key["AWS_ACCESS_KEY_ID"], key["AWS_SECRET_ACCESS_KEY"])
        assert server.invoke("looks:$LATEST", None)["Payload"] == {}
        apart = server.invoke("apart", None)["Payload"]
        assert SECRET not in json.dumps(apart)
        assert "HOLDFAST_KEYS_SECRET" not in apart
    finally:
        server.leave()
    assert SECRET not in "\n".join([*server.said, *server.warned])


def test_no_tool_may_name_it_as_its_secret() -> None:
    source = EnvironmentSecrets({"HOLDFAST_KEYS_SECRET": SECRET, "HOLDFAST_KEYS_SECRET_BEFORE": SECRET, "SHOP_KEY": "s"})
    assert [source.get(name) for name in ("HOLDFAST_KEYS_SECRET", "HOLDFAST_KEYS_SECRET_BEFORE", "SHOP_KEY")] == [None, None, "s"]


@pytest.mark.parametrize("endless", ["/dev/zero", "large"])
def test_a_key_file_without_an_end_is_refused_and_not_read(tmp_path: Path, endless: str) -> None:
    (tmp_path / "large").write_text("x" * 100_000)
    with pytest.raises(KeysSecretNeeded, match=r"has more than 65,536 bytes"):
        KeysSecrets({"HOLDFAST_KEYS_FILE": str(tmp_path / endless)})()


def test_a_secret_is_not_shown_by_what_holds_it() -> None:
    assert SECRET not in f"{KeysSecret(SECRET, 'HOLDFAST_KEYS_SECRET')!r} {vars(KeysSecrets({'HOLDFAST_KEYS_SECRET': SECRET}))!r}"


def test_an_embedded_server_without_the_secret_refuses_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with opened(tmp_path / "holdfast.db") as store:
        token(store, "admin")
        gate(store)
        sealed_by_an_older_release(store)
        with pytest.raises(KeysSecretNeeded, match="operator_secret"):
            gate(store)
        assert gate(store, operator_secret=SECRET).guard.summary.endswith("access keys are opened with operator_secret")
