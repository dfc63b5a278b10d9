"""The folders that a Python program needs: the interpreter, its libraries, time zones and certificates. Never the project's folder."""

from __future__ import annotations

import site
import ssl
import sys
import sysconfig
import zoneinfo
from functools import cache
from pathlib import Path
from typing import Final

_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/certs")


@cache
def readable() -> tuple[Path, ...]:
    """The paths for `Jail.readable` that a program of this interpreter needs, as far as they exist."""
    ours = Path(sys.prefix)
    real = Path(sys.base_prefix)
    certificates = ssl.get_default_verify_paths()
    found = [real / "lib", real / "bin", ours / "bin", ours / "pyvenv.cfg", *map(Path, _LIBRARIES), *map(Path, zoneinfo.TZPATH)]
    found += [Path(path) for path in (certificates.cafile, certificates.capath) if path]
    return _existing(found)


@cache
def packages() -> tuple[Path, ...]:
    """The folders for `Jail.path`: those of installed packages, then the folder of Holdfast itself."""
    installed = [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
    if site.ENABLE_USER_SITE:
        installed.append(Path(site.getusersitepackages()))
    return _existing([*installed, Path(__file__).resolve().parents[3]])


def _existing(paths: list[Path]) -> tuple[Path, ...]:
    return tuple(path for path in dict.fromkeys(paths) if path.exists())
