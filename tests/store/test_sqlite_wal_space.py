"""Room in the WAL: it grows in large pieces, and no process's frames are written over."""

import contextlib
import shutil
from pathlib import Path

from holdfast.store.seam import Filter
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.writes import started
from tests.crash.wal import frames_of

EACH = 60


def test_the_wal_grows_in_pieces_and_a_cut_finds_all_that_two_have_written(tmp_path: Path) -> None:
    path, left = tmp_path / "holdfast.db", tmp_path / "left.db"
    wal = Path(f"{path}-wal")
    lengths = set()
    with contextlib.closing(SqliteStore(str(path), "here")) as here, contextlib.closing(SqliteStore(str(path), "there")) as there:
        for n in range(EACH):
            for store, place in ((here, 0), (there, 1)):
                started(store, f"n-{2 * n + place}")
                lengths.add(wal.stat().st_size)
        shutil.copy(path, left)
        shutil.copy(wal, f"{left}-wal")
        frames = frames_of(wal.read_bytes())
    assert sum(frame.commits for frame in frames) > 2 * EACH
    assert len(lengths) < EACH / 4  # else each commit had made it longer
    assert frames[-1].ends < max(lengths)
    with contextlib.closing(SqliteStore(str(left), "after")) as after:
        assert len(after.list(Filter(limit=1000))) == 2 * EACH
