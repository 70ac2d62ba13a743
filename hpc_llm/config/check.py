"""Combinations that no single type can refuse. Pure: a config in, every problem out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hpc_llm.config.schema import Config
from hpc_llm.slurm import timefmt


@dataclass(frozen=True)
class Problem:
    """One refused setting: the key, the value seen, and what is allowed."""

    key: str
    value: Any
    allowed: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}: {self.allowed}"


class ConfigError(ValueError):
    """The configuration was refused; `problems` holds one line for each reason."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


_CHOICES = {
    "stages": ("all", "data", "train"),
    "source.kind": ("python_env", "warc", "jsonl", "parquet"),
    "parallel.schedule": ("gpipe", "1f1b"),
    "parallel.zero": (2, 3),
    "train.precision": ("fp32", "bf16"),
    "train.device": ("auto", "cpu", "cuda"),
    "cluster.executor": ("local", "slurm", "debug"),
}

# key: (lowest, highest); None is open.
_RANGES: dict[str, tuple[float | None, float | None]] = {
    "source.shards": (0, None),
    "source.shard_mb": (1, None),
    "source.max_record_mb": (1, 2000),
    "source.max_expansion": (2, None),
    "source.max_bad_fraction": (0, 1),
    "dedup.minhash.ngram": (1, 50),
    "dedup.minhash.bands": (1, 1000),
    "dedup.minhash.rows": (1, 1000),
    "dedup.minhash.partitions": (1, 1000),
    "dedup.exact.partitions": (1, 1000),
    "tokenizer.sample_mb": (1, None),
    "tokenizer.vocab_size": (258, 4_000_000),
    "pack.validation_fraction": (0, 0.5),
    "model.layers": (1, None),
    "model.hidden": (1, None),
    "model.heads": (1, None),
    "model.kv_heads": (1, None),
    "model.ffn_hidden": (1, None),
    "model.sequence_length": (1, None),
    "model.vocab_multiple": (1, None),
    "parallel.nodes": (1, None),
    "parallel.tasks_per_node": (1, None),
    "parallel.tp": (1, None),
    "parallel.pp": (1, None),
    "optim.lr": (0, None),
    "optim.min_lr_ratio": (0, 1),
    "optim.warmup_steps": (0, None),
    "optim.beta1": (0, 1),
    "optim.beta2": (0, 1),
    "optim.weight_decay": (0, None),
    "optim.clip": (0, None),
    "train.steps": (1, None),
    "train.global_batch": (1, None),
    "train.micro_batch": (1, None),
    "train.checkpoint.interval_steps": (1, None),
    "train.checkpoint.keep": (1, None),
    "train.eval_interval_steps": (0, None),
    "train.eval_batches": (1, None),
    "train.log_interval_steps": (1, None),
    "train.sample_tokens": (0, None),
    "cluster.array.cpus": (1, None),
    "cluster.array.shards_per_element": (1, None),
    "cluster.train.cpus_per_task": (1, None),
    "cluster.train.gpus_per_node": (0, None),
    "cluster.restart.signal_lead_s": (0, 65535),
    "cluster.restart.max_failures": (0, None),
    "cluster.restart.max_node_failures": (0, None),
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MEMORY = re.compile(r"\d+[KMGT]?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def problems(config: Config) -> list[Problem]:
    """Every setting of `config` that cannot work, all at once; an empty list means that it can."""
    return [
        *_choices(config),
        *_ranges(config),
        *_names(config),
        *_layout(config),
        *_cluster(config),
    ]


def _get(config: Config, key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _choices(config: Config) -> Iterator[Problem]:
    for key, allowed in _CHOICES.items():
        value = _get(config, key)
        if value not in allowed:
            yield Problem(key, value, f"allowed are {', '.join(map(str, allowed))}")


def _ranges(config: Config) -> Iterator[Problem]:
    for key, (low, high) in _RANGES.items():
        value = _get(config, key)
        if (low is not None and value < low) or (high is not None and value > high):
            between = f"at least {low}" if high is None else f"from {low} to {high}"
            yield Problem(key, value, f"must be {between}")


def _names(config: Config) -> Iterator[Problem]:
    if not _NAME.fullmatch(config.run.name):
        yield Problem("run.name", repr(config.run.name), "a folder name: letters, digits and . _ - only")
    if config.source.kind != "python_env" and not config.source.paths:
        yield Problem(
            "source.paths", "[]", f"source={config.source.kind} reads files, folders or globs: name some"
        )
    for name in config.cluster.environment:
        if not _VARIABLE.fullmatch(name):
            yield Problem(f"cluster.environment.{name}", name, "not a variable name that a shell can export")


def _layout(config: Config) -> Iterator[Problem]:
    model, parallel, train = config.model, config.parallel, config.train
    # Values out of range are reported by _ranges; here they would only divide by zero.
    tp, pp, heads = max(parallel.tp, 1), max(parallel.pp, 1), max(model.heads, 1)
    kv_heads, micro = max(model.kv_heads, 1), max(train.micro_batch, 1)
    ranks = parallel.nodes * parallel.tasks_per_node
    if ranks % (tp * pp):
        yield Problem(
            "parallel.tp x parallel.pp",
            tp * pp,
            f"must divide the {ranks} ranks (parallel.nodes={parallel.nodes} x "
            f"parallel.tasks_per_node={parallel.tasks_per_node})",
        )
    elif train.global_batch % (micro * (dp := max(ranks // (tp * pp), 1))):
        yield Problem(
            "train.global_batch",
            train.global_batch,
            f"must be a multiple of train.micro_batch={train.micro_batch} x {dp} data-parallel ranks",
        )
    elif pp > 1 and (batches := train.global_batch // (micro * dp)) < pp:
        yield Problem(
            "parallel.pp",
            parallel.pp,
            f"needs at least as many microbatches in a step; train.global_batch={train.global_batch} over {dp} "
            f"data-parallel ranks of train.micro_batch={train.micro_batch} gives {batches}",
        )
    if model.hidden % heads:
        yield Problem("model.hidden", model.hidden, f"must be a multiple of model.heads={model.heads}")
    elif model.hidden // heads % 2:
        yield Problem(
            "model.hidden",
            model.hidden,
            f"the head size {model.hidden // heads} must be even: RoPE turns pairs",
        )
    if heads % kv_heads:
        yield Problem("model.heads", model.heads, f"must be a multiple of model.kv_heads={model.kv_heads}")
    for key, value in (
        ("model.heads", heads),
        ("model.kv_heads", kv_heads),
        ("model.ffn_hidden", model.ffn_hidden),
        ("model.vocab_multiple", model.vocab_multiple),
        ("model.sequence_length", model.sequence_length),
    ):
        if value % tp:
            yield Problem(key, value, f"must be a multiple of parallel.tp={parallel.tp}")
    if pp > model.layers:
        yield Problem("parallel.pp", parallel.pp, f"must be at most model.layers={model.layers}")


def _cluster(config: Config) -> Iterator[Problem]:
    cluster = config.cluster
    for key, text in (("cluster.array.time", cluster.array.time), ("cluster.train.time", cluster.train.time)):
        try:
            if timefmt.parse(text) == 0:
                yield Problem(key, repr(text), "0 would stay pending for ever: name a limit, or UNLIMITED")
        except ValueError as error:
            yield Problem(key, repr(text), str(error))
    for key, memory in (("cluster.array.mem", cluster.array.mem), ("cluster.train.mem", cluster.train.mem)):
        if memory is not None and not _MEMORY.fullmatch(memory):
            yield Problem(
                key, repr(memory), "as sbatch --mem takes it: a number with K, M, G or T, or 0 for all"
            )
    if cluster.array.parallel is not None and cluster.array.parallel < 1:
        yield Problem(
            "cluster.array.parallel",
            cluster.array.parallel,
            "array elements that run at once: at least 1 (0 would start none); null is no limit",
        )
    if cluster.executor != "slurm" and config.parallel.nodes > 1:
        yield Problem(
            "parallel.nodes",
            config.parallel.nodes,
            f"cluster.executor={cluster.executor} has one node; add +cluster=mini_slurm or your own cluster",
        )
    if cluster.executor == "debug" and config.parallel.tasks_per_node > 1:
        yield Problem(
            "parallel.tasks_per_node", config.parallel.tasks_per_node, "the debug executor runs one process"
        )
