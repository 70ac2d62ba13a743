"""Places in UTF-8 text where an e-mail or IP address or phone number could be: one pass, no backtracking.

A compiled scan over the bytes finds them; what each is gets decided in `detect`, which looks a bounded number
of bytes around each. So the work grows with the text and never with its square.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

AT, QUAD, GROUP6, PLUS, NANP = range(5)  # kinds

_DIGIT, _HEX, _WORD, _LOCAL = 1, 2, 4, 8  # classes of bytes


def _classes() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, dtype=np.uint8)
    for byte in range(256):
        character = chr(byte)
        if byte < 128 and (character.isalnum() or character == "_"):
            table[byte] |= _WORD
        if byte < 128 and character.isdigit():
            table[byte] |= _DIGIT
        if character in "0123456789abcdefABCDEF":
            table[byte] |= _HEX
        if table[byte] & _WORD or byte >= 0x80 or character in ".%+-'":
            table[byte] |= _LOCAL
    return table


_CLASSES = _classes()


def find(buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Anchors of a column of documents, in order.

    Returns int64 of shape (anchors, 3): document, byte position in `buffer`, kind. The position is that of
    the ``@`` (AT), the first digit of a dotted quad (QUAD), the first digit of an IPv6 address in 2000::/3
    (GROUP6), the ``+`` (PLUS), the first digit of an area code (NANP).
    """
    out = np.empty((1024, 3), dtype=np.int64)
    while (count := _find(buffer, offsets, _CLASSES, out)) > len(out):
        out = np.empty((count, 3), dtype=np.int64)
    return out[:count]


@numba.njit(nogil=True, cache=True)
def _find(data, offsets, classes, out):  # type: ignore[no-untyped-def]
    """Fill `out` as far as it goes; returns how many anchors there are."""
    count = 0
    for document in range(len(offsets) - 1):
        start, end = offsets[document], offsets[document + 1]
        for at in range(start, end):
            byte = data[at]
            kind = -1
            if byte == ord("@"):
                if (
                    at > start
                    and at + 1 < end
                    and classes[data[at - 1]] & _LOCAL
                    and classes[data[at + 1]] & _WORD
                ):
                    kind = AT
            elif byte == ord("+"):
                if at + 1 < end and ord("1") <= data[at + 1] <= ord("9"):
                    kind = PLUS
            elif classes[byte] & _DIGIT and (at == start or not classes[data[at - 1]] & _WORD):
                digits = 1
                while digits < 4 and at + digits < end and classes[data[at + digits]] & _DIGIT:
                    digits += 1
                follows = data[at + digits] if at + digits < end else ord("\n")
                if follows == ord(".") and digits < 4 and _is_quad(data, classes, at, end):
                    kind = QUAD
                elif digits == 3 and _is_nanp(data, classes, at, end):
                    kind = NANP
                elif (byte == ord("2") or byte == ord("3")) and _is_group6(data, classes, at, end):
                    kind = GROUP6
            if kind >= 0:
                if count < len(out):
                    out[count, 0], out[count, 1], out[count, 2] = document, at, kind
                count += 1
    return count


@numba.njit(nogil=True, cache=True)
def _is_quad(data, classes, at, end):  # type: ignore[no-untyped-def]
    """Four groups of one to three digits between dots."""
    for group in range(4):
        digits = 0
        while at < end and classes[data[at]] & _DIGIT:
            digits += 1
            at += 1
            if digits > 3:
                return False
        if digits == 0:
            return False
        if group < 3:
            if at >= end or data[at] != ord("."):
                return False
            at += 1
    return True


@numba.njit(nogil=True, cache=True)
def _is_group6(data, classes, at, end):  # type: ignore[no-untyped-def]
    """Four hexadecimal digits and a colon."""
    if at + 4 >= end or data[at + 4] != ord(":"):
        return False
    hexadecimal = 0
    for k in range(4):
        hexadecimal += (classes[data[at + k]] & _HEX) != 0
    return hexadecimal == 4


@numba.njit(nogil=True, cache=True)
def _is_nanp(data, classes, at, end):  # type: ignore[no-untyped-def]
    """Area code, one or two separators, three digits, separator, digit."""
    at += 3
    separators = 0
    while at < end and separators < 2 and not classes[data[at]] & _WORD:
        separators += 1
        at += 1
    if separators == 0 or at + 4 >= end:
        return False
    for k in range(3):
        if not classes[data[at + k]] & _DIGIT:
            return False
    return not classes[data[at + 3]] & _WORD and bool(classes[data[at + 4]] & _DIGIT)
