"""Text to normalised word hashes, straight from UTF-8 bytes.

The normal form follows datatrove's ``simplify_text`` (utils/text.py) in spirit, over all of Unicode:

- lower case; canonical decomposition (NFD) without nonspacing marks (Mn) and format characters (Cf)
- a number (decimal digits, with at most one separator inside) becomes the single digit ``0``
- punctuation, symbols (categories P and S), controls and white space separate words

Each code point maps on its own, through tables, so the result is that of the whole string but for two
contextual rules of Unicode: final sigma is the letter sigma, and the order of the rare spacing marks that
have a combining class is kept as it stands.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

# Signatures of two definitions must never meet: it is compared before signatures are matched.
DEFINITION = f"lower-nfd-number-word/1 unicode {unicodedata.unidata_version}"

SEPARATOR, DIGIT, NUMBER_SEPARATOR = -1, -2, -3  # what a table entry may hold besides code points
_NUMBER_SEPARATORS = ".,،٫⎖⎗⎘"

# Above this only the supplementary special-purpose plane (E0000-E0FFF) is assigned outside private use.
_IDEOGRAPHS_END = 0x32400


class Tables(NamedTuple):
    """``values[first[c] : first[c] + length[c]]`` is what code point ``c`` becomes; int32, int32, uint8."""

    first: npt.NDArray[np.int32]
    length: npt.NDArray[np.uint8]
    values: npt.NDArray[np.int32]


def _mapped(character: str) -> list[int]:
    out: list[int] = []
    for c in unicodedata.normalize("NFD", character.lower()):
        category = unicodedata.category(c)
        if c in _NUMBER_SEPARATORS:
            out.append(NUMBER_SEPARATOR)
        elif c.isspace() or category[0] in "PSZ" or category == "Cc":
            out.append(SEPARATOR)
        elif category == "Nd":
            out.append(DIGIT)
        elif category not in ("Mn", "Cf"):
            out.append(ord("σ") if c == "ς" else ord(c))
    return out


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The tables for every code point; built once in a process (a fraction of a second)."""
    first = np.arange(sys.maxunicode + 1, dtype=np.int32)  # identity, until an entry says otherwise
    length = np.ones(sys.maxunicode + 1, dtype=np.uint8)
    values = [np.arange(sys.maxunicode + 1, dtype=np.int32)]
    end = sys.maxunicode + 1
    extra: list[int] = []
    for code in (*range(_IDEOGRAPHS_END), *range(0xE0000, 0xE1000)):
        mapped = _mapped(chr(code)) if not 0xD800 <= code < 0xE000 else [SEPARATOR]
        if mapped != [code]:
            first[code], length[code] = end + len(extra), len(mapped)
            extra.extend(mapped)
    values.append(np.array(extra, dtype=np.int32))
    return Tables(first, length, np.concatenate(values))


@numba.njit(inline="always")
def mix(x: np.uint64) -> np.uint64:
    """Finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of uint64 that spreads every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(inline="always")
def _decode(data, at, end):  # type: ignore[no-untyped-def]
    """Code point at byte `at` and its length in bytes; a byte that is not UTF-8 separates words."""
    byte = np.int32(data[at])
    if byte < 0x80:
        return byte, 1
    if byte < 0xE0 and at + 1 < end:
        return ((byte & 0x1F) << 6) | (np.int32(data[at + 1]) & 0x3F), 2
    if byte < 0xF0 and at + 2 < end:
        return ((byte & 0x0F) << 12) | ((np.int32(data[at + 1]) & 0x3F) << 6) | (
            np.int32(data[at + 2]) & 0x3F
        ), 3
    if at + 3 < end:
        code = ((byte & 0x07) << 18) | ((np.int32(data[at + 1]) & 0x3F) << 12)
        code |= ((np.int32(data[at + 2]) & 0x3F) << 6) | (np.int32(data[at + 3]) & 0x3F)
        return min(code, np.int32(0x10FFFF)), 4
    return np.int32(0x20), 1


_SEED = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0x100000001B3)  # FNV-1a, 64 bits


@numba.njit(nogil=True, cache=True)
def word_hashes(data, start, end, first, length, values, out):  # type: ignore[no-untyped-def]
    """Hash every normalised word of ``data[start:end]`` into `out` (uint64); returns how many there are.

    `out` must hold ``(end - start) // 2 + 1`` words or more. `first`, `length`, `values`: see `Tables`.
    """
    words = 0
    letters = 0  # of the word being read
    number = 0  # 0: outside; 1: in its digits; 2: after its separator, undecided; 3: in its second digits
    state = _SEED
    at = start
    while at < end:
        code, size = _decode(data, at, end)
        at += size
        for k in range(first[code], first[code] + length[code]):
            value = values[k]
            if value == DIGIT:
                if number == 2:
                    number = 3
                if number != 0:
                    continue
                number = 1
                value = np.int32(0x30)
            elif value == NUMBER_SEPARATOR and number == 1:
                number = 2
                continue
            else:
                ends_word = value < 0 or number == 2
                number = 0
                if ends_word:
                    if letters:
                        out[words] = mix(state)
                        words += 1
                    letters = 0
                    state = _SEED
                if value < 0:
                    continue
            state = (state ^ np.uint64(value)) * _PRIME
            letters += 1
    if letters:
        out[words] = mix(state)
        words += 1
    return words
