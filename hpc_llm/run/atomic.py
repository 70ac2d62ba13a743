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


class Damaged(ValueError):
    """A file of the run folder is not what was written; the message names it."""


def read_json(path: Path) -> Any:
    """Raises Damaged, and the OSError of reading it."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise Damaged(f"{path} is damaged: {error}") from error
