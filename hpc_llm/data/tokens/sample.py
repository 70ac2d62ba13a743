"""Choosing documents by a hash of their ids: the same ones however the corpus is cut into shards."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash


def id_hashes(ids: Sequence[str], seed: int) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each document id (xxh3), uniform over uint64."""
    seed &= 2**64 - 1
    return np.fromiter((xxhash.xxh3_64_intdigest(i.encode(), seed) for i in ids), np.uint64, len(ids))


class Sample:
    """The documents of smallest id hash that hold at least `size` (1 or more) UTF-8 bytes, in one pass.

    Which ones does not depend on the order in which they are offered. Memory: `size` bytes and one document.
    """

    def __init__(self, size: int) -> None:
        assert size > 0
        self._size = size
        self._bytes = 0
        self._heap: list[tuple[int, bytes]] = []  # (-hash, text): the next to go is first

    def __len__(self) -> int:
        return len(self._heap)

    def wants(self, key: int) -> bool:
        """Whether a document whose id hashes to `key` would be taken."""
        return self._bytes < self._size or key <= -self._heap[0][0]

    def offer(self, key: int, text: bytes) -> None:
        """Consider the document `text` (UTF-8) whose id hashes to `key`."""
        heapq.heappush(self._heap, (-key, text))
        self._bytes += len(text)
        while self._bytes - len(self._heap[0][1]) >= self._size:
            self._bytes -= len(heapq.heappop(self._heap)[1])

    def texts(self) -> list[str]:
        """The chosen texts, by ascending hash."""
        return [text.decode() for _, text in sorted(self._heap, reverse=True)]
