"""Fixed-length samples out of token files, and the order in which training sees them.

Data order is a pure function of (seed, global sample index): it knows neither ranks nor restarts, so a
resumed run, or one on another layout, reads what the uninterrupted one would have read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hpc_llm.data.tokens.indexed import Reader


class PackedDataset:
    """The documents of all files as one stream of tokens, cut into samples.

    paths
        ``.bin`` files in shard order, each with its ``.idx`` beside it.
    sequence_length
        Inputs of one sample.

    Sample i is tokens ``[i * L, i * L + L + 1)`` of the stream: L inputs, and the targets one further. So
    every token is an input once, except at most L at the end of the stream. Raises ValueError when the
    stream is too short for one sample.
    """

    def __init__(self, paths: Sequence[Path], sequence_length: int) -> None:
        if sequence_length < 1:
            raise ValueError(f"sequence_length={sequence_length}: must be at least 1")
        self.sequence_length = sequence_length
        self._streams = [reader.tokens for reader in map(Reader, paths)]
        self._starts = np.cumsum([0, *map(len, self._streams)], dtype=np.int64)
        self.tokens = int(self._starts[-1])
        self._samples = max(self.tokens - 1, 0) // sequence_length
        if not self._samples:
            raise ValueError(
                f"{self.tokens} tokens in {len(paths)} files: too few for one sample of "
                f"{sequence_length} tokens and its targets"
            )

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> npt.NDArray[np.int64]:
        """Token ids of sample `index`, int64 of length L + 1. Raises IndexError outside 0 .. len - 1."""
        if not 0 <= index < self._samples:
            raise IndexError(f"sample {index} of {self._samples}")
        out = np.empty(self.sequence_length + 1, dtype=np.int64)
        position = index * self.sequence_length
        shard = int(np.searchsorted(self._starts, position, side="right")) - 1
        filled = 0
        while filled < len(out):
            part = self._streams[shard][position - self._starts[shard] :][: len(out) - filled]
            out[filled : filled + len(part)] = part
            filled, position, shard = filled + len(part), position + len(part), shard + 1
        return out


@dataclass(frozen=True)
class Order:
    """Global sample index to (epoch, sample of the dataset). Each epoch is a new permutation of them all."""

    samples: int
    seed: int

    def __getitem__(self, index: int) -> tuple[int, int]:
        epoch, within = divmod(index, self.samples)
        return epoch, int(permute(within, self.samples, _key(self.seed, epoch)))


_ROUNDS = 8
_MASK = (1 << 64) - 1


def permute(index: npt.ArrayLike, n: int, seed: int) -> npt.NDArray[np.int64]:
    """Where a pseudo-random permutation of ``range(n)``, chosen by `seed`, sends `index`.

    `index` is an integer or an array of them in ``range(n)``; the result is int64 of its shape. Memory does
    not depend on n: a balanced Feistel network over the next even power of two (Luby and Rackoff 1988),
    applied again while the result is outside ``range(n)`` (cycle walking: Black and Rogaway 2002);
    8 rounds, since the 4 of the theorem are for large domains. Raises ValueError for an index outside.
    """
    value = np.atleast_1d(np.asarray(index)).astype(np.uint64)
    if value.size and (np.min(index) < 0 or np.max(index) >= n):
        raise ValueError(f"index outside range({n}): {np.min(index)} to {np.max(index)}")
    half = np.uint64(max(1, ((n - 1).bit_length() + 1) // 2))
    mask = (np.uint64(1) << half) - np.uint64(1)
    keys = [np.uint64(_key(seed, r)) for r in range(_ROUNDS)]
    outside = np.ones(value.shape, dtype=np.bool_)
    while outside.any():
        left, right = value[outside] >> half, value[outside] & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        value[outside] = (left << half) | right
        outside = value >= np.uint64(n)
    return value.astype(np.int64).reshape(np.shape(index))


def _key(seed: int, stream: int) -> int:
    """An independent 64-bit key for each (seed, stream)."""
    return int(_mix(np.array([seed & _MASK], np.uint64) + _mix(np.array([stream & _MASK], np.uint64)))[0])


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea, Flood 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
