"""Pre-tokens of GPT-2's byte-level scheme, numbered as they are seen: a compiled scan and a hash table.

The scheme (Radford et al. 2019, ``encoder.py``) cuts text by the expression::

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

A pre-token is encoded on its own, and few are new in any text, so encoding is a scan and a table look-up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from tokenizers import pre_tokenizers

SYMBOL, LETTER, NUMBER, SPACE = range(4)

# Above this only the supplementary special-purpose plane (E0000-E0FFF) is assigned outside private use.
_IDEOGRAPHS_END = 0x32400


@lru_cache(maxsize=1)
def classes() -> npt.NDArray[np.uint8]:
    """Class of every code point, as the library's own expression sees it; uint8. Computed once."""
    out = np.zeros(0x110000, dtype=np.uint8)
    out[ord(" ")] = SPACE  # left out below, where it would join what follows
    codes = [c for c in (*range(_IDEOGRAPHS_END), *range(0xE0000, 0xE1000)) if not _joins(c)]
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True).pre_tokenize_str
    # In ascending order all code points fall into some thousand pre-tokens, each of one class.
    for _, (start, end) in cut("".join(map(chr, codes))):
        character = chr(codes[start])
        kinds = [kind for kind, beside in enumerate("!a1") if len(cut(beside + character)) == 1]
        out[codes[start:end]] = kinds[0] if kinds else SPACE
    return out


def _joins(code: int) -> bool:
    return code == ord(" ") or 0xD800 <= code < 0xE000


@numba.njit(inline="always")
def _class_at(data, at, end, classes):  # type: ignore[no-untyped-def]
    """Class of the code point at byte `at` of valid UTF-8 and its length in bytes; (-1, 0) at the end."""
    if at >= end:
        return -1, 0
    byte = np.int32(data[at])
    if byte < 0x80:
        return np.int64(classes[byte]), 1
    size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    code = byte & (0x7F >> size)
    for k in range(1, size):
        code = (code << 6) | (np.int32(data[min(at + k, end - 1)]) & 0x3F)
    return np.int64(classes[min(code, 0x10FFFF)]), size


@numba.njit(inline="always")
def _contraction(data, at, end):  # type: ignore[no-untyped-def]
    """Bytes of the contraction at `at`, an apostrophe, or 0."""
    if at + 1 < end:
        first = data[at + 1]
        if first == ord("s") or first == ord("t") or first == ord("m") or first == ord("d"):
            return 2
        if at + 2 < end:
            second = data[at + 2]
            if (first == ord("r") or first == ord("v")) and second == ord("e"):
                return 3
            if first == ord("l") and second == ord("l"):
                return 3
    return 0


@numba.njit(nogil=True, cache=True)
def _end_of_pretoken(data, at, end, classes):  # type: ignore[no-untyped-def]
    """Where the pre-token that starts at `at` ends."""
    if data[at] == ord("'"):
        size = _contraction(data, at, end)
        if size:
            return at + size
    kind, size = _class_at(data, at, end, classes)
    start = at
    at += size
    if kind == SPACE:
        following, size = _class_at(data, at, end, classes)
        if data[start] != ord(" ") or following == SPACE or following < 0:
            last = start  # of the white space so far
            while following == SPACE:
                last = at
                at += size
                following, size = _class_at(data, at, end, classes)
            # Before other text a run leaves its last character out, a single one is all.
            return at if following < 0 or last == start else last
        kind = following
        at += size
    following, size = _class_at(data, at, end, classes)
    while following == kind:
        at += size
        following, size = _class_at(data, at, end, classes)
    return at


@numba.njit(nogil=True, cache=True)
def cut(data, offsets, classes, ends, hashes, counts):  # type: ignore[no-untyped-def]
    """Cut a column of documents into pre-tokens; returns how many.

    `ends` (int64) and `hashes` (uint64) have a place for every byte and take the end and hash of each;
    `counts` (int64) takes how many each document has.
    """
    written = 0
    for document in range(len(offsets) - 1):
        at, end = offsets[document], offsets[document + 1]
        before = written
        while at < end:
            stop = _end_of_pretoken(data, at, end, classes)
            state = np.uint64(stop - at)
            for k in range(at, stop):
                state = (state ^ np.uint64(data[k])) * np.uint64(0x9E3779B97F4A7C15)
                state ^= state >> np.uint64(29)
            ends[written], hashes[written] = stop, state
            written += 1
            at = stop
        counts[document] = written - before
    return written


class Table:
    """Distinct pre-tokens, numbered from 0 as they are met; open addressing by their 64-bit hashes."""

    def __init__(self) -> None:
        self.count = 0
        self._text = np.zeros(1 << 18, dtype=np.uint8)
        self._start = np.zeros((1 << 15) + 1, dtype=np.int64)  # entry e: _text[_start[e] : _start[e + 1]]
        self._hashes = np.zeros(1 << 15, dtype=np.uint64)
        self._slots = np.zeros(1 << 16, dtype=np.int32)  # entry + 1, or 0

    @property
    def bytes(self) -> int:
        return int(self._start[self.count])

    def entries_from(self, first: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Buffer and offsets (as `documents.utf8` gives them) of the entries from `first` on."""
        return self._text, self._start[first : self.count + 1]

    def number(
        self, buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Entries of all pre-tokens of a column, int32, and how many each document has, int64."""
        size = int(offsets[-1] - offsets[0])
        ends, hashes = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.uint64)
        counts = np.empty(len(offsets) - 1, dtype=np.int64)
        total = cut(buffer, offsets, classes(), ends, hashes, counts)
        out = np.empty(total, dtype=np.int32)
        done = 0
        while done < total:
            done, self.count = _number(
                buffer,
                int(offsets[0]),
                ends[:total],
                hashes,
                done,
                self._slots,
                self._hashes,
                self._start,
                self._text,
                self.count,
                out,
            )
            if done < total:
                self._grow(int(ends[done] - (ends[done - 1] if done else offsets[0])))
        return out, counts

    def _grow(self, needed: int) -> None:
        """Twice the entries, and twice the bytes or as many as `needed` more."""
        self._text = _grown(self._text, 2 * len(self._text) + needed)
        self._start = _grown(self._start, 2 * len(self._start) - 1)
        self._hashes = _grown(self._hashes, 2 * len(self._hashes))
        self._slots = np.zeros(2 * len(self._slots), dtype=np.int32)
        _place(self._hashes[: self.count], self._slots)


@numba.njit(inline="always")
def _slot(value, slots):  # type: ignore[no-untyped-def]
    return np.int64(value >> np.uint64(20)) & (len(slots) - 1)


@numba.njit(nogil=True, cache=True)
def _place(hashes, slots):  # type: ignore[no-untyped-def]
    for entry in range(len(hashes)):
        slot = _slot(hashes[entry], slots)
        while slots[slot]:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = entry + 1


@numba.njit(nogil=True, cache=True)
def _number(data, at, ends, values, done, slots, hashes, start, text, count, out):  # type: ignore[no-untyped-def]
    """Look up, or enter, pre-tokens from `done` on. Stops where the table is full.

    Returns how many are done and the count of entries.
    """
    if done:
        at = ends[done - 1]
    while done < len(ends):
        stop, value = ends[done], values[done]
        slot = _slot(value, slots)
        entry = -1
        while slots[slot]:
            seen = slots[slot] - 1
            if hashes[seen] == value and start[seen + 1] - start[seen] == stop - at:
                begin = start[seen]
                same = 0
                while same < stop - at and data[at + same] == text[begin + same]:
                    same += 1
                if same == stop - at:
                    entry = seen
                    break
            slot = (slot + 1) & (len(slots) - 1)
        if entry < 0:
            begin = start[count]
            if count == len(hashes) or begin + stop - at > len(text):
                break
            for k in range(stop - at):
                text[begin + k] = data[at + k]
            entry = count
            count += 1
            start[count] = begin + stop - at
            hashes[entry] = value
            slots[slot] = count
        out[done] = entry
        done += 1
        at = stop
    return done, count


def _grown(array: npt.NDArray[np.generic], size: int) -> npt.NDArray[Any]:
    out = np.zeros(size, dtype=array.dtype)
    out[: len(array)] = array
    return out
