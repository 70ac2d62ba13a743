"""Every count that the Gopher rules need, from one compiled call over a batch of documents.

Dialect ``paper``: a word is a maximal run of characters that are not Unicode whitespace, as ``str.split``
has it. Lines of the quality rules are those of ``str.splitlines``; lines of the repetition rules are
separated by runs of newlines and paragraphs by runs of two or more, in the stripped text (Rae et al.
2021 leaves these open; FineWeb's choice is taken). Lengths are in characters, not bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpc_llm.data.filters import kernel, unicode

TOP_N = (2, 3, 4)
DUP_N = (5, 6, 7, 8, 9, 10)
SCALARS = 17
COLUMNS = SCALARS + len(TOP_N) + len(DUP_N)

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Features:
    """Counts of a batch, int64 of shape [documents] each, but for the two n-gram fields."""

    chars: Counts  # characters of the text
    words: Counts
    plain_words: Counts  # words with a character that is no symbol
    plain_word_chars: Counts
    hashes: Counts  # "#"
    ellipses: Counts  # "..." (not overlapping) and "…"
    lines: Counts  # of str.splitlines
    bullet_lines: Counts  # whose first character that is no space is • or -
    ellipsis_lines: Counts  # that end in "..." or "…" but for spaces
    alpha_words: Counts  # words with an alphabetic character
    stop_words: Counts  # how many different ones of the eight occur
    paragraphs: Counts
    dup_paragraphs: Counts  # occurrences behind the first
    dup_paragraph_chars: Counts
    pieces: Counts  # lines of the repetition rules
    dup_pieces: Counts
    dup_piece_chars: Counts
    top_ngram_chars: (
        Counts  # [documents, 3]: the most frequent n-gram's characters times its count, n = 2, 3, 4
    )
    dup_ngram_chars: Counts  # [documents, 6]: characters of repeated n-grams, taken greedily, n = 5 .. 10


def features(
    buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], repetition: bool = True
) -> Features:
    """Counts of the documents ``buffer[offsets[i]:offsets[i + 1]]``, each of which is valid UTF-8.

    Without `repetition` the counts from `paragraphs` on stay 0, and cost nothing.
    """
    out = np.zeros((len(offsets) - 1, COLUMNS), dtype=np.int64)
    longest = int(np.diff(offsets).max(initial=0))
    words = longest // 2 + 3  # at most, and two more
    slots = 1 << (4 * (longest + 8) - 1).bit_length()  # a table for as many words or lines
    # Only what a document fills of these is ever touched, and so backed by memory.
    word_hash, prefix, power, keys = (np.empty(n, dtype=np.uint64) for n in (words, words, words, slots))
    chars, counts, firsts = (np.empty(n, dtype=np.int64) for n in (words, slots, slots))
    kernel.count(
        buffer,
        offsets,
        unicode.flags(),
        repetition,
        out,
        word_hash,
        prefix,
        power,
        chars,
        keys,
        counts,
        firsts,
    )
    columns = [out[:, i] for i in range(SCALARS)]
    columns += [out[:, SCALARS : SCALARS + len(TOP_N)], out[:, SCALARS + len(TOP_N) :]]
    return Features(*columns)
