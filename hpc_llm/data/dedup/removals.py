"""Removal lists, and the one place that takes documents out because of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hpc_llm.data import documents
from hpc_llm.data.dedup import sections
from hpc_llm.data.dedup.fingerprint import Fingerprint
from hpc_llm.run.shard import Shard

SUFFIX = ".remove"

Integers = npt.NDArray[np.integer]


def write(
    path: Path,
    fingerprints: Sequence[str],
    *,
    shards: Integers,
    rows: Integers,
    kept_shards: Integers,
    kept_rows: Integers,
) -> None:
    """Write one section of REMOVALS for each document shard, empty ones too.

    The four arrays are parallel: a document to remove, and the one that stays for it. `fingerprints` are
    those of the document shards, in order.
    """
    order = np.lexsort((rows, shards))
    records = np.empty(len(order), dtype=sections.REMOVALS)
    records["row"], records["kept_shard"], records["kept_row"] = (
        rows[order],
        kept_shards[order],
        kept_rows[order],
    )
    cuts = np.searchsorted(shards[order], np.arange(len(fingerprints) + 1))
    sections.write(
        path,
        sections.REMOVALS,
        {"fingerprints": list(fingerprints)},
        ((f"{i:05d}", records[cuts[i] : cuts[i + 1]]) for i in range(len(fingerprints))),
    )


def read(paths: Sequence[Path], index: int, shards: int) -> tuple[sections.Records, str]:
    """What all of `paths` remove from document shard `index` of `shards`, by row, and its fingerprint.

    Raises ValueError when the files were made from another number of shards, or differ in what they saw.
    """
    files = [sections.Sections(path, sections.REMOVALS) for path in paths]
    seen = [file.meta["fingerprints"] for file in files]
    for file, fingerprints in zip(files, seen, strict=True):
        if len(fingerprints) != shards:
            raise ValueError(
                f"{file.path}: made from {len(fingerprints)} document shards, there are {shards}"
            )
        if fingerprints != seen[0]:
            raise ValueError(f"{file.path}: made from other documents than {files[0].path}")
    records = np.concatenate([file.read(f"{index:05d}") for file in files])
    return records[np.argsort(records["row"], kind="stable")], seen[0][index]


def apply(shard: Shard, reason: str) -> None:
    """Work of a filter stage: inputs are the documents and the stage with the removal lists.

    Writes ``.parquet`` with what stays and ``.dropped.parquet`` with the rest, where `kept_id` is
    ``<shard>:<row>`` of the survivor in the input documents (``00003:17``), since its id is in another file.
    Raises ValueError, and publishes nothing, when the documents are not those the lists were made from.
    """
    source, lists = shard.stage.inputs[:2]
    path = shard.input(source, ".parquet")
    remove, expected = read(shard.inputs(lists, SUFFIX), shard.index, shard.stages[source].shards)
    fingerprint = Fingerprint()
    with (
        shard.output(".parquet") as kept_path,
        shard.output(".dropped.parquet") as dropped_path,
        documents.Writer(kept_path) as kept,
        documents.Writer(dropped_path, documents.DROPPED) as dropped,
    ):
        for batch in documents.batches(path):
            start, end = np.searchsorted(remove["row"], [fingerprint.rows, fingerprint.rows + batch.num_rows])
            out = remove[start:end]
            rows = out["row"].astype(np.int64) - fingerprint.rows
            stays = np.ones(batch.num_rows, dtype=np.bool_)
            stays[rows] = False
            fingerprint.update(batch)
            shard.account.bytes_in += documents.text_bytes(batch)
            kept.extend(batch.filter(pa.array(stays)))
            if len(out):
                dropped.columns(
                    **{name: batch.column(name).take(pa.array(rows)) for name in documents.SCHEMA.names},
                    reason=[reason] * len(out),
                    kept_id=[f"{r['kept_shard']:05d}:{r['kept_row']}" for r in out],
                )
        if fingerprint.value != expected:
            raise ValueError(
                f"{path}: not the documents that the removal lists were made from (fingerprint "
                f"{fingerprint.value}, expected {expected}); run the stages from the signatures on again"
            )
    shard.account.documents_in = fingerprint.rows
    shard.account.documents_out = kept.documents
    shard.account.bytes_out = kept.bytes
    if dropped.documents:
        shard.account.drop(reason, dropped.documents)
