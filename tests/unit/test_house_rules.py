"""The house rules, executable. Each says why it exists; a rule that is not run is only a wish."""

import builtins
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator

import holdfast
from tests.unit.source_files import ROOT, SRC, Module, modules, packages, project_texts

MODULES = modules()


def broken(rule: Callable[[Module], object]) -> dict[str, object]:
    """What a rule has against each file that breaks it: all of them at once, so that one run tells the whole."""
    return {module.name: fault for module in MODULES if (fault := rule(module))}


WHOLE_STORE = re.compile(r"\w+: Store(?: \| None)?(?=[,)=\n])")
TAKES_WHOLE_STORE = {
    "store": "the specification and its backends",
    "testing": "the suite of stores",
    "engine/engine.py": "a runner uses nearly all of a store",
    "engine/scheduler.py": "a runner uses nearly all of a store",
    "service/client.py": "has all methods of an operator",
    "console/console.py": "the console shows nearly all of a store",
    "console/sources/viewer.py": "the console shows nearly all of a store",
}

# Where time and chance may come from, and why exactly there. Everywhere else they are arguments.
WALL_CLOCK = {"model/clock.py": "the one Clock that reads the machine's time"}
CHANCE = {"model/ids.py": "fresh ids are made here and handed on"}

WALL_CLOCK_CALLS = re.compile(r"time\.(time|time_ns|localtime|gmtime|ctime)|datetime\.(datetime\.(now|utcnow|today)|date\.today)")
# An instance of Random or SystemRandom is how chance becomes an argument; the module's own functions are a hidden global.
CHANCE_CALLS = re.compile(r"uuid\.uuid[14]|random\.(?!Random$|SystemRandom$)\w+")

SQL = re.compile(
    r"\s*((SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|WITH|REPLACE)\s"
    r"|(?i:select\s.+\sfrom\s|insert\s+(or\s+\w+\s+)?into\s|update\s+\w+\s+set\s|delete\s+from\s|create\s+(table|(unique\s+)?index|view|trigger)\s))"
)

UNNAMED_COLUMNS = re.compile(r"(?i)(?:\bSELECT\s+(?:DISTINCT\s+)?\*|\b\w+\.\*|\bINSERT\s+(?:OR\s+\w+\s+)?INTO\s+\w+(?!\w)(?!\s*\())[^\n]*")

# Raw and str are no structs.
STRUCT_READERS = re.compile(r"msgspec\.(?:(?:json|msgpack)\.Decoder|convert)\(|msgspec\.\w+\.decode\([^\n]*type=(?!msgspec\.Raw|str\b)")

# Words that were renamed: a newcomer could not tell from them what was meant. The first are in no name at all; the others are in no name
# of a module or a class, where they stood for a thing.
OLD_WORDS = {"staff", "hired", "workforce", "tend", "tender", "tending", "desk", "landed", "aboard", "catalogue"}
OLD_THINGS = OLD_WORDS | {
    "visit", "way", "room", "rooms", "slots", "eye", "eyes", "standing", "announcing", "observing", "looking", "watching",
    "plays", "storms", "turns",
}  # fmt: skip
ACTIVITIES = {
    "console/rendering.py": "renders templates",
    "contract/checking.py": "checks values against schemas",
    "lambda_api/serving.py": "builds what a server serves",
    "library/data_validation/normalizing.py": "normalizes records",
    "exports/exporting.py": "exports an execution",
    "exports/importing.py": "imports an exported document",
    "service/open_engine/interpreter_tuning.py": "tunes the interpreter",
    "exports/replaying.py": "replays an exported execution",
    "signals/tracing.py": "traces runs",
    "testing/crashing.py": "crashes a test before and after every write",
    "testing/stores/fencing.py": "tests that stale writers are fenced off",
    "web/auth/key_sealing.py": "seals the keys of credentials",
    "web/routing.py": "routes requests",
}

# Public classes and type aliases that share a name, and why. Everywhere else a name stands for one type.
ONE_NAME_TWO_TYPES = {
    "BatchResult": "AWS's SDK has a protocol of this name in `types`, and the class in `concurrency.models`",
    "Callback": "AWS's SDK has a protocol of this name in `types`; the class fits it",
    "DurableContext": "AWS's SDK has a protocol of this name in `types`, and the class in `context`",
}

# Spelled in pieces: this file is one of those it reads.
REGISTRIES = re.compile("|".join(re.escape(".".join(host)) for host in [
    ("pypi", "org"), ("pythonhosted", "org"), ("pypi", "python", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com"),
    ("crates", "io"), ("rubygems", "org"), ("proxy", "golang", "org"), ("anaconda", "org"), ("docker", "io"), ("ghcr", "io"),
]))  # fmt: skip
MACHINE_PATHS = re.compile(r"(?<![\w.~$}])/(?:" + "|".join(["work", "root", "home", "Users", "opt", "mnt", "srv"]) + r")/[\w.]")
EMOJI = re.compile("[\U0001f000-\U0001faff\ufe0f]")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")


# --- size and names ----------------------------------------------------------------------------------------------------------


def test_a_file_is_short_enough_to_hold_in_the_head() -> None:
    long = broken(lambda module: lines if (lines := module.text.count("\n")) > 400 else None)
    assert not long, "a reader holds one idea, so split the file"


def test_a_function_fits_on_a_screen() -> None:
    long = broken(lambda module: {f.name: length for f in module.functions() if (length := (f.end_lineno or f.lineno) - f.lineno) >= 60})
    assert not long, "give its stages names"


def test_a_module_is_named_for_its_idea() -> None:
    vague = broken(lambda module: set(module.path.relative_to(SRC).with_suffix("").parts) & {"utils", "util", "helpers", "common", "misc"})
    assert not vague, "name the idea, or put it where it is used"


def test_a_module_says_what_it_is_for() -> None:
    silent = broken(lambda module: module.text != "" and '"""' not in module.text.split("\n", 1)[0])
    assert not silent, "the first line says what this file is for"


def test_a_package_has_a_map_at_its_door() -> None:
    """A newcomer learns at the door what belongs, what does not, and what may be imported."""
    doors = {package: (SRC / package / "__init__.py").read_text(encoding="utf-8") for package in packages()}
    assert [
        (package, word) for package, door in doors.items() for word in ("Belongs:", "Does not:", "May import:") if word not in door
    ] == []


def test_every_package_says_where_to_start_reading() -> None:
    silent = [door for door, text in _doors().items() if not re.search(r"\b[Ss]tart\s+(?:reading\s+)?(?:at|here)\b", text)]
    assert silent == [], "a list of modules is no way in: name the first one"


def test_a_map_names_only_modules_that_are_there() -> None:
    """A module that was renamed is missed first by a newcomer."""
    there = {path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py")}
    missing = [
        (door, named)
        for door, text in _doors().items()
        for named in re.findall(r"(?<![\w*./])[\w/]+\.py\b", text)
        if not any(name == named or name.endswith(f"/{named}") for name in there)
    ]
    assert missing == []


def test_a_text_refers_only_to_what_is_there() -> None:
    """A reference stands in parentheses: a file as `(health.py)`; a module, or a name in a module, as `(model.places)`."""
    folders = {".".join(path.relative_to(SRC).parts) for path in SRC.rglob("*") if path.is_dir()}
    modules_by_name = {module.name.removesuffix(".py").replace("/", "."): module for module in MODULES}
    there = folders | modules_by_name.keys() | {module.path.name for module in MODULES}
    reference = re.compile(rf"\w+\.py|(?:{'|'.join(packages())})(?:\.\w+)+")

    def is_there(name: str) -> bool:
        place, _, defined = name.rpartition(".")
        module = modules_by_name.get(place)
        definition = rf"(?m)^ *(?:(?:async )?def |class )?{defined}\b *[(:=]"
        return name in there or (module is not None and re.search(definition, module.text) is not None)

    def stale(module: Module) -> list[str]:
        groups = [group for _, text in module.strings() for group in re.findall(r"\(([\w., ]+)\)", text)]
        named = [name.removeprefix("holdfast.") for group in groups for name in group.split(", ")]
        return [name for name in named if reference.fullmatch(name) and not is_there(name)]

    assert broken(stale) == {}


def _doors() -> dict[str, str]:
    """The docstring of every package, by the path of its file."""
    paths = {path.relative_to(SRC).as_posix(): path.read_text(encoding="utf-8") for path in SRC.rglob("__init__.py")}
    return {name: text.split('"""')[1] for name, text in paths.items()}


def test_old_names_do_not_come_back() -> None:
    """Each of these words stood for a thing that has a plain name now (docs/glossary.md)."""
    assert broken(lambda module: [name for name in _names(module, "class") if set(_words(name)) & OLD_THINGS]) == {}
    assert broken(lambda module: [name for name in _names(module, "def") if set(_words(name)) & OLD_WORDS]) == {}


def test_no_two_public_types_have_one_name() -> None:
    """Who reads `Part` in an error, a search result or a review must not ask which of six types it is: a class, or an alias."""
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for name in [*(found.name for found in module.classes()), *module.type_aliases()]:
            places.setdefault(name, []).append(module.name)
    shared = {name: where for name, where in places.items() if len(where) > 1 and name[0] != "_"}
    assert {name: where for name, where in shared.items() if name not in ONE_NAME_TWO_TYPES} == {}
    assert ONE_NAME_TWO_TYPES.keys() - shared.keys() == set(), "only one type has this name now: take it off the list"


def test_a_module_with_the_name_of_an_activity_is_one() -> None:
    """A noun says what is in a module; a gerund says it only if the module does that one thing."""
    gerunds = broken(lambda module: module.path.stem.endswith("ing") and not module.inside(*ACTIVITIES))
    assert not gerunds, "name what is in it, or say in ACTIVITIES what it does"


def _names(module: Module, kind: str) -> list[str]:
    defined = re.findall(rf"^ *(?:async )?{kind} (\w+)", module.text, re.M)
    return [*module.path.relative_to(SRC).with_suffix("").parts, *defined]


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


# --- time, chance, output, SQL -----------------------------------------------------------------------------------------------


def test_time_is_an_argument() -> None:
    """Else no test can let a month pass, and no fleet can agree on what time it is."""
    assert broken(lambda module: not module.inside(*WALL_CLOCK) and _used(module, WALL_CLOCK_CALLS)) == {}


def test_chance_is_an_argument() -> None:
    """Else a replay is not the first run again, and a failing test cannot be repeated."""
    assert broken(lambda module: not module.inside(*CHANCE) and _used(module, CHANCE_CALLS)) == {}


def test_the_model_waits_for_nothing() -> None:
    """It is pure data and rules: the same inputs give the same answer, in a simulation and in a sandbox."""
    waits = re.compile(r"^(?:import|from) (?:asyncio|concurrent|socket|sqlite3|subprocess|tempfile)\b", re.M)
    assert set(broken(lambda module: module.inside("model") and waits.findall(module.text))) == {"model/threads.py"}


def test_structs_are_read_in_one_place() -> None:
    readers = broken(lambda module: module.name != "model/json_structs.py" and STRUCT_READERS.findall(module.text))
    assert not readers, "two threads that read a struct for the first time at once end the process: use model/json_structs.py"


def test_only_the_command_line_prints() -> None:
    """Holdfast is embedded in other people's programs: their standard output is theirs."""
    prints = re.compile("print|sys.stdout.*|sys.stderr.*")
    assert broken(lambda module: not module.inside("cli") and _used(module, prints)) == {}


def test_sql_lives_in_sql_files() -> None:
    """There it has a name and a comment, a reader sees the whole schema at once, and a second backend sees what it must answer."""
    assert broken(lambda module: [f"line {line}: {text[:40]!r}" for line, text in module.strings() if SQL.match(text)]) == {}


def test_every_statement_names_its_columns() -> None:
    """Code of one release works on tables to which the next one has added columns: that is how a fleet is upgraded without a stop."""
    found = []
    for path in sorted(SRC.glob("store/*/**/*.sql")):
        text = re.sub("--.*", "", path.read_text())
        found += [f"{path.relative_to(SRC)}: {statement}" for statement in UNNAMED_COLUMNS.findall(text)]
    assert found == []


def _used(module: Module, banned: re.Pattern[str]) -> list[str]:
    return [f"line {line}: {name}" for line, name in module.uses if banned.fullmatch(name)]


# --- what a commit may contain -----------------------------------------------------------------------------------------------


def test_nothing_is_left_for_later_in_a_comment() -> None:
    """An issue is found again; a comment is not."""
    assert list(_found(UNFINISHED, only=("src/", "tests/", "bench/", "examples/", ".ci/", "Makefile"))) == []


def test_no_file_names_a_package_registry() -> None:
    """Where packages come from is the machine's business: mirrors and closed networks must work unchanged."""
    assert list(_found(REGISTRIES)) == []


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    """It would work for one person."""
    assert list(_found(MACHINE_PATHS)) == []


def test_no_emoji() -> None:
    """Logs and tables are read in terminals, by grep and by machines."""
    assert list(_found(EMOJI)) == []


def test_constraints_pin_every_line_and_nothing_else() -> None:
    """A name and a version: no address, no path, no hash, so that any index can serve them."""
    lines = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][\w.]*", line)] == []


def test_every_declared_dependency_is_pinned() -> None:
    """Else two machines test two different things."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["dev"] + project["build-system"]["requires"]
    pinned = {_canonical(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line}
    assert [need for need in declared if _canonical(need) not in pinned] == []


def _canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def _found(pattern: re.Pattern[str], only: tuple[str, ...] = ("",)) -> Iterator[str]:
    for name, text in project_texts().items():
        if name.startswith(only):
            for number, line in enumerate(text.splitlines(), 1):
                if hit := pattern.search(line):
                    yield f"{name}:{number}: {hit.group()}"


# --- the layers, beyond what import-linter can say ---------------------------------------------------------------------------


def test_the_fence_around_durable_names_every_other_package() -> None:
    """import-linter forbids what it is told; a new package must not be missing from its list."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    fence = next(contract for contract in contracts if contract["id"] == "durable-imports-only-model")
    assert {f"holdfast.{name}" for name in packages()} - {"holdfast.durable", "holdfast.model"} <= set(fence["forbidden_modules"])


def test_no_package_uses_the_private_names_of_another() -> None:
    """A private name may change at any time; what another package needs is public, with a docstring.

    An approximation by names: `x._y` is foreign when `_y` is defined nowhere in the package of this module and somewhere in another one.
    """
    defined: dict[str, set[str]] = {package: set() for package in packages()}
    for module in MODULES:
        if module.package in defined:
            defined[module.package] |= module.private_definitions()
    foreign = {package: set().union(*(names for other, names in defined.items() if other != package)) for package in defined}

    def uses(module: Module) -> list[str]:
        own, others = defined.get(module.package, set()), foreign.get(module.package, set())
        return [f"line {line}: {name}" for line, name in module.private_uses() if name not in own and name in others]

    assert broken(uses) == {}


def test_a_consumer_asks_for_the_part_of_a_store_that_it_needs() -> None:
    """The type says what a function can read and change, and a test can stand in for it."""
    assert broken(lambda module: not module.inside(*TAKES_WHOLE_STORE) and WHOLE_STORE.findall(module.text)) == {}


def test_service_opens_the_stores() -> None:
    """Objects are built in one place: what is above it gets them."""
    places = ("lambda_api/serving.py", "service", "store", "testing")
    assert broken(lambda module: not module.inside(*places) and _used(module, re.compile(r".*\bopen_store"))) == {}


def test_only_packages_stand_at_the_root() -> None:
    """The root is a map: each entry is one idea with a door of its own."""
    assert [path.name for path in SRC.glob("*.py") if path.name != "__init__.py"] == []


def test_what_authors_write_loads_light() -> None:
    """`holdfast.durable` also runs inside a Lambda function, where a cold start is paid for; and what is not loaded cannot leak."""
    assert _loaded_by("import holdfast.durable") & _HEAVY == set()


def test_the_front_door_loads_nothing_until_asked() -> None:
    """The same function file is imported by the command line, by tests and on AWS: none pays for the others."""
    assert _loaded_by("import holdfast") & (_HEAVY | {"holdfast.durable", "asyncio", "orjson", "msgspec"}) == set()


_HEAVY = {
    "sqlite3", "boto3", "botocore", "http.server", "starlette", "uvicorn", "httpx", "typer", "rich",
    "holdfast.engine", "holdfast.store", "holdfast.hosts", "holdfast.service", "holdfast.cli",
}  # fmt: skip


def _loaded_by(statement: str) -> set[str]:
    """Which modules a fresh interpreter has after this statement."""
    code = f"import sys; {statement}; print(*sorted(sys.modules), sep='\\n')"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split())


# --- the public surface ------------------------------------------------------------------------------------------------------


def test_the_front_door_shows_only_what_we_promise() -> None:
    """The front door is lazy, so the test asks both `__all__` and `dir()`; `open` is promised, but not to who imports everything."""
    assert sorted([*holdfast.__all__, "open"]) == sorted(name for name in dir(holdfast) if not name.startswith("_"))
    assert all(getattr(holdfast, name) is not None for name in dir(holdfast))


def test_who_imports_everything_keeps_the_builtins() -> None:
    assert set(holdfast.__all__) & set(dir(builtins)) == set()
    names: dict[str, object] = {}
    exec("from holdfast import *", names)
    assert "durable_execution" in names
    assert "open" not in names


def test_no_promised_name_is_also_a_folder() -> None:
    """`import holdfast.x` would otherwise replace the name users import."""
    assert set(holdfast.__all__) & {path.name for path in SRC.iterdir() if path.is_dir()} == set()


def test_we_are_typed_for_our_users() -> None:
    """Without the marker every annotation we wrote is invisible to them."""
    assert (SRC / "py.typed").is_file()
