"""Stores in files, for tests: made once and copied, and not synced. No test here pulls the plug, and the disk has other tests to serve."""

import functools
import tempfile
from pathlib import Path

from holdfast.store.encryption import AesGcm
from holdfast.store.sqlite.store import SqliteStore


@functools.cache
def _made(codec: AesGcm | None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.db"
        SqliteStore(str(path), "maker", codec).close()
        return path.read_bytes()


def quick_store(path: Path, member: str, codec: AesGcm | None = None, backend: type[SqliteStore] = SqliteStore) -> SqliteStore:
    """The store of this file, which need not be there yet; a codec is one of a few that live as long as the tests."""
    if not path.exists():
        path.write_bytes(_made(codec))
    store = backend(str(path), member, codec)
    store._writer.execute("PRAGMA synchronous = OFF")
    return store
