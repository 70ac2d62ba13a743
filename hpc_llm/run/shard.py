"""What a stage's work function receives, and how its outputs become visible."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hpc_llm.config.schema import Config
from hpc_llm.run import atomic
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.record import Account
from hpc_llm.run.stage import Stage


@dataclass
class Shard:
    """One shard of one stage.

    Outputs are written through `output`, which hands out a temporary path and renames it into place
    when the block ends without an error. `finish` then writes the completion record, so a record
    never stands without its outputs.
    """

    folder: RunFolder
    config: Config
    stages: dict[str, Stage]  # the whole plan, by name
    stage: Stage
    index: int
    account: Account = field(default_factory=Account)
    _outputs: dict[str, int] = field(default_factory=dict)
    _started: float = field(default_factory=time.time)

    @property
    def items(self) -> tuple[str, ...]:
        return self.stage.items[self.index]

    def input(self, stage: str, suffix: str, index: int | None = None) -> Path:
        """Path of another stage's output, by default of the shard with this one's index."""
        return self.folder.output(stage, self.index if index is None else index, suffix)

    def inputs(self, stage: str, suffix: str) -> list[Path]:
        """That output of every shard of `stage`, in shard order."""
        return [self.folder.output(stage, i, suffix) for i in range(self.stages[stage].shards)]

    def check_inputs(self) -> None:
        """Compare the sizes of the files that this shard reads with their completion records.

        Raises ValueError naming a file that was changed or cut since, and how to make it again.
        """
        for name in self.stage.inputs:
            aligned = self.stages[name].shards == self.stage.shards
            for index in [self.index] if aligned else range(self.stages[name].shards):
                record = self.folder.record(name, index)
                for file, size in atomic.read_json(record)["outputs"].items():
                    path = self.folder.stage(name) / "out" / file
                    found = path.stat().st_size if path.exists() else -1
                    if found != size:
                        state = (
                            f"has {found} bytes, not the {size} that were written"
                            if found >= 0
                            else "is gone"
                        )
                        raise ValueError(
                            f"{path} {state}. To make it again, remove {record} and launch again"
                        )

    @contextmanager
    def output(self, suffix: str) -> Iterator[Path]:
        """A temporary path to write to; published as ``out/<index><suffix>`` on success."""
        path = self.folder.output(self.stage.name, self.index, suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        tmp = atomic.temporary(path)
        try:
            yield tmp
            size = tmp.stat().st_size
            atomic.publish(tmp, path)
        finally:
            tmp.unlink(missing_ok=True)
        self._outputs[path.name] = size

    def finish(self) -> None:
        """Write the completion record. Raises ValueError when the document account does not balance."""
        if not self.account.balanced:
            raise ValueError(
                f"stage {self.stage.name} shard {self.index}: the document account does not balance: "
                f"{self.account.documents_in} in, {self.account.documents_out} out, "
                f"{sum(self.account.dropped.values())} dropped, {len(self.account.quarantined)} quarantined"
            )
        atomic.write_json(
            self.folder.record(self.stage.name, self.index),
            {
                "stage": self.stage.name,
                "shard": self.index,
                "account": self.account.as_dict(),
                "outputs": self._outputs,
                "seconds": round(time.time() - self._started, 3),
            },
        )
