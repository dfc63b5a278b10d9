"""The demo: vendor research as a pipeline, on a SQLite file, with no key and no internet.

    make demo        or        python examples/vendor_research/demo.py

A page is gone, a gate asks for a revision, the demo approves as a person would, and the runner gets `kill -9` at the worst moment: the
server has the report, and the runner does not know it. The same command goes on, and the report is published once.

This process is the world outside: the web, the person, and the one who kills. The commands are those that a user types.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local_site import LocalSite

EXAMPLE = Path(__file__).resolve().parent
HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
RUN = ("run", "vendor_research.py", "--input", "@case.json", "--key", "demo")
NEEDS_HUMAN = 4


class Demo:
    """Types the commands, and steps in where the story says so."""

    def __init__(self, folder: Path, site: LocalSite) -> None:
        self.began = time.monotonic()
        self.folder = folder
        self.site = site
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "configuration")}
        self.environment.pop("HOLDFAST_STORE", None)
        self.environment.pop("HOLDFAST_CONFIG", None)
        self.process: subprocess.Popen[str] | None = None

    def say(self, text: str) -> None:
        print(f"\n-- {time.monotonic() - self.began:.1f} s  {text}", flush=True)

    def holdfast(self, *words: str) -> subprocess.Popen[str]:
        """Begin a command. What it says while it runs goes to this terminal; its result is for the demo."""
        print(f"$ holdfast {' '.join(words)}", flush=True)
        self.process = subprocess.Popen([*HOLDFAST, *words], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True)
        return self.process

    def close(self) -> None:
        """Leave nothing running, also where the demo was interrupted."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def ended(self, *words: str, code: int = 0) -> str:
        """Run a command to its end; what it printed."""
        process = self.holdfast(*words)
        printed, _ = process.communicate(timeout=60)
        if process.returncode != code:
            sys.exit(f"The command ended with {process.returncode}; please report this.")
        return printed

    def run(self) -> None:
        """The story."""
        self.say(f"The web of this demo is {self.site.url}. One of the six pages in case.json is gone.")
        self.ended("trust", ".")
        self.ended(*RUN, code=NEEDS_HUMAN)
        self.say("One page failed, and one may. The gate wanted a shorter summary, and got it. Now a person must decide; nothing runs.")
        (approval,) = re.findall(r'"approval_id":"(.*?)"', self.ended("approvals", "list", "--json"))
        self.ended("approvals", "approve", approval)
        self.killed_while_publishing()
        self.say("The same command goes on. The server is asked for the key of the call, and the report is not published again.")
        self.tell(json.loads(self.ended(*RUN, "--json")))
        self.keep(Path.cwd() / "demo.db")

    def keep(self, copy: Path) -> None:
        """Leave a copy of the store, so that the run can be looked at."""
        self.ended("db", "backup", str(copy), "--force")
        command = Path(sys.executable).parent / "holdfast"
        shown = command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command
        self.say(f"Look at it in the console, graph, timeline and cost:\n   {shown} console --store {copy.name}")

    def killed_while_publishing(self) -> None:
        """Run on, and kill the runner when the server has the report and has not answered."""
        received, killed = threading.Event(), threading.Event()

        def hold() -> None:
            self.site.before_answer = lambda: None
            received.set()
            killed.wait(60)

        self.site.before_answer = hold
        process = self.holdfast(*RUN)
        if not received.wait(60):
            sys.exit("The runner did not publish; please report this.")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        killed.set()
        self.say(f"kill -9 {process.pid}: the server has the report, and the runner did not hear of it.")

    def tell(self, response: dict[str, Any]) -> None:
        """The report, what it cost, and what the server counted."""
        outputs, usage = response["outputs"], response["observability"]["usage"]
        report = outputs["report"]
        self.say(f"The report on {report['vendor']}, at {outputs['url']}:")
        print(f"   {report['summary']}")
        for price in report["prices"]:
            print(f"   {price['name']:<12} {price['price']:>7.2f} {price['currency']}")
        for conflict in outputs["conflicts"]:
            said = ", ".join(f"{value['source']} say {value['value']}" for value in conflict["values"])
            print(f"   conflict at {conflict['path']}: {said}")
        tokens = usage["tokens"]["input"] + usage["tokens"]["output"]
        print(f"   cost: ${usage['cost_usd']:.4f} for {tokens:,} tokens, {usage['tool_calls']} tool calls", flush=True)
        self.say(f"Reports that the server received: {len(self.site.received)}, over a kill -9 and three commands.")


@contextmanager
def served() -> Iterator[LocalSite]:
    """The local site, on a free port."""
    site = LocalSite()
    serving = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield site
    finally:
        site.shutdown()
        serving.join()
        site.server_close()


def copied(folder: Path, url: str) -> Path:
    """A copy of the example whose addresses are those of the local site."""
    copy = folder / "vendor_research"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__", "holdfast.db*"))
    for name in ("case.json", "holdfast.toml", "parameters.toml"):
        file = copy / name
        file.write_text(file.read_text().replace("127.0.0.1:8765", url.removeprefix("http://")))
    return copy


def main() -> None:
    """Run the demo in a folder of its own, and leave nothing behind but a copy of its store: demo.db."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name, served() as site:
        demo = Demo(copied(Path(name), site.url), site)
        try:
            demo.run()
        finally:
            demo.close()


if __name__ == "__main__":
    main()
