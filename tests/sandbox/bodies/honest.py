"""An ordinary worker, which needs ordinary things."""

import asyncio
import concurrent.futures
import datetime
import json
import os
import shutil
import sqlite3
import ssl
import tempfile
import zoneinfo
from pathlib import Path

import line


def main(fd):
    channel = line.begun(fd)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a").write_text("text")
        shutil.copy2(Path(folder) / "a", Path(folder) / "b")
        copied = (Path(folder) / "b").read_text()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        squares = list(pool.map(lambda n: n * n, range(20)))
    context = ssl.create_default_context()
    channel.send(
        {
            "op": "done",
            "copied": copied,
            "squares": sum(squares),
            "zone": str(datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset()),
            "certificates": len(context.get_ca_certs()) + len(os.listdir("/etc/ssl/certs") if os.path.isdir("/etc/ssl/certs") else ()),
            "sqlite": sqlite3.connect("db").execute("select 1").fetchone()[0],
            "async": asyncio.run(_waited()),
            "page": Path(__file__).with_name("page.md").read_text(),
            "environment": dict(os.environ),
            "here": os.getcwd(),
            "json": json.loads("[1]"),
        }
    )


async def _waited():
    await asyncio.sleep(0)
    return await asyncio.to_thread(lambda: "threads and loops")


def environment(fd):
    import ctypes

    libc = ctypes.CDLL(None)
    pointer = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
    found, index = [], 0
    while pointer and pointer[index]:
        found.append(pointer[index].decode())
        index += 1
    line.begun(fd).send({"op": "done", "environment": found})


def descriptors(fd):
    channel = line.begun(fd)
    found = []
    for number in range(1000):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            continue
    channel.send({"op": "done", "open": found, "mask": os.umask(0o22), "groups": os.getgroups()})


def installed(fd):
    """Packages with code of their own in C or Rust, and a callback from C."""
    import ctypes
    import importlib

    channel = line.begun(fd)
    found = {}
    for name in (
        "msgspec",
        "orjson",
        "jsonschema_rs",
        "selectolax.lexbor",
        "cryptography.fernet",
        "yaml",
        "httpx",
        "openai",
        "holdfast.workers",
    ):
        try:
            importlib.import_module(name)
            found[name] = "imported"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(numbers, 3, ctypes.sizeof(ctypes.c_int), compare(lambda a, b: a[0] - b[0]))
    channel.send({"op": "done", "found": found, "sorted": list(numbers)})


def chance(fd):
    import random

    line.begun(fd).send({"op": "done", "chance": random.random()})
