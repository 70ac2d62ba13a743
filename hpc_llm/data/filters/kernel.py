"""The compiled part of `features`: words, lines, repeated units and n-grams of documents, without the GIL.

Repeated units are found by 64-bit hashes. That of words i..j written without spaces comes from prefix
values of one polynomial over the document, so every n costs one multiplication a position.
All of it stands in one file: numba's cache follows the file of the entry point, not of what it calls.
"""

from __future__ import annotations

import numba
import numpy as np

from hpc_llm.data.filters.unicode import ALPHA, BREAK, READ_BYTES, READ_OFFSETS, SPACE, SYMBOL, decode

_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so it has an inverse modulo 2**64
_INVERSE = np.uint64(pow(int(_BASE), -1, 1 << 64))
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S1, _S2, _S3 = np.uint64(30), np.uint64(27), np.uint64(31)
_ONE = np.uint64(1)
_TOP = np.uint64(1 << 63)  # set in every key, so that none is 0: the mark of a free slot

# Powers of the base by the length of a word in bytes.
_LENGTHS = 64
_POWERS = np.array([pow(int(_BASE), k, 1 << 64) for k in range(_LENGTHS)], dtype=np.uint64)
_INVERSES = np.array([pow(int(_INVERSE), k, 1 << 64) for k in range(_LENGTHS)], dtype=np.uint64)


@numba.njit(nogil=True)
def _mix(x):  # type: ignore[no-untyped-def]
    """Finalizer of splitmix64 (Steele et al. 2014): the low bits of a product hash need it."""
    x = (x ^ (x >> _S1)) * _M1
    x = (x ^ (x >> _S2)) * _M2
    return x ^ (x >> _S3)


@numba.njit(nogil=True)
def _slot(keys, mask, key):  # type: ignore[no-untyped-def]
    """Index of `key`, not 0, in an open-addressing table whose free slots hold 0, or of the slot for it."""
    slot = key & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + _ONE) & mask
    return slot


@numba.njit(nogil=True)
def _empty_table(keys, entries):  # type: ignore[no-untyped-def]
    """Clear as much of `keys` as holds `entries` a quarter full; returns the mask of its slots."""
    size = 16
    while size < 4 * entries:
        size *= 2
    keys[:size] = 0
    return np.uint64(size - 1)


@numba.njit(nogil=True)
def _chars(buffer, start, end):  # type: ignore[no-untyped-def]
    """Characters in bytes that begin and end with one: all bytes but the continuations."""
    count = 0
    for i in range(start, end):
        count += (buffer[i] & 0xC0) != 0x80
    return count


@numba.njit(nogil=True)
def _hash(buffer, start, end):  # type: ignore[no-untyped-def]
    """64-bit hash of bytes, eight at a step."""
    hashed = np.uint64(end - start) * _M1  # spread, or a length could cancel a short text: "" and "\\x01"
    i = start
    while i + 8 <= end:
        word = np.uint64(buffer[i])
        for k in range(1, 8):
            word |= np.uint64(buffer[i + k]) << np.uint64(8 * k)
        hashed = (hashed ^ word) * _BASE
        hashed ^= hashed >> _S1
        i += 8
    word = np.uint64(0)
    while i < end:
        word = word << np.uint64(8) | np.uint64(buffer[i])
        i += 1
    return _mix((hashed ^ word) * _BASE)


@numba.njit(nogil=True)
def _duplicates(buffer, start, end, min_run, keys, mask):  # type: ignore[no-untyped-def]
    """Units between runs of at least `min_run` newlines: how many, repeated ones, characters of those."""
    units = repeated = repeated_chars = 0
    first = i = start  # of the unit under way; where to look for its end
    while True:
        while i < end and buffer[i] != 10:
            i += 1
        behind = i
        while behind < end and buffer[behind] == 10:
            behind += 1
        if behind - i >= min_run or i == end:
            key = _hash(buffer, first, i) | _TOP
            slot = _slot(keys, mask, key)
            units += 1
            if keys[slot] == key:
                repeated += 1
                repeated_chars += _chars(buffer, first, i)
            keys[slot] = key
            first = behind
        if i == end:
            return units, repeated, repeated_chars
        i = behind


@numba.njit(nogil=True)
def _top_ngram_chars(word_hash, chars, words, n, keys, counts, firsts, mask):  # type: ignore[no-untyped-def]
    """Characters, spaces included, of the most frequent n-gram times its count; of equals the first seen."""
    best, best_first = 0, 0
    for i in range(words - n + 1):
        key = word_hash[i]
        for j in range(1, n):
            key = (key ^ (key >> _S3)) * _M1 + word_hash[i + j]
        key = (key ^ (key >> _S1)) | _TOP
        slot = _slot(keys, mask, key)
        if keys[slot] == key:
            counts[slot] += 1
        else:
            keys[slot], counts[slot], firsts[slot] = key, 1, i
        if counts[slot] > best or (counts[slot] == best and firsts[slot] < best_first):
            best, best_first = counts[slot], firsts[slot]
    if best == 0:
        return 0
    return best * (chars[best_first + n] - chars[best_first] + n - 1)


@numba.njit(nogil=True)
def _dup_ngram_chars(prefix, power, chars, words, n, keys, mask):  # type: ignore[no-untyped-def]
    """Characters, without spaces, of n-grams seen before; a repeated one is stepped over whole."""
    total = 0
    i = 0
    while i <= words - n:
        key = _mix((prefix[i + n] - prefix[i]) * power[i + n]) | _TOP
        slot = _slot(keys, mask, key)
        if keys[slot] == key:
            total += chars[i + n] - chars[i]
            i += n
        else:
            keys[slot] = key
            i += 1
    return total


@numba.njit(nogil=True)
def _stop_word(buffer, start, end):  # type: ignore[no-untyped-def]
    """Bit of the stop word in these bytes, or 0: the, be, to, of, and, that, have, with."""
    size = end - start
    if size < 2 or size > 4:
        return 0
    code = 0
    for i in range(start, end):
        code = code << 8 | buffer[i]
    if size == 2:
        return (code == 0x6265) | (code == 0x746F) << 1 | (code == 0x6F66) << 2
    if size == 3:
        return (code == 0x746865) << 3 | (code == 0x616E64) << 4
    return (code == 0x74686174) << 5 | (code == 0x68617665) << 6 | (code == 0x77697468) << 7


@numba.njit(nogil=True)
def _ends_in_ellipsis(buffer, start, end):  # type: ignore[no-untyped-def]
    if end - start < 3:
        return False
    a, b, c = buffer[end - 3], buffer[end - 2], buffer[end - 1]
    return (a == 46 and b == 46 and c == 46) or (a == 0xE2 and b == 0x80 and c == 0xA6)


@numba.njit(nogil=True)
def _scan(buffer, start, end, flags, out, word_hash, prefix, power, chars):  # type: ignore[no-untyped-def]
    """Words and lines of one document; returns where its stripped text begins and ends.

    Fills, for word k and one past the last: `power` BASE**(bytes of words before), `prefix` the
    polynomial of those bytes divided by that power, `chars` their characters.
    """
    scale, shrink, poly = _ONE, _ONE, np.uint64(0)
    prefix[0], power[0], chars[0] = np.uint64(0), _ONE, 0
    stripped_start, stripped_end = start, start
    words = plain = plain_chars = alpha = hashes = ellipses = lines = bullets = ellipsis_lines = stops = 0
    word_start, word_chars, seen = -1, 0, 0  # `seen`: ALPHA, and 1 for a character that is no symbol
    line_start, line_first, line_last, line_word = start, -1, start, start  # its first character, last word
    last_dot, dots = -2, 0
    i = start
    while i <= end:
        point, width, flag = 10, 1, SPACE | BREAK  # behind the end: closes the last word and line
        if i < end:
            point, width = decode(buffer, i)
            flag = flags[point]
        if not flag & SPACE:
            if word_start < 0:
                word_start, word_chars, seen = i, 0, 0
                if line_first < 0:
                    line_first = point
            word_chars += 1
            seen |= (flag & ALPHA) | ((flag & SYMBOL) == 0)
            if flag & SYMBOL:
                hashes += point == 35
                ellipses += point == 0x2026
                if point == 46:
                    dots = dots + 1 if last_dot == i - 1 else 1
                    last_dot = i
                    if dots == 3:
                        ellipses += 1
                        dots = 0
            i += width
            continue
        if word_start >= 0:
            hashed = np.uint64(0)
            for j in range(word_start, i):
                hashed = hashed * _BASE + np.uint64(buffer[j]) + _ONE
            length = i - word_start
            word_hash[words] = _mix(hashed + np.uint64(length))
            while length >= _LENGTHS:
                scale = scale * _POWERS[_LENGTHS - 1]
                shrink = shrink * _INVERSES[_LENGTHS - 1]
                length -= _LENGTHS - 1
            scale = scale * _POWERS[length]
            shrink = shrink * _INVERSES[length]
            poly = poly + hashed * shrink
            if words == 0:
                stripped_start = word_start
            words += 1
            prefix[words], power[words] = poly, scale
            chars[words] = chars[words - 1] + word_chars
            if seen & 1:
                plain += 1
                plain_chars += word_chars
            alpha += (seen & ALPHA) != 0
            stops |= _stop_word(buffer, word_start, i)
            line_last, line_word = i, word_start
            stripped_end = i
            word_start = -1
        if flag & BREAK:
            if point == 13 and i + 1 < end and buffer[i + 1] == 10:
                i += 1
            if i < end or line_start < end:
                lines += 1
                bullets += line_first == 0x2022 or line_first == 45
                ellipsis_lines += _ends_in_ellipsis(buffer, line_word, line_last)
            line_start, line_first, line_last, line_word = i + width, -1, i, i
        i += width
    distinct = 0
    for bit in range(8):
        distinct += (stops >> bit) & 1
    out[0], out[1], out[2], out[3], out[4] = _chars(buffer, start, end), words, plain, plain_chars, hashes
    out[5], out[6], out[7], out[8], out[9], out[10] = (
        ellipses,
        lines,
        bullets,
        ellipsis_lines,
        alpha,
        distinct,
    )
    return stripped_start, stripped_end


_U, _I = numba.uint64[::1], numba.int64[::1]


@numba.njit(
    numba.void(
        READ_BYTES, READ_OFFSETS, READ_BYTES, numba.boolean, numba.int64[:, ::1], _U, _U, _U, _I, _U, _I, _I
    ),
    nogil=True,
    cache=True,
)
def count(  # type: ignore[no-untyped-def]
    buffer, offsets, flags, repetition, out, word_hash, prefix, power, chars, keys, counts, firsts
):
    """Fill `out`, a row a document, a column a count of `features.Features`; the rest is scratch."""
    for d in range(len(offsets) - 1):
        start, end = offsets[d], offsets[d + 1]
        row = out[d]
        text_start, text_end = _scan(buffer, start, end, flags, row, word_hash, prefix, power, chars)
        if not repetition:
            continue
        newlines = 0
        for i in range(start, end):
            newlines += buffer[i] == 10
        mask = _empty_table(keys, newlines + 2)
        row[11], row[12], row[13] = _duplicates(buffer, text_start, text_end, 2, keys, mask)
        _empty_table(keys, newlines + 2)
        row[14], row[15], row[16] = _duplicates(buffer, start, end, 1, keys, mask)
        words = row[1]
        for n in range(2, 5):
            mask = _empty_table(keys, words)
            row[15 + n] = _top_ngram_chars(word_hash, chars, words, n, keys, counts, firsts, mask)
        for n in range(5, 11):
            mask = _empty_table(keys, words)
            row[15 + n] = _dup_ngram_chars(prefix, power, chars, words, n, keys, mask)
