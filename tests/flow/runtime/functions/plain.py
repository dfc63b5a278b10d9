"""Ordinary Lambda handlers, as tests of the runtime host deploy them. They run in processes of their own."""

import json
import logging
import mmap
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

STARTED = os.getpid()


def echo(event: Any, context: Any) -> Any:
    return event


def about(event: Any, context: Any) -> Any:
    return {
        "pid": os.getpid(),
        "request": context.aws_request_id,
        "arn": context.invoked_function_arn,
        "name": context.function_name,
        "version": context.function_version,
        "memory": context.memory_limit_in_mb,
        "group": context.log_group_name,
        "left": context.get_remaining_time_in_millis(),
        "tenant": getattr(context, "tenant_id", None),
        "client": context.client_context and context.client_context.custom,
        "trace": os.environ.get("_X_AMZN_TRACE_ID"),
        "cwd": os.getcwd(),
        "env": dict(os.environ),
    }


def fails(event: Any, context: Any) -> Any:
    raise ValueError(f"no good: {event}")


def exits(event: Any, context: Any) -> Any:
    os._exit(event)


def waits(event: Any, context: Any) -> Any:
    """Touch a file, then work until it is killed."""
    with open(event, "w") as file:
        file.write(str(os.getpid()))
    threading.Event().wait()


def breeds(event: Any, context: Any) -> Any:
    """Leave a child, a grandchild and a daemon behind, tell who they are, and then work until it is killed, or return."""
    sleeper = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    breeder = f"import subprocess, threading; print(subprocess.Popen({sleeper!r}).pid, flush=True); threading.Event().wait()"
    child = subprocess.Popen([sys.executable, "-c", breeder], stdout=subprocess.PIPE)
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, f"{os.getpid()}\n".encode())
            threading.Event().wait()
        os._exit(0)
    os.wait()
    daemon = int(os.read(read, 100))
    told = {"pids": [os.getpid(), child.pid, grandchild, daemon]}
    with open(event["tell"] + ".part", "w") as file:
        json.dump(told, file)
    os.rename(event["tell"] + ".part", event["tell"])
    if event["stays"]:
        threading.Event().wait()
    return told


def large(event: Any, context: Any) -> Any:
    return "x" * event


def prints(event: Any, context: Any) -> Any:
    """Print so many lines of 1000 bytes, and one that never ends."""
    line = "y" * 999 + "\n"
    for _ in range(event):
        sys.stdout.write(line)
    sys.stdout.write("the end")
    return event


def logs(event: Any, context: Any) -> Any:
    sys.stdout.write("printed\n")
    sys.stderr.write("to the other stream\n")
    logging.getLogger().setLevel("INFO")
    logging.getLogger("mine").info("logged %s", event, extra={"answer": 42})
    return None


def traces(event: Any, context: Any) -> Any:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        logging.getLogger("mine").exception("it failed")
    sys.stdout.write("printed after it\n")
    logging.getLogger("mine").info("not grave")
    logging.getLogger("mine").warning("logged after it")
    if event == "raise":
        raise KeyError("its own")


def not_json(event: Any, context: Any) -> Any:
    return {1, 2}


def spins(event: Any, context: Any) -> Any:
    end = time.monotonic() + event
    while time.monotonic() < end:
        pass
    return STARTED


def hoards(event: Any, context: Any) -> Any:
    """Have so many megabytes in memory, here or in so many children, and perhaps only as address space."""
    if event.get("reserve"):
        mmap.mmap(-1, event["reserve"] * 2**20, prot=mmap.PROT_READ)
    kept = [os.urandom(2**20) for _ in range(event["mb"])]
    for _ in range(event.get("forks", 0)):
        if os.fork() == 0:
            own = [os.urandom(2**20) for _ in range(event.get("each", 0))]
            threading.Event().wait(event["seconds"])
            os._exit(len(own) % 2)
    end = time.monotonic() + event["seconds"]
    while time.monotonic() < end:
        threading.Event().wait(0.01)
    return len(kept)


def invokes(event: Any, context: Any) -> Any:
    """Invoke the first function of a list, with the rest of it, and tell what it said."""
    if not event:
        return [STARTED]
    asked = urllib.request.Request(
        f"{os.environ['AWS_ENDPOINT_URL_LAMBDA']}/2015-03-31/functions/{event[0]}/invocations", json.dumps(event[1:]).encode()
    )
    try:
        with urllib.request.urlopen(asked) as answer:
            return [STARTED, *json.load(answer)]
    except urllib.error.HTTPError as error:
        return [STARTED, f"{error.code} {error.headers['x-amzn-errortype']}"]


def raves(event: Any, context: Any) -> Any:
    """Print for ever, and not even text."""
    while True:
        os.write(1, b"\xff\xfe y" * 1000 + b"\n")


def drones(event: Any, context: Any) -> Any:
    """Print so many megabytes as one line that never ends."""
    left = event * 2**20
    while left:
        left -= os.write(1, b"z" * min(left, 2**20))  # perhaps not all of it, when a signal comes
    return event


def keeps(event: Any, context: Any) -> Any:
    """Leave things in the home that are hard to remove."""
    deep = os.path.join(os.environ["HOME"], "deep")
    os.makedirs(os.path.join(deep, *"abc" * 20))
    with open(os.path.join(deep, "file"), "w") as file:
        file.write("left")
    os.symlink("/", os.path.join(deep, "link"))
    os.chmod(os.path.join(deep, "a"), 0)
    return {"env": dict(os.environ)}
