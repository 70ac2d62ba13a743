"""Where everything of a run stands. The run folder is the API: status, resume and report read only this."""

from __future__ import annotations

from pathlib import Path


class RunFolder:
    """Paths below ``<run.root>/<run.name>``; nothing is created until it is written."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config(self) -> Path:
        """The resolved configuration, YAML."""
        return self.path / "config.yaml"

    @property
    def plan(self) -> Path:
        """The stage plan and its hash, JSON."""
        return self.path / "plan.json"

    @property
    def manifest(self) -> Path:
        """Environment of the launch: packages, versions, code hash. JSON."""
        return self.path / "environment.json"

    @property
    def journal(self) -> Path:
        """Append-only events of the launcher, one JSON object a line."""
        return self.path / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the launcher that works on the run on this machine."""
        return self.path / "launcher.lock"

    @property
    def code(self) -> Path:
        """Snapshot of the package: jobs import what was launched, not what the tree has become."""
        return self.path / "code"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """One JSON object for each training step, appended by one rank."""
        return self.path / "metrics.jsonl"

    @property
    def export(self) -> Path:
        """The Hugging Face folder."""
        return self.path / "export"

    def tensorboard(self, restart: int) -> Path:
        return self.path / "tb" / f"restart_{restart:03d}"

    def stage(self, stage: str) -> Path:
        return self.path / "stages" / stage

    def logs(self, stage: str) -> Path:
        return self.stage(stage) / "logs"

    def submissions(self, stage: str) -> Path:
        """One immutable JSON file for each sbatch call or local start: which shards each element works on."""
        return self.stage(stage) / "submissions"

    def events(self, stage: str) -> Path:
        """Append-only JSONL of starts, stops and requeues, one file (and one writer) per element."""
        return self.stage(stage) / "events"

    def record(self, stage: str, shard: int) -> Path:
        """Completion record: written last, so its presence means that the shard is done."""
        return self.stage(stage) / "done" / f"{shard:05d}.json"

    def records(self, stage: str) -> Path:
        return self.stage(stage) / "done"

    def output(self, stage: str, shard: int, suffix: str) -> Path:
        """``suffix`` tells the outputs of one shard apart, for example ``.parquet`` or ``.dropped.parquet``."""
        return self.stage(stage) / "out" / f"{shard:05d}{suffix}"
