"""Published checkpoints on disk: names, checksums, and which of them can be trusted. No torch here.

``step_00000100/`` holds the files of one checkpoint and ``manifest.json``, written last, with the
position of the run and the size and xxh3_128 of every file. It appears by one rename of
``.step_00000100.tmp/``, so a folder with that name is complete, and the manifest says whether it still is.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import xxhash

from hpc_llm.run import atomic

MANIFEST = "manifest.json"
_PREFIX = "step_"
_BLOCK = 1 << 22  # bytes hashed at once


@dataclass(frozen=True)
class Position:
    """How far a run is. The next batch begins at global sample index `samples`."""

    step: int = 0
    samples: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class FileSum:
    bytes: int
    xxh3_128: str


class Corrupt(ValueError):
    """A checkpoint is not what was written; says which file, and what was seen."""


def name(step: int) -> str:
    return f"{_PREFIX}{step:08d}"


def temporary(folder: Path, step: int) -> Path:
    return folder / f".{name(step)}.tmp"


def published(folder: Path) -> list[Path]:
    """Checkpoints in `folder`, oldest first, good or not."""
    found = (p for p in folder.glob(f"{_PREFIX}*") if p.name.removeprefix(_PREFIX).isdigit())
    return sorted(found, key=lambda p: int(p.name.removeprefix(_PREFIX)))


def publish(folder: Path, position: Position, files: dict[str, FileSum]) -> Path:
    """Write the manifest into the temporary folder of this step and rename it to its name."""
    source, target = temporary(folder, position.step), folder / name(position.step)
    sums = {name: asdict(s) for name, s in sorted(files.items())}
    atomic.write_json(source / MANIFEST, {"version": 1, "position": asdict(position), "files": sums})
    _flush(source)
    if target.exists():
        shutil.rmtree(target)  # only a run that fell back to an older checkpoint comes here
    os.replace(source, target)
    _flush(folder)
    return target


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` published checkpoints."""
    for path in published(folder)[: -keep if keep > 0 else None]:
        shutil.rmtree(path)


def remove_torn(folder: Path) -> None:
    """Delete what a run that was killed while it wrote has left."""
    for path in folder.glob(f".{_PREFIX}*.tmp"):
        shutil.rmtree(path)


def set_aside(path: Path) -> Path:
    """Rename a checkpoint that cannot be trusted: kept for whoever looks into it, seen by nothing else."""
    target = path.with_name(f"corrupt_{path.name}")
    if target.exists():
        shutil.rmtree(target)
    os.replace(path, target)
    return target


def read(checkpoint: Path) -> tuple[Position, dict[str, FileSum]]:
    """Position and file sums of a published checkpoint. Raises Corrupt when the manifest cannot be read."""
    path = checkpoint / MANIFEST
    try:
        value = atomic.read_json(path)
        files = {name: FileSum(**s) for name, s in value["files"].items()}
        return Position(**value["position"]), files
    except FileNotFoundError:
        raise Corrupt(f"{path} is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f"{path} is not a manifest: {error}") from None


def verify(checkpoint: Path, part: int = 0, parts: int = 1) -> None:
    """Compare every `parts`-th file with the manifest, by size and checksum. Raises Corrupt."""
    _, files = read(checkpoint)
    for file in sorted(files)[part::parts]:
        path, expected = checkpoint / file, files[file]
        try:
            size = path.stat().st_size
            if size != expected.bytes:
                raise Corrupt(f"{path} has {size} bytes, its manifest says {expected.bytes}")
            seen = _checksum(path)
        except OSError as error:
            raise Corrupt(f"{path}: {error.strerror}") from None
        if seen != expected.xxh3_128:
            raise Corrupt(f"{path} has checksum {seen}, its manifest says {expected.xxh3_128}")


def _checksum(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
