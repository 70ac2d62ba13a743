"""MinHash band keys of documents (Broder 1997; banding: Leskovec et al., Mining of Massive Datasets, 3.4).

The shingles of a document are its sequences of `ngram` consecutive normalised words, hashed to 64 bits. Each
of ``bands * rows`` permutations ``x -> a*x + b mod 2**64`` (a odd) keeps its minimum over the shingles, and
the `rows` minima of one band are hashed to one key. Two documents with Jaccard similarity s share a band's
key with probability s**rows, and at least one with ``1 - (1 - s**rows)**bands``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from hpc_llm.data.dedup.normalize import DEFINITION, mix, tables, word_hashes


@dataclass(frozen=True)
class MinHash:
    """The parameters that make two signatures comparable.

    Raises ValueError when `ngram`, `bands` or `rows` is below 1.
    """

    ngram: int = 5
    bands: int = 14
    rows: int = 8
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("ngram", "bands", "rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"dedup.minhash.{name}={getattr(self, name)}: must be at least 1")

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "definition": DEFINITION}

    def recall(self, similarity: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Probability that two documents of that Jaccard similarity share a band key."""
        s = np.asarray(similarity, dtype=np.float64)
        return 1 - (1 - s**self.rows) ** self.bands

    def keys(
        self, buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Band keys of a column of UTF-8 documents.

        Returns ``(keys, signed)``: uint64 of shape (documents, bands), and whether the document has any
        word: one without has no keys. A document of fewer than `ngram` words is one shingle, all of it.
        """
        a, b = _permutations(self.bands * self.rows, self.seed)
        documents = len(offsets) - 1
        keys = np.zeros((documents, self.bands), dtype=np.uint64)
        signed = np.zeros(documents, dtype=np.bool_)
        longest = int(np.diff(offsets).max(initial=0))
        words = np.empty(longest // 2 + 1, dtype=np.uint64)
        _sign(buffer, offsets, self.ngram, self.rows, a, b, *tables(), words, keys, signed)
        return keys, signed


@lru_cache
def _permutations(count: int, seed: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    generator = np.random.Generator(np.random.PCG64(seed))
    a, b = generator.integers(0, 2**64, size=(2, count), dtype=np.uint64)
    return a | np.uint64(1), b


_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@numba.njit(nogil=True, cache=True)
def _sign(  # type: ignore[no-untyped-def]
    data, offsets, ngram, rows, a, b, first, length, values, words, keys, signed
):
    minima = np.empty(len(a), dtype=np.uint64)
    for document in range(len(offsets) - 1):
        count = word_hashes(data, offsets[document], offsets[document + 1], first, length, values, words)
        if count == 0:
            continue
        signed[document] = True
        minima[:] = np.uint64(0xFFFFFFFFFFFFFFFF)
        width = min(ngram, count)
        for start in range(count - width + 1):
            shingle = np.uint64(width)
            for k in range(start, start + width):
                shingle = (shingle ^ words[k]) * _MULTIPLIER
                shingle ^= shingle >> np.uint64(32)
            shingle = mix(shingle)
            for p in range(len(a)):
                minima[p] = min(minima[p], a[p] * shingle + b[p])
        for band in range(keys.shape[1]):
            key = np.uint64(band)
            for p in range(band * rows, (band + 1) * rows):
                key = mix(key ^ minima[p])
            keys[document, band] = key
