"""Every real capture that stands beside the checkout is read, and each record that gives no document is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hpc_llm.config.schema import Config, SourceConfig
from hpc_llm.data import documents
from hpc_llm.data.read import stage
from hpc_llm.data.read.streams import chunks
from hpc_llm.run import inputs
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage


def records(path: Path) -> int:
    """Records of a file, counted without a reader: version lines, lines, rows."""
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).metadata.num_rows
    data = b"".join(part for part in chunks(path, 1000) if isinstance(part, bytes))
    if ".jsonl" in path.name:
        return sum(bool(line.strip()) for line in data.splitlines())
    return len(re.findall(rb"(?m)^WARC/1\.[01]\r?\n", data))


@pytest.mark.parametrize("kind", ["warc", "jsonl", "parquet"])
def test_every_file_is_read_and_what_is_skipped_is_explained(kind: str, shared_data: Path, tmp_path: Path):
    source = SourceConfig(kind=kind, paths=[str(shared_data)], shards=1, max_bad_fraction=0.5)
    items = tuple(inputs.plan(source))
    plan = Stage("read", "array", "hpc_llm.data.read.stage:run", shards=len(items), items=items)
    shard = Shard(RunFolder(tmp_path / "run"), Config(source=source), {"read": plan}, plan, 0)
    stage.run(shard)
    shard.finish()
    account = shard.account
    skipped = pq.read_table(shard.folder.output("read", 0, ".skipped.parquet")).to_pylist()
    assert account.documents_in == sum(records(Path(item)) for item in items[0])
    assert account.documents_in == account.documents_out + len(skipped)
    assert all(row["reason"] and row["offset"] >= 0 for row in skipped)
    read = [
        row
        for batch in documents.batches(shard.folder.output("read", 0, ".parquet"))
        for row in batch.to_pylist()
    ]
    assert {Path(row["source"]).name for row in read} | {Path(row["file"]).name for row in skipped} == {
        Path(item).name for item in items[0]
    }
