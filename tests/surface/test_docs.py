"""The documentation is true: what a page shows is done, in order, and gives what the page says it gives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.postgres import new_schema
from tests.surface.pages import Page, Reader
from tests.unit.test_same_names_as_the_official_sdk import MODULES

PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")])
LINKED = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

# Blocks that are shown and not done, each marked in its page with the reason. Nothing is skipped in silence.
NOT_RUN = {
    "dev.md": 1,
    "tutorial.md": 1,
    "console.md": 1,
    "back-up-and-upgrade.md": 1,
    "production-on-postgres.md": 2,
    "what-does-it-cost.md": 1,
}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


LONG = (
    "again.md",
    "decisions-by-people.md",
    "pipelines.md",
    "from-celery.md",
    "limits-per-tenant.md",
    "production-on-postgres.md",
    "queues.md",
    "run-a-worker-from-a-function.md",
    "serve.md",
    "tutorial.md",
    "what-does-it-cost.md",
    "when-a-queue-is-full.md",
    "workers.md",
    "write-a-store.md",
)


def _when(path: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] if path.name in LONG else []


@pytest.mark.parametrize("path", [pytest.param(path, id=named(path), marks=_when(path)) for path in PAGES])
def test_what_a_page_shows_is_what_happens(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if path.name == "production-on-postgres.md":
        monkeypatch.setenv("DATABASE_URL", new_schema())
    reader = Reader(Page.read(path), tmp_path)
    reader.read()
    assert len(reader.not_run) == NOT_RUN.get(path.name, 0), reader.not_run


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_installation_that_the_tutorial_shows_gives_the_command(tmp_path: Path) -> None:
    """The commands of the tutorial, with a copy of this repository in the place of the name that pip will know."""
    (block,) = [b for b in Page.read(ROOT / "docs" / "tutorial.md").blocks if "pip install" in b.text]
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / "clone")], check=True)
    commands = [line.removeprefix("$ ") for line in block.text.splitlines()]
    assert commands == ["python3 -m venv .venv", ". .venv/bin/activate", "pip install holdfast"]
    made = f"{sys.executable} -m venv .venv || {{ rm -rf .venv; {sys.executable} -m venv --without-pip .venv; }}"  # Debian lacks ensurepip
    pip = f"python -m pip --version >/dev/null 2>&1 || set -- {sys.executable} -m pip --python .venv/bin/python"
    install = '"$@" install --quiet --disable-pip-version-check -c clone/constraints.txt ./clone'
    script = f"set -e; {made}; . .venv/bin/activate; set -- python -m pip; {pip}; {install}; holdfast --version"
    ran = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("holdfast ")


def test_every_how_to_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    how_tos = sorted(path.name for path in (ROOT / "docs" / "how-to").glob("*.md"))
    assert [name for name in how_tos if f"](docs/how-to/{name})" not in readme] == []


def test_the_supported_versions_are_the_same_everywhere() -> None:
    tested = re.search(r"python: (\[.*\])", (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert tested is not None
    *most, last = re.findall(r"3\.\d+", tested[1])
    for page, mark in (("README.md", "and"), ("CONTRIBUTING.md", "and"), ("docs/tutorial.md", "or"), ("docs/reference/python.md", "and")):
        assert f"Python {', '.join(most)} {mark} {last}" in (ROOT / page).read_text(encoding="utf-8"), page


def test_the_pages_that_teach_show_something_that_runs() -> None:
    taught = {path.name for path in PAGES if any(block.mark != "not run" for block in Page.read(path).blocks)}
    assert taught >= {"tutorial.md", "concepts.md", "from-the-aws-sdk.md"}


def test_the_how_to_names_every_module_that_is_compared_with_the_official_one() -> None:
    page = (ROOT / "docs" / "how-to" / "from-the-aws-sdk.md").read_text()
    assert [module for module in MODULES if f"`{module}`" not in page] == []


WITHOUT_HOLDFAST = """
import sys
sys.modules["holdfast"] = None
exec(sys.argv[1])
from aws_durable_execution_sdk_python_testing import DurableFunctionTestRunner
with DurableFunctionTestRunner(handler=lambda_handler) as runner:
    print(runner.run(input="{}", execution_timeout=60).result)
"""


def test_the_file_for_either_sdk_runs_with_the_official_one_alone() -> None:
    (block,) = (b for b in Page.read(ROOT / "docs" / "how-to" / "from-the-aws-sdk.md").blocks if b.about == "either.py")
    ran = subprocess.run([sys.executable, "-c", WITHOUT_HOLDFAST, block.text], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == '"aws_durable_execution_sdk_python.context"\n'


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def anchors(path: Path) -> set[str]:
    """The headings of a page as a link names them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(path: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
        if link.startswith(("http://", "https://")):
            continue
        place, _, anchor = link.partition("#")
        target = path.parent / place if place else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", LINKED, ids=named)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    assert broken_links(path) == []


@pytest.mark.parametrize(
    "page, says",
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```", "line 5: the page shows\n2\n"),
        ("```python\nprint(1)\n```", "does not show: '1"),
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("```python\nprint(1)\n```\n\n```python\nprint(2)\n```", "line 5: the code above prints"),
        ("<!-- file: a.py -->\n```python\n```", "no command uses these files"),
        ("<!-- not run -->\n```python\n```", "says why"),
        ("<!-- skipped: no time -->\n```python\n```", "marked 'skipped'"),
        ("```bash\ntrue\n```", "'bash' block"),
        ("```\ntrue\n```", "'' block"),
        ("```console\ntrue\n```", "begins with"),
        ("```console\n$ echo 1\n2\n```", "the page shows\n2\n"),
        ("```console\n$ false\n```", "exit code 1"),
        ("```console\n$ echo 'error[x]'\nerror[x]\n```", "exit code 0"),
        ("<!-- varies: TOKEN [a-z]+ -->\n```console\n$ echo TOKEN\n```", "has not shown yet"),
        ("<!-- varies: TOKEN [a-z]+ -->\n```console\n$ echo abc ABC\nTOKEN TOKEN\n```", "the page shows"),
        ("<!-- keeps running -->\n```console\n$ echo 1\n1\n```", "the first terminal ends with 0"),
        ("<!-- keeps running -->\n```console\n$ printf '1\\n2\\n'\n1\n```\n\n<!-- goes on -->\n```text\n3\n```", "the page shows\n3\n"),
        ("<!-- drawn: STEP -->\n```mermaid\nstateDiagram-v2\n```", "the drawing is stale"),
        ("<!-- drawn: NAP -->\n```mermaid\n```", "no drawing of NAP"),
    ],
)
def test_a_page_that_is_not_true_is_found_out(tmp_path: Path, page: str, says: str) -> None:
    (tmp_path / "page.md").write_text(page)
    with pytest.raises(AssertionError, match=re.escape(says)):
        Reader(Page.read(tmp_path / "page.md"), tmp_path).read()


def test_what_varies_is_known_by_its_shape_and_used_in_later_commands(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "<!-- varies: 4711 [0-9]+ -->\n"
        "```console\n$ echo 2026-01-02T03:04:05.678Z  took 12 s 3 ms as 99\n2020-10-10T00:00:00Z took 7 min as 4711\n"
        "$ echo 4711 is 99\n4711 is 99\n```\n"
    )
    Reader(Page.read(tmp_path / "page.md"), tmp_path).read()


@pytest.mark.parametrize(
    "text, broken",
    [
        ("[a](other.md)", []),
        ("[a](other.md#two-words-a1)", []),
        ("[a](#here)\n# Here", []),
        ("`[a](nowhere.md)`", []),
        ("[a](nowhere.md)", ["nowhere.md"]),
        ("[a](other.md#nothing)", ["other.md#nothing"]),
    ],
)
def test_a_link_that_leads_nowhere_is_found_out(tmp_path: Path, text: str, broken: list[str]) -> None:
    (tmp_path / "other.md").write_text("## Two words: `a1`\n")
    (tmp_path / "page.md").write_text(text)
    assert broken_links(tmp_path / "page.md") == broken
