"""Megatron's indexed dataset: a ``.bin`` of token ids end to end, an ``.idx`` that says where documents are.

Format (Megatron-LM, megatron/core/datasets/indexed_dataset.py), all little-endian::

    .bin   token ids of every sequence, without padding or header
    .idx   b"MMIDIDX\\0\\0"  u64 version = 1  u8 dtype code  u64 sequences  u64 length of the document index
           i32 lengths[sequences]    i64 byte offsets[sequences]    i64 document index[...]

A document here is one sequence, so the document index is 0 .. documents.
"""

from __future__ import annotations

import struct
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

_HEADER = struct.Struct("<9sQBQQ")
_MAGIC = b"MMIDIDX\x00\x00"
_VERSION = 1
_CODES: dict[int, npt.DTypeLike] = {
    1: "u1",
    2: "i1",
    3: "<i2",
    4: "<i4",
    5: "<i8",
    6: "<f8",
    7: "<f4",
    8: "<u2",
}
_MAX_SEQUENCE = 2**31 - 1  # lengths are i32

Tokens = npt.NDArray[np.integer]


def token_dtype(vocab_size: int) -> np.dtype[np.integer]:
    """uint16 below 65,500 ids, else int32: what Megatron's ``optimal_dtype`` chooses."""
    return np.dtype("<u2") if vocab_size < 65_500 else np.dtype("<i4")


class Writer:
    """Writes one dataset; a context manager. The index is written when the block ends without an error.

    Raises ValueError for an id that the dtype does not hold, or a document of 2**31 tokens or more.
    """

    def __init__(self, bin_path: Path, idx_path: Path, dtype: np.dtype[np.integer]) -> None:
        self.dtype = dtype
        self.tokens = 0
        self._limits = np.iinfo(dtype)
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._idx_path = idx_path
        self._file = bin_path.open("wb")

    def add(self, tokens: Tokens) -> None:
        """Append one document."""
        self.extend(tokens, np.array([len(tokens)]))

    def extend(self, tokens: Tokens, lengths: npt.NDArray[np.int64]) -> None:
        """Append documents that lie end to end in `tokens`, with their lengths."""
        assert lengths.sum() == len(tokens)
        if len(tokens) and (tokens.min() < 0 or tokens.max() > self._limits.max):
            raise ValueError(
                f"{self._file.name}: token id {tokens.max()} or {tokens.min()} is outside what "
                f"{self.dtype.name} holds, 0 to {self._limits.max}"
            )
        if lengths.max(initial=0) > _MAX_SEQUENCE:
            raise ValueError(
                f"{self._file.name}: a document of {lengths.max()} tokens; at most {_MAX_SEQUENCE}"
            )
        self._file.write(np.ascontiguousarray(tokens, dtype=self.dtype).data)
        self._lengths.append(lengths.astype(np.int64))
        self.tokens += len(tokens)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._file.close()
        if kind is None:
            self._write_index()

    def _write_index(self) -> None:
        lengths = np.concatenate([np.zeros(0, dtype=np.int64), *self._lengths])
        offsets = (np.cumsum(lengths) - lengths) * self.dtype.itemsize
        code = next(code for code, dtype in _CODES.items() if np.dtype(dtype) == self.dtype)
        with self._idx_path.open("wb") as file:
            file.write(_HEADER.pack(_MAGIC, _VERSION, code, len(lengths), len(lengths) + 1))
            file.write(lengths.astype("<i4").data)
            file.write(offsets.astype("<i8").data)
            file.write(np.arange(len(lengths) + 1, dtype="<i8").data)


class Reader:
    """Memory-maps one dataset.

    tokens
        Every token id of the file, in order, in its dtype.
    lengths, offsets
        int32 tokens and int64 start, in tokens, of each sequence.
    Raises ValueError, naming the file, when it is no such dataset or not all of it is there.
    """

    def __init__(self, bin_path: Path) -> None:
        idx_path = bin_path.with_suffix(".idx")
        size = idx_path.stat().st_size
        index = _map(idx_path, np.dtype("u1"))
        if size < _HEADER.size or bytes(index[:9]) != _MAGIC:
            raise ValueError(f"{idx_path}: not a Megatron index ({size} bytes)")
        _, version, code, sequences, documents = _HEADER.unpack(bytes(index[: _HEADER.size]))
        if version != _VERSION or code not in _CODES:
            raise ValueError(
                f"{idx_path}: version {version}, dtype code {code}; can read version 1, codes 1 to 8"
            )
        if size < (expected := _HEADER.size + 12 * sequences + 8 * documents):
            raise ValueError(f"{idx_path}: {size} bytes, its header asks for {expected}: cut short")
        self.dtype = np.dtype(_CODES[code])
        self.lengths = np.frombuffer(index, "<i4", sequences, _HEADER.size)
        pointers = np.frombuffer(index, "<i8", sequences, _HEADER.size + 4 * sequences)
        held = bin_path.stat().st_size
        end = int((pointers + self.lengths.astype(np.int64) * self.dtype.itemsize).max(initial=0))
        if held != end:
            state = "cut short" if held < end else "longer than its index says"
            raise ValueError(f"{bin_path}: {held} bytes, its index asks for {end}: {state}")
        self.offsets = pointers // self.dtype.itemsize
        self.tokens = _map(bin_path, self.dtype)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Tokens:
        """Token ids of one sequence: a view into the file."""
        start = int(self.offsets[index])
        return self.tokens[start : start + int(self.lengths[index])]


def _map(path: Path, dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
    """A read-only memory map of the file; mmap(2) refuses an empty one, which is valid here."""
    if not path.stat().st_size:
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r")
