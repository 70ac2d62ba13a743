"""The read stage: input items to documents, every record accounted for."""

from __future__ import annotations

import importlib

import pyarrow as pa
import pyarrow.parquet as pq

from hpc_llm.data import documents
from hpc_llm.data.read.outcome import Document, Dropped, Outcomes
from hpc_llm.run.record import Account
from hpc_llm.run.shard import Shard

SKIPPED = pa.schema([("file", pa.string()), ("offset", pa.int64()), ("reason", pa.string())])

# A fraction of a handful of records says nothing: this many bad ones are always borne, unless the
# fraction allowed is 0.
ALWAYS_BORNE = 3
# Beyond this many, a shard over its fraction stops at once and does not read to its end.
STOP_EARLY = 10_000


def run(shard: Shard) -> None:
    """Read ``shard.items`` and write ``.parquet``, and ``.skipped.parquet``: file, offset and reason of every
    record that gave no document.

    The account's bytes are those of documents' text, in and out alike: what a record weighs before it is
    read has no meaning. Raises ValueError when more than ``source.max_bad_fraction`` of the records
    cannot be read.
    """
    source = shard.config.source
    read = importlib.import_module(f"hpc_llm.data.read.{source.kind}").read
    account = shard.account
    skipped: list[tuple[str, int, str]] = []
    with shard.output(".parquet") as path, documents.Writer(path) as writer:
        for item in shard.items:
            before = account.documents_in
            _take(read(item, source), item, writer, skipped, account, source.max_bad_fraction)
            if account.documents_in == before:
                account.notes.append(f"{item}: no records")
        _check(account, source.max_bad_fraction)
    with shard.output(".skipped.parquet") as path:
        rows = pa.Table.from_pylist([dict(zip(SKIPPED.names, row, strict=True)) for row in skipped], SKIPPED)
        pq.write_table(rows, path, compression="zstd")
    account.documents_out = writer.documents
    account.bytes_in = account.bytes_out = writer.bytes


def _take(
    outcomes: Outcomes,
    item: str,
    writer: documents.Writer,
    skipped: list[tuple[str, int, str]],
    account: Account,
    max_bad_fraction: float,
) -> None:
    for outcome in outcomes:
        account.documents_in += 1
        if isinstance(outcome, Document):
            writer.append(outcome._asdict())
        elif isinstance(outcome, Dropped):
            account.drop(outcome.reason)
            skipped.append((item, outcome.offset, outcome.reason))
        else:
            account.quarantine(item, outcome.offset, outcome.reason)
            skipped.append((item, outcome.offset, outcome.reason))
            print(f"quarantined {item} offset {outcome.offset}: {outcome.reason}", flush=True)
            if len(account.quarantined) > STOP_EARLY:
                _check(account, max_bad_fraction)


def _check(account: Account, max_bad_fraction: float) -> None:
    bad = len(account.quarantined)
    borne = max(max_bad_fraction * account.documents_in, ALWAYS_BORNE) if max_bad_fraction > 0 else 0
    if bad > borne:
        first = account.quarantined[0]
        raise ValueError(
            f"{bad} of {account.documents_in} records could not be read, more than "
            f"source.max_bad_fraction={max_bad_fraction:g} allows. The first: {first.file} offset "
            f"{first.offset}: {first.reason}. Mend the input, or raise source.max_bad_fraction."
        )
