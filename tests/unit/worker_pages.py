"""Worker pages for tests: two as the site shows them, and the other two renderings of any such page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from holdfast.contract.page import HEADINGS
from holdfast.contract.page_reader import read
from holdfast.contract.terms import Contract, Problem

FOLDER = Path(__file__).resolve().parent.parent / "data" / "worker_pages"
AWS_LAMBDA = (FOLDER / "aws-lambda-worker.txt").read_text(encoding="utf-8")
WEB_SCRAPE = (FOLDER / "web-scrape-worker.txt").read_text(encoding="utf-8")
SITE_PAGES = {"aws-lambda-worker": AWS_LAMBDA, "web-scrape-worker": WEB_SCRAPE}


def flat(page: str) -> str:
    """The page with all its indentation and blank lines gone, and `- ` for bullets."""
    lines = (re.sub(r"^• ", "- ", line.strip()) for line in page.split("\n"))
    return "\n".join(line for line in lines if line)


def markdown(page: str) -> str:
    """The page as people write it: headings with `##`, blocks in fences, `- ` for bullets."""
    _, title, *rest = [line for line in page.split("\n") if line][:2] + page.split("\n")[3:]
    made = [f"# {title}", ""]
    kinds = {"Worker spec": "yaml", "Input schema": "json", "Output schema": "json", "Constraints": "json", "Diagram": "text"}
    open_fence = False
    for line in rest:
        heading = line.removesuffix("#")
        if line.endswith("#") and heading in HEADINGS:
            if open_fence:
                made += ["```", ""]
            made += [f"## {heading}", ""]
            open_fence = heading in kinds
            if open_fence:
                made.append(f"```{kinds[heading]}")
        elif not (open_fence and not line.strip()):
            made.append(re.sub(r"^\s*• ", "- ", line))
    return "\n".join(made) + "\n"


Rendering = Callable[[str], str]
RENDERINGS: dict[str, Rendering] = {"site": str, "flat": flat, "markdown": markdown}


def contract(page: str) -> Contract:
    """The contract of a page that has no errors."""
    reading = read(page)
    assert reading.contract is not None, [str(problem) for problem in reading.errors]
    return reading.contract


def problems(page: str | bytes) -> list[Problem]:
    """All that is wrong with a page."""
    return list(read(page).problems)


def codes(page: str | bytes) -> list[str]:
    """The codes of all that is wrong, but for what the site's own pages have."""
    return [problem.code for problem in problems(page) if problem.code != "rate_limit_example"]
