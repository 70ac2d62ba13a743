"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any


def temporary(path: Path) -> Path:
    """A fresh name beside `path`: rename(2) is atomic only within one folder (and one Lustre MDT)."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")


def publish(tmp: Path, path: Path) -> None:
    """Flush `tmp` to storage, then rename it to `path`."""
    descriptor = os.open(tmp, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(tmp, path)


def write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tmp = temporary(path)
    try:
        tmp.write_bytes(data)
        publish(tmp, path)
    finally:
        tmp.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())
