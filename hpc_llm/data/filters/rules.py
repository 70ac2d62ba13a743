"""The Gopher rules: from counts and thresholds to verdicts. Pure, and vectorized over a batch.

Each rule set is a list of (reason, mask) in the order in which FineWeb's code asks; the first that holds
for a document is its reason. A document on a threshold passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hpc_llm.config.schema import FiltersConfig, GopherQualityConfig, GopherRepetitionConfig
from hpc_llm.data.filters.features import DUP_N, TOP_N, Features

Mask = npt.NDArray[np.bool_]
Rules = list[tuple[str, Mask]]


def _ratio(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """part / whole, and 0 where there is no whole."""
    return part / np.maximum(whole, 1)


def gopher_repetition(f: Features, t: GopherRepetitionConfig) -> Rules:
    """Repetition removal of Rae et al. 2021 (arXiv 2112.11446, section A.1.1 and Table A1).

    Fractions of characters are of all characters of the text, as in FineWeb's implementation.
    """
    rules = [
        ("gopher_repetition/empty", f.chars == 0),
        (
            "gopher_repetition/dup_paragraph_fraction",
            _ratio(f.dup_paragraphs, f.paragraphs) > t.max_dup_paragraph_fraction,
        ),
        (
            "gopher_repetition/dup_paragraph_char_fraction",
            _ratio(f.dup_paragraph_chars, f.chars) > t.max_dup_paragraph_char_fraction,
        ),
        ("gopher_repetition/dup_line_fraction", _ratio(f.dup_pieces, f.pieces) > t.max_dup_line_fraction),
        (
            "gopher_repetition/dup_line_char_fraction",
            _ratio(f.dup_piece_chars, f.chars) > t.max_dup_line_char_fraction,
        ),
    ]
    for i, (n, bound) in enumerate(zip(TOP_N, t.max_top_ngram_char_fraction, strict=True)):
        rules.append((f"gopher_repetition/top_{n}_gram", _ratio(f.top_ngram_chars[:, i], f.chars) > bound))
    for i, (n, bound) in enumerate(zip(DUP_N, t.max_dup_ngram_char_fraction, strict=True)):
        rules.append((f"gopher_repetition/dup_{n}_gram", _ratio(f.dup_ngram_chars[:, i], f.chars) > bound))
    return rules


def gopher_quality(f: Features, t: GopherQualityConfig) -> Rules:
    """Quality filtering of Rae et al. 2021 (arXiv 2112.11446, section A.1.1).

    Words of nothing but punctuation do not count towards the number of words and their mean length
    (FineWeb); they do where a ratio is per word. Stop words: two different ones of the, be, to, of, and,
    that, have, with, in lower case.
    """
    mean_length = _ratio(f.plain_word_chars, f.plain_words)
    return [
        ("gopher_quality/short", f.plain_words < t.min_words),
        ("gopher_quality/long", f.plain_words > t.max_words),
        ("gopher_quality/short_words", mean_length < t.min_mean_word_length),
        ("gopher_quality/long_words", mean_length > t.max_mean_word_length),
        ("gopher_quality/hash_symbols", _ratio(f.hashes, f.words) > t.max_symbol_word_ratio),
        ("gopher_quality/ellipsis_symbols", _ratio(f.ellipses, f.words) > t.max_symbol_word_ratio),
        ("gopher_quality/bullet_lines", _ratio(f.bullet_lines, f.lines) > t.max_bullet_line_fraction),
        ("gopher_quality/ellipsis_lines", _ratio(f.ellipsis_lines, f.lines) > t.max_ellipsis_line_fraction),
        ("gopher_quality/non_alphabetic", _ratio(f.alpha_words, f.words) < t.min_alpha_word_fraction),
        ("gopher_quality/stop_words", f.stop_words < t.min_stop_words),
    ]


def gopher(f: Features, filters: FiltersConfig) -> Rules:
    """The enabled rule sets in FineWeb's order: repetition, then quality."""
    rules: Rules = []
    if filters.gopher_repetition.enabled:
        rules += gopher_repetition(f, filters.gopher_repetition)
    if filters.gopher_quality.enabled:
        rules += gopher_quality(f, filters.gopher_quality)
    return rules


def first_reason(rules: Sequence[tuple[str, Mask]], documents: int) -> list[str | None]:
    """For each document the reason of the first rule that holds, or None: it is kept."""
    first = np.full(documents, -1)
    for index in range(len(rules) - 1, -1, -1):
        first[rules[index][1]] = index
    return [rules[index][0] if index >= 0 else None for index in first]
