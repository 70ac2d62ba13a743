"""A file of named record arrays that is read by the section and verified at every read.

Layout: magic, the sections end to end, a JSON footer (kind, metadata, and for each section its offset, record
count and xxh3-128), then the footer's length (u64), its xxh3-128 (16 bytes) and the magic again. Records are
packed little-endian structs. A section is one contiguous range, so it costs one large read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

Records = npt.NDArray[np.void]

MAGIC = b"HPCSECT1"
_TAIL = struct.Struct("<Q16s8s")

KEYS = np.dtype(
    [("key", "<u8"), ("row", "<u4")]
)  # .sig of MinHash: band key, row of the document in its shard
DIGESTS = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<u4")])  # .sig of exact dedup: 128-bit hash
EDGES = np.dtype([("shard", "<u4"), ("row", "<u4"), ("kept_shard", "<u4"), ("kept_row", "<u4")])
REMOVALS = np.dtype([("row", "<u4"), ("kept_shard", "<u4"), ("kept_row", "<u4")])


def write(
    path: Path, dtype: np.dtype[np.void], meta: Mapping[str, Any], sections: Iterable[tuple[str, Records]]
) -> None:
    """Write `sections`, (name, records of `dtype`) in file order; `meta` is any JSON object."""
    index: dict[str, tuple[int, int, str]] = {}
    with path.open("wb") as file:
        file.write(MAGIC)
        for name, records in sections:
            assert records.dtype == dtype and name not in index
            data = np.ascontiguousarray(records).tobytes()
            index[name] = (file.tell(), len(records), xxhash.xxh3_128_hexdigest(data))
            file.write(data)
        footer = json.dumps({"dtype": dtype.descr, "meta": meta, "sections": index}, sort_keys=True).encode()
        file.write(footer)
        file.write(_TAIL.pack(len(footer), xxhash.xxh3_128_digest(footer), MAGIC))


class Sections:
    """Reader. Raises ValueError, naming the file, when it is cut short, altered or of another record type."""

    def __init__(self, path: Path, dtype: np.dtype[np.void]) -> None:
        self.path = path
        self.dtype = dtype
        size = path.stat().st_size
        with path.open("rb") as file:
            if size < len(MAGIC) + _TAIL.size or file.read(len(MAGIC)) != MAGIC:
                raise ValueError(f"{path}: not a section file, or cut short ({size} bytes)")
            file.seek(size - _TAIL.size)
            length, digest, magic = _TAIL.unpack(file.read(_TAIL.size))
            if magic != MAGIC or length > size - _TAIL.size - len(MAGIC):
                raise ValueError(f"{path}: no footer at its end: cut short or damaged ({size} bytes)")
            file.seek(size - _TAIL.size - length)
            data = file.read(length)
        if xxhash.xxh3_128_digest(data) != digest:
            raise ValueError(f"{path}: the footer does not match its checksum")
        footer = json.loads(data)
        if footer["dtype"] != [list(field) for field in dtype.descr]:
            raise ValueError(f"{path}: holds records {footer['dtype']}, expected {dtype.descr}")
        self.meta: dict[str, Any] = footer["meta"]
        self._index: dict[str, tuple[int, int, str]] = footer["sections"]

    def count(self, name: str) -> int:
        """Records in a section."""
        return self._index[name][1]

    def read(self, *names: str) -> Records:
        """The records of these sections end to end. Raises KeyError for a name that the file has not."""
        parts = [np.zeros(0, dtype=self.dtype)]
        with self.path.open("rb", buffering=0) as file:
            for name in names:
                offset, count, digest = self._index[name]
                file.seek(offset)
                records = np.fromfile(file, dtype=self.dtype, count=count)
                if len(records) != count or xxhash.xxh3_128_hexdigest(records.view(np.uint8).data) != digest:
                    raise ValueError(f"{self.path}: section {name} does not match its checksum")
                parts.append(records)
        return np.concatenate(parts)
