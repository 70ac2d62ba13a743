"""What a code point is, looked up in a table, so that kernels and Python's `str` methods agree."""

from __future__ import annotations

import sys
from functools import cache

import numba
import numpy as np
import numpy.typing as npt

# Arrow's buffers are read-only; arrays that are not are taken as well.
READ_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
READ_OFFSETS = numba.types.Array(numba.int64, 1, "C", readonly=True)

SPACE = 1  # str.isspace: what str.split and str.strip take
BREAK = 2  # ends a line of str.splitlines
ALPHA = 4  # str.isalpha
SYMBOL = 8  # punctuation or control: a word of nothing else is no word for Gopher's counts
DIGIT = 16  # str.isdecimal: \d of `re`

# The punctuation of CCNet's text normalizer (Wenzek et al. 2020, arXiv 1911.00359), which FineWeb takes
# as its symbols too.
PUNCTUATION = "!/—”:％１〈&(、━\\【#%「」，】；+^]~“《„';’{|∶´[=-`*．（–？！：$～«〉,><》)?）。…@_.\"}►»"
LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@cache
def flags() -> npt.NDArray[np.uint8]:
    """uint8 array of length 0x110000: the flags of each code point, of this Python's Unicode version."""
    table = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    points = list(map(chr, range(sys.maxunicode + 1)))
    for flag, test in ((SPACE, str.isspace), (ALPHA, str.isalpha), (DIGIT, str.isdecimal)):
        table[np.fromiter(map(test, points), dtype=bool, count=len(points))] |= flag
    table[[ord(c) for c in LINE_BREAKS]] |= BREAK
    table[[ord(c) for c in PUNCTUATION]] |= SYMBOL
    table[:32] |= SYMBOL
    table[127:160] |= SYMBOL
    return table


@numba.njit(nogil=True)
def decode(buffer, i):  # type: ignore[no-untyped-def]
    """Code point at byte i of valid UTF-8, and its width in bytes."""
    b = np.int64(buffer[i])
    if b < 0x80:
        return b, 1
    if b < 0xE0:
        return (b & 0x1F) << 6 | buffer[i + 1] & 0x3F, 2
    if b < 0xF0:
        return (b & 0x0F) << 12 | np.int64(buffer[i + 1] & 0x3F) << 6 | buffer[i + 2] & 0x3F, 3
    return (
        (b & 0x07) << 18
        | np.int64(buffer[i + 1] & 0x3F) << 12
        | np.int64(buffer[i + 2] & 0x3F) << 6
        | buffer[i + 3] & 0x3F
    ), 4
