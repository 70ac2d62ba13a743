"""The compiled part of `c4`: lines cut, cleaned and judged, without the GIL."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from hpc_llm.data.filters.unicode import BREAK, DIGIT, READ_BYTES, READ_OFFSETS, SPACE, decode

LOREM, JAVASCRIPT, CURLY, POLICY = 1, 2, 4, 8
_SEARCHED = (
    (b"lorem ipsum", LOREM),
    (b"javascript", JAVASCRIPT),
    (b"terms of use", POLICY),
    (b"privacy policy", POLICY),
    (b"cookie policy", POLICY),
    (b"uses cookies", POLICY),
    (b"use of cookies", POLICY),
    (b"use cookies", POLICY),
)
_PHRASES = np.frombuffer(b"".join(phrase for phrase, _ in _SEARCHED), dtype=np.uint8)
_PHRASE_ENDS = np.cumsum([0, *(len(phrase) for phrase, _ in _SEARCHED)])
_PHRASE_BITS = np.array([bit for _, bit in _SEARCHED])


def _letters(place: int) -> npt.NDArray[np.uint8]:
    """For each byte the phrases, one bit each, whose letter at `place` it is in either case."""
    table = np.zeros(256, dtype=np.uint8)
    for bit, (phrase, _) in enumerate(_SEARCHED):
        table[[phrase[place], phrase[place] - 32]] |= 1 << bit
    return table


_STARTS, _SECONDS = _letters(0), _letters(1)
_CITATIONS = np.frombuffer(b"[edit][citation needed]", dtype=np.uint8)


@numba.njit(nogil=True)
def _citation(buffer, i, end, flags):  # type: ignore[no-untyped-def]
    r"""Bytes of ``\[\d*]|\[edit]|\[citation needed]`` at i, or 0."""
    j = i + 1
    while j < end:
        point, width = decode(buffer, j)
        if not flags[point] & DIGIT:
            break
        j += width
    if j < end and buffer[j] == 93:
        return j + 1 - i
    for start, stop in ((0, 6), (6, 23)):
        if end - i >= stop - start:
            same = True
            for k in range(stop - start):
                same &= buffer[i + k] == _CITATIONS[start + k]
            if same:
                return stop - start
    return 0


@numba.njit(nogil=True)
def _matches(text, i, end, phrase):  # type: ignore[no-untyped-def]
    """Whether the lower-case form of text[i:end] begins with that phrase, in lower-case ASCII."""
    for k in range(_PHRASE_ENDS[phrase], _PHRASE_ENDS[phrase + 1]):
        if i >= end:
            return False
        b, c = text[i], _PHRASES[k]
        if 65 <= b <= 90:
            b |= 32
        if b == c:
            i += 1
        elif c == 107 and i + 2 < end and b == 0xE2 and text[i + 1] == 0x84 and text[i + 2] == 0xAA:
            i += 3  # U+212A, the Kelvin sign, is the one other character that lowers to ASCII: to "k"
        else:
            return False
    return True


@numba.njit(nogil=True)
def _found(text, start, end):  # type: ignore[no-untyped-def]
    """Bits of what the line holds: the searched phrases and "{"."""
    bits = 0
    for i in range(start, end):
        b = text[i]
        if b == 123:
            bits |= CURLY
        elif _STARTS[b] and i + 1 < end and _SECONDS[text[i + 1]] & _STARTS[b]:
            for phrase in range(len(_PHRASE_BITS)):
                if _matches(text, i, end, phrase):
                    bits |= _PHRASE_BITS[phrase]
    return bits


@numba.njit(nogil=True)
def _sentences(text, start, end, flags):  # type: ignore[no-untyped-def]
    count, inside, ending = 0, False, False
    i = start
    while i < end:
        point, width = decode(text, i)
        i += width
        if point == 0x3002 or point == 0xFF01 or point == 0xFF1F:
            inside = False
        elif point == 46 or point == 63 or point == 33 or point == 0x2026:
            ending = True
        elif flags[point] & SPACE:
            if ending:
                inside = False
            ending = False
        elif not (
            point == 34 or point == 39 or point == 41 or point == 93 or point == 125  # " ' ) ] }
            or point == 0x201D or point == 0x2019 or point == 0xBB  # ” ’ »
        ):  # fmt: skip
            if not inside:
                count += 1
            inside, ending = True, False
    return count


@numba.njit(nogil=True)
def _terminal(text, start, end):  # type: ignore[no-untyped-def]
    """Whether the line ends in . ? ! " or ' and not in an ellipsis."""
    if start == end:
        return False
    last = text[end - 1]
    if last == 46:
        return not (end - start >= 3 and text[end - 2] == 46 and text[end - 3] == 46)
    return last == 63 or last == 33 or last == 34 or last == 39


@numba.njit(nogil=True)
def _line(buffer, i, end, flags):  # type: ignore[no-untyped-def]
    """The line at i: where its stripped text begins and ends, where the next begins, words, longest word."""
    first, last, words, longest, length = -1, i, 0, 0, 0
    while i < end:
        point, width = decode(buffer, i)
        flag = flags[point]
        i += width
        if flag & SPACE:
            longest = max(longest, length)
            length = 0
            if flag & BREAK:
                if point == 13 and i < end and buffer[i] == 10:
                    i += 1
                break
        else:
            if first < 0:
                first = i - width
            words += length == 0
            length += 1
            last = i
    if first < 0:
        first = last
    return first, last, i, words, max(longest, length)


@numba.njit(nogil=True)
def _strip(text, start, end, flags):  # type: ignore[no-untyped-def]
    """Move the stripped text to `start`; returns its new end."""
    first = start
    while first < end:
        point, width = decode(text, first)
        if not flags[point] & SPACE:
            break
        first += width
    while end > first:
        last = end - 1
        while text[last] & 0xC0 == 0x80:
            last -= 1
        point, _ = decode(text, last)
        if not flags[point] & SPACE:
            break
        end = last
    if first > start:
        for k in range(end - first):
            text[start + k] = text[first + k]
    return start + end - first


@numba.njit(
    numba.int64(
        READ_BYTES,
        READ_OFFSETS,
        numba.types.Array(numba.boolean, 1, "C", readonly=True),
        READ_BYTES,
        READ_OFFSETS,
        numba.uint8[::1],
        numba.int64[::1],
        numba.int8[::1],
    ),
    nogil=True,
    cache=True,
)
def clean(buffer, offsets, skip, flags, knobs, out, out_offsets, verdicts):  # type: ignore[no-untyped-def]
    max_word, min_words, min_sentences, need_terminal, citations, fatal, removing = knobs
    total_removed = 0
    at = 0  # bytes written
    for d in range(len(offsets) - 1):
        begin = at
        i, end = offsets[d], offsets[d + 1]
        kept = removed = sentences = 0
        verdict = 0
        while i < end and not skip[d]:
            first, last, i, words, longest = _line(buffer, i, end, flags)
            removed += 1
            if longest > max_word:
                continue
            mark = at
            if kept:
                out[at] = 10
                at += 1
            start = at
            j = first
            while j < last:
                size = _citation(buffer, j, last, flags) if citations and buffer[j] == 91 else 0
                if size:
                    j += size
                else:
                    out[at] = buffer[j]
                    at += 1
                    j += 1
            if (need_terminal and not _terminal(out, start, at)) or words < min_words:
                at = mark
                continue
            bits = _found(out, start, at)
            if bits & fatal & LOREM:
                verdict = 1
                break
            if bits & removing & JAVASCRIPT:
                at = mark
                continue
            if bits & fatal & CURLY:
                verdict = 2
                break
            if bits & removing & POLICY:
                at = mark
                continue
            sentences += _sentences(out, start, at, flags)
            kept += 1
            removed -= 1
        if verdict == 0 and not skip[d]:
            at = _strip(out, begin, at, flags)
            if sentences < min_sentences:
                verdict = 3
            elif at == begin:
                verdict = 4
        if verdict or skip[d]:
            at = begin
        else:
            total_removed += removed
        verdicts[d] = verdict
        out_offsets[d + 1] = at
    return total_removed
