"""Signature files: sorted keys of one document shard, cut by key range; and all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hpc_llm.data.dedup.sections import Records, Sections
from hpc_llm.run.shard import Shard

SUFFIX = ".sig"


def ranges(records: Records, key: str, count: int) -> Iterator[Records]:
    """Cut records sorted by their uint64 field `key` into `count` equal ranges of the key space."""
    bounds = np.array([(i << 64) // count for i in range(1, count)], dtype=np.uint64)
    cuts = np.searchsorted(np.ascontiguousarray(records[key]), bounds).tolist()
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        yield records[start:end]


class Signatures:
    """The signature files of every shard of a stage, checked to be comparable.

    `params` is what all of them must have been made with. Raises ValueError when one was made with
    others, or stands at another shard's place.
    """

    def __init__(self, paths: Sequence[Path], dtype: np.dtype[np.void], params: Mapping[str, Any]) -> None:
        self._files = [Sections(path, dtype) for path in paths]
        for index, file in enumerate(self._files):
            if file.meta["params"] != params:
                raise ValueError(f"{file.path}: signed with {file.meta['params']}, expected {dict(params)}")
            if file.meta["shard"] != index:
                raise ValueError(f"{file.path}: signatures of shard {file.meta['shard']}, expected {index}")
        self.fingerprints: list[str] = [file.meta["fingerprint"] for file in self._files]

    @classmethod
    def of(cls, shard: Shard, dtype: np.dtype[np.void], params: Mapping[str, Any]) -> Signatures:
        """Those of the stage's second input."""
        return cls(shard.inputs(shard.stage.inputs[1], SUFFIX), dtype, params)

    def count(self, section: str) -> int:
        return sum(file.count(section) for file in self._files)

    def read(self, *sections: str) -> tuple[Records, npt.NDArray[np.uint32]]:
        """Their records in (shard, row) order among equal keys, and the shard of each, uint32."""
        parts = [file.read(*sections) for file in self._files]
        shards = np.repeat(np.arange(len(parts), dtype=np.uint32), [len(p) for p in parts])
        return np.concatenate(parts), shards
