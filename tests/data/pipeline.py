"""Runs data stages on documents in a real run folder, as the worker does: completion record last."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpc_llm.config.schema import Config
from hpc_llm.data.documents import Writer, batches
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.record import Account
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage

DOCUMENTS = "read"


class Pipeline:
    """Document shards as the outputs of stage `DOCUMENTS`, and stages on top of them."""

    def __init__(self, path: Path, shards: Sequence[Sequence[Mapping[str, Any] | str]]) -> None:
        self.config = Config()
        self.folder = RunFolder(path)
        self.stages = {DOCUMENTS: Stage(DOCUMENTS, "array", "", shards=len(shards))}
        for index, rows in enumerate(shards):
            self.write_documents(index, rows)

    def write_documents(self, index: int, rows: Sequence[Mapping[str, Any] | str]) -> None:
        path = self.folder.output(DOCUMENTS, index, ".parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        with Writer(path) as writer:
            for at, row in enumerate(rows):
                document = {"text": row} if isinstance(row, str) else row
                writer.append({"id": f"doc-{index}-{at}", "source": "test", **document})

    def run(
        self, module: str, *inputs: str, shards: int, order: Sequence[int] | None = None
    ) -> list[Account]:
        """Run every shard of ``hpc_llm.data.<module>``, in `order`, as a stage named for its last part."""
        name = module.rpartition(".")[2]
        self.stages[name] = Stage(name, "array", f"hpc_llm.data.{module}:run", inputs, shards)
        work = importlib.import_module(f"hpc_llm.data.{module}").run
        accounts: dict[int, Account] = {}
        for index in order if order is not None else range(shards):
            shard = Shard(self.folder, self.config, self.stages, self.stages[name], index)
            work(shard)
            shard.finish()
            accounts[index] = shard.account
        return [accounts[index] for index in range(shards)]

    def documents(self, stage: str, suffix: str = ".parquet") -> list[list[dict[str, Any]]]:
        """Rows of each output shard of a stage."""
        return [
            [row for batch in batches(self.folder.output(stage, i, suffix)) for row in batch.to_pylist()]
            for i in range(self.stages[stage].shards)
        ]

    def texts(self, stage: str) -> list[str]:
        return [row["text"] for rows in self.documents(stage) for row in rows]

    def bytes_of(self, stage: str) -> dict[str, bytes]:
        """Contents of every output file of a stage, by name."""
        return {p.name: p.read_bytes() for p in sorted((self.folder.stage(stage) / "out").iterdir())}
