"""Documents to token ids: the library's ids, whatever path computes them."""

from __future__ import annotations

import json

import numba
import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from hpc_llm.data.documents import strings
from hpc_llm.data.tokens import bpe, pretokens

Tokens = npt.NDArray[np.integer]
Offsets = npt.NDArray[np.int64]

_MAX_ENTRIES = 2_000_000  # distinct pre-tokens kept between batches
_MAX_TEXT = 256_000_000  # and their bytes


def is_gpt2_scheme(tokenizer: Tokenizer) -> bool:
    """Whether text is cut by GPT-2's expression, each piece encoded by BPE on its own, and nothing else."""
    config = json.loads(tokenizer.to_str())
    cut = config["pre_tokenizer"] or {}
    return (
        config["normalizer"] is None
        and cut.get("type") == "ByteLevel"
        and cut.get("use_regex", True)
        and not cut["add_prefix_space"]
        and config["model"]["type"] == "BPE"
        and not config["model"]["dropout"]
        and all(token["special"] for token in config["added_tokens"])
    )


class Encoder:
    """Encodes columns of documents with the tokenizer of `bpe.load`, each document followed by end-of-text.

    With GPT-2's scheme, pre-tokens are looked up in a table that the library fills; other tokenizers go
    through the library as a whole, several times slower. Memory of the table is bounded.
    """

    def __init__(self, tokenizer: Tokenizer, dtype: np.dtype[np.integer]) -> None:
        self._tokenizer = tokenizer
        self._dtype = dtype
        self._end = tokenizer.token_to_id(bpe.END_OF_TEXT)
        self._fast = is_gpt2_scheme(tokenizer)
        self._reset()

    def _reset(self) -> None:
        self._table = pretokens.Table()
        self._ids = np.zeros(0, dtype=self._dtype)
        self._starts = np.zeros(1, dtype=np.int64)  # ids of entry e: _ids[_starts[e] : _starts[e + 1]]

    def encode(self, buffer: npt.NDArray[np.uint8], offsets: Offsets) -> tuple[Tokens, Offsets]:
        """Token ids of documents (`documents.utf8`) end to end, and the length of each, int64."""
        if not self._fast:
            ids, starts = self._library(strings(buffer, offsets).to_pylist())
            return _with_end(ids, starts, np.arange(len(starts) - 1), np.ones_like(starts[1:]), self._end)
        if self._table.count > _MAX_ENTRIES or self._table.bytes > _MAX_TEXT:
            self._reset()
        known = self._table.count
        entries, counts = self._table.number(buffer, offsets)
        self._learn(known)
        return _with_end(self._ids, self._starts, entries, counts, self._end)

    def _learn(self, known: int) -> None:
        """Encode the entries of the table from `known` on, each as a text of its own."""
        if known == self._table.count:
            return
        ids, starts = self._library(strings(*self._table.entries_from(known)).to_pylist())
        self._ids = np.concatenate([self._ids, ids])
        self._starts = np.concatenate([self._starts, self._starts[-1] + starts[1:]])

    def _library(self, texts: list[str]) -> tuple[Tokens, Offsets]:
        """Ids end to end and where each text's start, int64 of length texts + 1."""
        parts = [e.ids for e in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        ids = np.fromiter((i for part in parts for i in part), dtype=self._dtype, count=starts[-1])
        return ids, starts


@numba.njit(nogil=True, cache=True)
def _with_end(ids, starts, entries, counts, end):  # type: ignore[no-untyped-def]
    """Documents of ``counts[i]`` entries each, with `end` behind each, and their lengths in tokens."""
    lengths = np.ones(len(counts), dtype=np.int64)
    at = 0
    for document in range(len(counts)):
        for entry in entries[at : at + counts[document]]:
            lengths[document] += starts[entry + 1] - starts[entry]
        at += counts[document]
    out = np.empty(lengths.sum(), dtype=ids.dtype)
    at = written = 0
    for document in range(len(counts)):
        for entry in entries[at : at + counts[document]]:
            for k in range(starts[entry], starts[entry + 1]):
                out[written] = ids[k]
                written += 1
        out[written] = end
        written += 1
        at += counts[document]
    return out, lengths
