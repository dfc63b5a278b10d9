"""The suite itself: each kind of broken backend is found by the test that names the fact, and the message says what was found."""

import inspect
import os
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

from holdfast.testing import stores
from holdfast.testing.stores import SharedStoreSuite, StoreSuite
from tests.store.broken import BACKENDS
from tests.unit.source_files import ROOT

# A broken backend, the test that finds it, and what a person reads there.
FOUND = [
    ("IgnoresFences", "test_a_taken_over_writer_is_refused_and_spoils_nobody", "isinstance(Checkpointed("),
    ("IgnoresFences", "test_a_used_token_is_refused", "isinstance(Checkpointed("),
    ("LosesWakeUps", "test_no_wake_up_is_lost_between_the_last_look_and_the_suspension", "<State.SUSPENDED: 'suspended'> is <State.READY"),
    ("LosesWakeUps", "test_no_wake_up_is_lost_within_one_batch", "assert <State.SUSPENDED: 'suspended'> is <State.READY"),
    ("KeepsNothing", "test_everything_is_there_after_reopening", ") == (None, [], [], None)"),
    ("GivesUpABatch", "test_one_refused_entry_spoils_no_other", "isinstance(InvalidToken("),
    ("FailsTogether", "test_an_execution_goes_on_after_an_entry_of_it_was_refused", "isinstance(StoreBroken("),
    ("DecidesInAnyOrder", "test_entries_of_one_execution_are_decided_in_order", "isinstance(InvalidToken("),
    ("ForgetsRequests", "test_a_repeated_request_is_recognised_within_a_batch_and_after_it", "== InvalidToken("),
    ("RingsLastFirst", "test_the_soonest_of_many_is_due_first", "At index 0 diff:"),
    ("TrustsItsMemory", "test_a_writer_that_the_other_took_over_is_refused", "isinstance(Checkpointed("),
    ("TrustsItsMemory", "test_no_wake_up_by_the_other_is_lost", "assert <State.SUSPENDED: 'suspended'> is <State.READY"),
    ("StartsChildrenFirst", "test_a_refused_checkpoint_starts_no_child", "assert Execution("),
    ("LooksBeforeItsTurn", "test_an_execution_that_many_claim_at_once_is_claimed_once", "assert 160 == 40"),
    ("LetsAnybodyDeliver", "test_one_runner_delivers_at_a_time", "assert 0 is None"),
    ("ForgetsADayEarly", "test_an_execution_is_gone_when_its_retention_is_over_and_not_before", "assert 1 == 0"),
    ("RepeatsTheEdge", "test_pages_neither_repeat_nor_skip_while_others_come", "some were seen twice"),
]  # fmt: skip
BESIDE = "test_history_is_read_in_pages"
"""A fact that none of them breaks."""


def failures(folder: Path, names: list[str]) -> dict[str, str]:
    """What a pytest with no other plugin and no settings says of the tests of broken.py that fail."""
    report, settings = folder / "report.xml", folder / "pytest.ini"
    settings.write_text("[pytest]\n")
    plugin = ["-p", "holdfast.testing.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-c", str(settings), *plugin, "--tb=short", f"--junitxml={report}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    asked = [f"tests/store/broken.py::TestBroken::{name}" for name in names]
    subprocess.run([*command, *asked], cwd=ROOT, env=environment, check=False, capture_output=True)
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert {case.attrib["name"] for case in cases} == set(names)
    return {case.attrib["name"]: failure.text or "" for case in cases if (failure := case.find("failure")) is not None}


def test_every_broken_backend_fails_the_test_that_names_the_fact_and_says_what_was_found(tmp_path: Path) -> None:
    beside = [f"{BESIDE}[{backend.__name__}]" for backend in BACKENDS]
    failed = failures(tmp_path, [f"{test}[{backend}]" for backend, test, _ in FOUND] + beside)
    assert [name for name in beside if name in failed] == [], "each still works but for its fault"
    read = {f"{test}[{backend}]": (says, failed.get(f"{test}[{backend}]", "passed")) for backend, test, says in FOUND}
    assert {name: said for name, (says, said) in read.items() if says not in "".join(re.findall("^E (.*)$", said, re.M))} == {}
    assert {backend for backend, _, _ in FOUND} == {backend.__name__ for backend in BACKENDS}


# --- how it is put together --------------------------------------------------------------------------------------------------


def parts() -> dict[str, type]:
    modules = [import_module(f"{stores.__name__}.{module.name}") for module in pkgutil.iter_modules(stores.__path__)]
    classes = [value for module in modules for value in vars(module).values() if inspect.isclass(value)]
    return {value.__name__: value for value in classes if value.__name__.endswith("Suite")}


def test_the_door_shows_every_part_and_the_whole_has_them_all() -> None:
    found = parts()
    assert sorted(found) == sorted(name for name in stores.__all__ if name.endswith("Suite"))
    assert [name for name in found if getattr(stores, name) is not found[name]] == []
    assert [name for name, part in found.items() if not issubclass(SharedStoreSuite, part)] == []
    alone = {name for name, part in found.items() if not issubclass(StoreSuite, part)}
    assert alone == {name for name, part in found.items() if "other" in dir(part)}, "one handle, or two"


def test_the_how_to_names_every_part() -> None:
    page = (ROOT / "docs" / "how-to" / "write-a-store.md").read_text()
    assert [name for name in parts() if f"`{name}`" not in page] == []


def test_no_part_hides_a_test_of_another() -> None:
    named = Counter(name for part in SharedStoreSuite.__mro__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, count in named.items() if count > 1] == []
    assert len(named) > 140


WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None
import holdfast.testing, holdfast.testing.stores
from holdfast.testing import Runner
from holdfast.testing.stores.writes import live
from holdfast.store.sqlite.store import SqliteStore
store = SqliteStore(":memory:", "here")
print(live(store, "a").name)
"""


def test_without_pytest_everything_but_the_suite_can_be_used(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_PYTEST], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "a\n"
