"""The pages of the hostile workers, and the inputs of each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

Schema = dict[str, Any]

_PAGE: Final = """# {name}

Problem: A neighbour must not notice.

## Worker spec

```yaml
worker_id: {name}
version: 1.0
purpose: Be measured.
```

## Input schema

```json
{inputs}
```

## Output schema

```json
{outputs}
```

## Constraints

```json
{{"timeout_seconds": 20, "max_memory_mb": 512, "tools_allowed": [], "retries": {{"max_attempts": 1}}}}
```
"""
_OBJECT: Final[Schema] = {"type": "object"}
_SLOW: Final[Schema] = {"type": "object", "properties": {"a": {"items": {"enum": [[number] for number in range(4_000)]}}}}
_TREE: Final[Schema] = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
_WRONG: Final[Schema] = {"type": "object", "properties": {"a": {"items": {"anyOf": [{"type": "string"}, {"type": "object"}]}}}}
_NAMES: Final[Schema] = {"type": "object", "additionalProperties": False, "patternProperties": {"^(a+)+$": {"x-redact": True}}}

PAGES: Final[Mapping[str, tuple[Schema, Schema]]] = {
    "neighbour": (_OBJECT, _OBJECT),
    "doubling-question": (_OBJECT, _OBJECT),
    "large-question": (_OBJECT, _OBJECT),
    "slow-output": (_OBJECT, _SLOW),
    "wrong-output": (_OBJECT, _WRONG),
    "tree-output": (_OBJECT, _TREE),
    "empty-lists": (_OBJECT, _OBJECT),
    "large-frames": (_OBJECT, _OBJECT),
    "many-lines": (_OBJECT, _OBJECT),
    "hidden-names": (_OBJECT, _NAMES),
    "slow-input": (_SLOW, _OBJECT),
}
HOSTILE: Final[Mapping[str, Schema]] = {
    "doubling-question": {"times": 50},
    "large-question": {"times": 20},
    "slow-output": {},
    "wrong-output": {},
    "tree-output": {},
    "empty-lists": {},
    "large-frames": {"times": 10},
    "many-lines": {},
    "hidden-names": {},
    "slow-input": {"a": [[3_999]] * 19_000},
}
"""Ten hostile workers, and the inputs of each."""


def written(folder: Path) -> Path:
    """The workers' file and their pages, in a folder."""
    for name, (inputs, outputs) in PAGES.items():
        text = _PAGE.format(name=name, inputs=json.dumps(inputs), outputs=json.dumps(outputs))
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return Path(shutil.copy(Path(__file__).with_name("worker.py"), folder / "worker.py"))
