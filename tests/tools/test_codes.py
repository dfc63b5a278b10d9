"""Every code that a tool can fail with is one of the one table."""

import re
from pathlib import Path

import pytest

from holdfast.contract.codes import CODES

SOURCES = ("src/holdfast/workers/tools", "src/holdfast/hosts/toolhost")


@pytest.mark.parametrize("folder", SOURCES)
def test_a_tool_fails_with_codes_of_the_table_only(root: Path, folder: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (root / folder).glob("*.py")]
    used = {code for text in texts for code in re.findall(r'(?:ToolFailed\(\s*|super\(\).__init__\(|"code": )"([a-z_]+)"', text)}
    assert (len(used) >= 3, used - set(CODES)) == (True, set())
