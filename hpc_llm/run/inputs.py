"""What a source is made of: its input items, cut into shards by bytes. Pure planning, on the login node.

Nothing is read but folder entries, sizes and package metadata, and neither pyarrow nor numba is
imported, so that 100,000 files are planned in about a second.
"""

from __future__ import annotations

import glob
import heapq
import importlib.metadata
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hpc_llm.config.schema import SourceConfig

EXTENSIONS = {
    "warc": tuple(
        f".{kind}{packed}" for kind in ("warc", "wet", "wat") for packed in ("", ".gz", ".zst", ".lz4")
    ),
    "jsonl": tuple(
        f".{kind}{packed}" for kind in ("jsonl", "ndjson", "json") for packed in ("", ".gz", ".zst")
    ),
    "parquet": (".parquet",),
}
KINDS = ("python_env", *EXTENSIONS)
PYTHON_ENV_SHARDS = 8

_GLOB = re.compile(r"[*?\[]")


def plan(source: SourceConfig) -> list[tuple[str, ...]]:
    """Shards of input items: every item is in exactly one shard, and the same inputs give the same plan.

    An item is the absolute path of a file or, for `python_env`, ``dist:<name>==<version>`` or
    ``stdlib:<module>==<python version>``. Shards are balanced by bytes (longest processing time first,
    Graham 1969); there are ``source.shards`` of them or, when that is 0, as many as ``source.shard_mb``
    asks for, but never more than there are items.

    Raises ValueError for an unknown kind, a path that does not exist and a folder or pattern without a
    matching file; all faults of ``source.paths`` are named in one message.
    """
    if source.kind not in KINDS:
        raise ValueError(f"source.kind is {source.kind!r}; allowed: {', '.join(KINDS)}")
    if source.kind == "python_env":
        return balance(python_env(), source.shards or PYTHON_ENV_SHARDS)
    sizes = files(source)
    wanted = source.shards or -(-sum(sizes.values()) // (source.shard_mb * 1_000_000))
    return balance(sizes, wanted)


def balance(sizes: dict[str, int], shards: int) -> list[tuple[str, ...]]:
    """Deal items out to at most `shards` bins, the largest first, each to the bin with the fewest bytes."""
    bins: list[list[str]] = [[] for _ in range(max(1, min(shards, len(sizes))))]
    heap = [(0, 0, index) for index in range(len(bins))]  # bytes, items, bin
    for item, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        total, count, index = heap[0]
        heapq.heapreplace(heap, (total + size, count + 1, index))
        bins[index].append(item)
    return [tuple(sorted(items)) for items in bins]


def fingerprint(items: Iterable[str]) -> list[tuple[str, int, int]]:
    """``(item, bytes, mtime_ns)`` of each item: a plan whose fingerprint changed has other inputs.

    Items of `python_env` carry their version instead, and give ``(item, 0, 0)``.
    """
    out = []
    for item in items:
        if item.startswith(("dist:", "stdlib:")):
            out.append((item, 0, 0))
        else:
            status = os.stat(item)
            out.append((item, status.st_size, status.st_mtime_ns))
    return out


def files(source: SourceConfig) -> dict[str, int]:
    """Absolute path -> bytes of every file that ``source.paths`` names, each once."""
    if not source.paths:
        raise ValueError(f"source.paths is empty; source.kind={source.kind} needs files, folders or globs")
    extensions = EXTENSIONS[source.kind]
    found: dict[str, int] = {}
    faults = []
    for path in source.paths:
        before = len(found)
        matches = dict(_expand(os.path.expanduser(path), extensions))
        found.update(matches)
        if not matches and before == len(found):
            faults.append(_fault(path, source.kind, extensions))
    if faults:
        raise ValueError("\n".join(faults))
    return found


def _fault(path: str, kind: str, extensions: tuple[str, ...]) -> str:
    if _GLOB.search(path) and not os.path.exists(path):
        return f"source.paths: no file matches {path!r}"
    if os.path.isdir(path):
        return f"source.paths: no {kind} file below {path!r}; looked for {', '.join(extensions)}"
    if os.path.exists(path):
        return f"source.paths: {path!r} is neither a file nor a folder"
    return f"source.paths: {path!r} does not exist"


def _expand(path: str, extensions: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """A file named outright is taken whatever its extension; in folders only files of the kind are."""
    names = [path] if os.path.exists(path) or not _GLOB.search(path) else glob.iglob(path, recursive=True)
    for name in names:
        if os.path.isfile(name):
            yield os.path.abspath(name), os.path.getsize(name)
        elif os.path.isdir(name):
            yield from _walk(os.path.abspath(name), lambda file: file.endswith(extensions))


def _walk(folder: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
    """Files below `folder` that are not hidden. scandir: one pass over the entries, one stat a match."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, wanted)
            elif wanted(entry.name) and entry.is_file():
                yield entry.path, entry.stat().st_size


def python_env() -> dict[str, int]:
    """Items of this Python environment -> bytes: its installed distributions and the standard library.

    A distribution that stands on the path twice is taken where an import would find it. Sizes are those
    that the installer recorded; nothing is imported.
    """
    items: dict[str, int] = {}
    names: set[str] = set()
    for distribution in importlib.metadata.distributions():
        metadata = distribution.metadata  # parsed anew at every look
        name = metadata["Name"]
        key = re.sub(r"[-_.]+", "-", name or "").lower()  # PEP 503
        if not name or key in names:
            continue
        names.add(key)
        items[f"dist:{key}=={metadata['Version']}"] = _recorded_bytes(distribution)
    for name, path in stdlib().items():
        items[f"stdlib:{name}=={'.'.join(map(str, sys.version_info[:3]))}"] = (
            path.stat().st_size if path.is_file() else sum(size for _, size in _walk(str(path), _is_python))
        )
    return items


def stdlib() -> dict[str, Path]:
    """Top-level modules of the standard library that have Python source: name -> file or package folder."""
    root = Path(sysconfig.get_path("stdlib"))
    found = {}
    for name in sorted(sys.stdlib_module_names):
        for path in (root / name, root / f"{name}.py"):
            if path.is_file() or (path / "__init__.py").is_file():
                found[name] = path
                break
    return found


def _is_python(name: str) -> bool:
    return name.endswith(".py")


def _recorded_bytes(distribution: importlib.metadata.Distribution) -> int:
    """Bytes of the text files in RECORD (PEP 376: path,hash,size); 0 where there is no RECORD."""
    total = 0
    for line in (distribution.read_text("RECORD") or "").splitlines():
        path, _, size = line.rpartition(",")
        if size.isdigit() and path.rsplit(",", 1)[0].endswith((".py", ".rst", ".md", ".txt")):
            total += int(size)
    return total
