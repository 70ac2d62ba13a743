"""The line and document rules of C4 (Raffel et al. 2020, arXiv 1910.10683, section 2.2).

Lines are those of ``str.splitlines``, stripped; words are separated by whitespace; the order of the tests
is that of the published code (tensorflow/datasets, text/c4_utils.py) as FineWeb runs it: a line is
dropped for a word that is too long, a missing terminal mark, too few words, "javascript" or a policy
phrase; the document for "lorem ipsum" or "{" on a line that stands until then, or for too few sentences.

Sentences are counted by a rule instead of a trained tokenizer: one begins with a character that is
neither space, terminal mark nor closing quote or bracket, and ends with terminal marks (. ? ! …), any
closers and a space, at a full-width mark (。！？), or with its line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpc_llm.config.schema import C4Config
from hpc_llm.data.filters import c4_kernel, unicode
from hpc_llm.data.filters.c4_kernel import CURLY, JAVASCRIPT, LOREM, POLICY

REASONS = (None, "c4/lorem_ipsum", "c4/curly_bracket", "c4/too_few_sentences", "c4/empty")


@dataclass(frozen=True)
class Cleaned:
    """Verdicts and texts of a batch."""

    verdicts: npt.NDArray[np.int8]  # index into REASONS; 0: kept
    buffer: npt.NDArray[np.uint8]  # UTF-8 of the lines that stay
    offsets: npt.NDArray[np.int64]  # document i is buffer[offsets[i]:offsets[i + 1]], empty where dropped
    lines_removed: int  # from the documents that are kept


def clean(
    buffer: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    skip: npt.NDArray[np.bool_],
    config: C4Config,
) -> Cleaned:
    """Apply the rules to the documents ``buffer[offsets[i]:offsets[i + 1]]`` for which `skip` is False."""
    out = np.empty(int(offsets[-1] - offsets[0]), dtype=np.uint8)
    out_offsets = np.zeros(len(offsets), dtype=np.int64)
    verdicts = np.zeros(len(offsets) - 1, dtype=np.int8)
    fatal = LOREM * config.drop_lorem_ipsum | CURLY * config.drop_curly_bracket
    removing = JAVASCRIPT * config.drop_javascript_lines | POLICY * config.drop_policy_lines
    longest = config.max_word_length if config.max_word_length > 0 else np.iinfo(np.int64).max
    removed = c4_kernel.clean(
        buffer,
        offsets,
        skip,
        unicode.flags(),
        np.array(
            [
                longest,
                config.min_words_per_line,
                config.min_sentences,
                config.require_terminal_punctuation,
                config.remove_citations,
                fatal,
                removing,
            ],
            dtype=np.int64,
        ),
        out,
        out_offsets,
        verdicts,
    )
    return Cleaned(verdicts, out[: out_offsets[-1]], out_offsets, int(removed))
