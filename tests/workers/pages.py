"""Pages of workers, made by a test, and the operator's file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PAGE = """# {worker_id}

Problem: A test needs a worker.

## Worker spec

```yaml
worker_id: {worker_id}
version: 1.0
purpose: Be tested.
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
{constraints}
```
"""
OBJECT: Mapping[str, Any] = {"type": "object"}


def page(
    worker_id: str,
    *tools: str,
    attempts: int = 2,
    inputs: Mapping[str, Any] = OBJECT,
    outputs: Mapping[str, Any] = OBJECT,
    **constraints: Any,
) -> str:
    """A worker.md page."""
    told = {
        "timeout_seconds": 30,
        "tools_allowed": list(tools),
        "retries": {"max_attempts": attempts, "backoff": "none"},
        **constraints,
    }
    return _PAGE.format(worker_id=worker_id, inputs=json.dumps(inputs), outputs=json.dumps(outputs), constraints=json.dumps(told, indent=1))


def write(folder: Path, source: Path | str, **pages: str) -> Path:
    """A worker's file and its pages (`async_payer` is async-payer.md), in a folder of their own."""
    folder.mkdir(exist_ok=True)
    file = folder / (source.name if isinstance(source, Path) else "worker.py")
    file.write_text(source.read_text() if isinstance(source, Path) else source)
    for name, text in pages.items():
        (folder / f"{name.replace('_', '-')}.md").write_text(text)
    return file
