"""Everything a launch decides and writes before the first job: plan, folder, snapshot.

`prepare` writes nothing; `create` makes the run folder, or accepts one that holds the same plan.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from hpc_llm.config.schema import Config
from hpc_llm.run import atomic, inputs, journal, plan, snapshot
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.stage import Stage


class Refused(Exception):
    """Nothing was done; the message says why, naming the key to change. Exit code 2."""


@dataclass(frozen=True)
class Prepared:
    config: Config
    folder: RunFolder
    stages: list[Stage]
    document: dict[str, Any]  # of plan.json

    @property
    def selected(self) -> list[Stage]:
        return plan.selected(self.stages, self.config.stages)

    def unfinished(self, stage: Stage) -> list[int]:
        """Shards without a completion record, from one listing of the folder."""
        try:
            done = {entry.name for entry in os.scandir(self.folder.records(stage.name))}
        except FileNotFoundError:
            done = set()
        return [index for index in range(stage.shards) if f"{index:05d}.json" not in done]


def prepare(config: Config) -> Prepared:
    """The plan for `config`. Raises Refused when there are no inputs or an existing run has another plan."""
    folder = RunFolder(Path(config.run.root) / config.run.name)
    try:
        items = inputs.plan(config.source)
        fingerprints = inputs.fingerprint([item for shard in items for item in shard])
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error
    stages = plan.stages(config, items)
    document = plan.document(stages, config, fingerprints)
    prepared = Prepared(config, folder, stages, document)
    _refuse_changed_plan(prepared)
    _refuse_missing_data(prepared)
    return prepared


def _refuse_changed_plan(prepared: Prepared) -> None:
    folder = prepared.folder
    try:
        existing = atomic.read_json(folder.plan)
    except FileNotFoundError:
        return
    except atomic.Damaged as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(f"run.root={prepared.config.run.root}: {folder.plan}: {error.strerror}") from error
    if existing["hash"] == prepared.document["hash"]:
        return
    lines = plan.difference(existing, prepared.document)
    raise Refused(
        f"the run {folder.path} has another plan; nothing was changed:\n"
        + "\n".join(f"  {line}" for line in lines)
        + f"\nstart a new run (run.name=...), or launch {folder.name} again with its own settings"
    )


def _refuse_missing_data(prepared: Prepared) -> None:
    if prepared.config.stages != "train" or prepared.config.dry_run:
        return
    for stage in prepared.stages:
        if stage.group == "data" and prepared.unfinished(stage):
            raise Refused(
                f"stages=train: the data stage {stage.name} of {prepared.folder.path} is not finished; "
                "launch with stages=all or stages=data first"
            )


def create(prepared: Prepared) -> Path:
    """Make the run folder and return the code folder that jobs import. Raises Refused when it is not writable."""
    folder = prepared.folder
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        code = snapshot.code(folder)
        if not folder.plan.exists():
            atomic.write_json(folder.manifest, snapshot.environment(code))
            atomic.write_json(folder.plan, prepared.document)
        # Resources may differ between launches of one plan: the jobs of this launch read this one.
        atomic.write_text(folder.config, OmegaConf.to_yaml(OmegaConf.structured(prepared.config)))
        journal.append(
            folder.journal, {"event": "launch", "code": code.name, "stages": prepared.config.stages}
        )
    except OSError as error:
        raise Refused(
            f"run.root={prepared.config.run.root}: cannot write {folder.path}: {error.strerror}"
        ) from error
    return code
