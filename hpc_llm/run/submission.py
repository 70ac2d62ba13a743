"""What one sbatch call (or local start) works on, decided before it is made and never changed after."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hpc_llm.config.schema import RestartConfig
from hpc_llm.run import atomic
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.stage import Stage


@dataclass(frozen=True)
class Submission:
    """Array element i works through the shards ``elements[i]``.

    The token is part of the job's name and of those of its payload file and its script, so that a
    submission can be found again when the answer to sbatch was lost.
    """

    stage: str
    token: str
    elements: tuple[tuple[int, ...], ...]
    code: str  # folder that the job imports the package from
    restart: dict[str, int]  # budgets of hpc_llm.run.retry

    def path(self, folder: RunFolder) -> Path:
        return folder.submissions(self.stage) / f"{self.token}.json"

    def write(self, folder: RunFolder) -> Path:
        path = self.path(folder)
        atomic.write_json(path, asdict(self))
        return path

    @staticmethod
    def read(path: Path) -> Submission:
        value = atomic.read_json(path)
        return Submission(**{**value, "elements": tuple(map(tuple, value["elements"]))})


def split(
    stage: Stage,
    shards: Sequence[int],
    code: Path,
    restart: RestartConfig,
    per_element: int,
    max_elements: int,
) -> Iterator[Submission]:
    """Deal `shards` out over elements of `per_element` shards, and those over as many arrays as needed.

    Parameters
    ----------
    max_elements
        The cluster's MaxArraySize. Slurm bounds the index value, so every array counts from 0 to
        at most MaxArraySize - 1.
    """
    elements = [tuple(shards[i : i + per_element]) for i in range(0, len(shards), per_element)]
    for start in range(0, len(elements), max_elements):
        yield Submission(
            stage=stage.name,
            token=uuid.uuid4().hex[:12],
            elements=tuple(elements[start : start + max_elements]),
            code=str(code),
            restart={"max_failures": restart.max_failures, "max_node_failures": restart.max_node_failures},
        )
