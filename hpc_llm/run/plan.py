"""The stage graph: a pure function from the configuration and the input files to a list of stages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hpc_llm.config.schema import Config
from hpc_llm.run.stage import Stage

# What may change between launches of one run: where it runs, not what comes out.
_FREE = ("run", "stages", "dry_run", "cluster")


def stages(config: Config, items: Sequence[Sequence[str]]) -> list[Stage]:
    """The graph in an order in which every stage follows its inputs.

    Parameters
    ----------
    items
        Input items of each shard, from `hpc_llm.run.inputs.plan`.
    """
    shards = len(items)
    found: list[Stage] = []

    def add(name: str, work: str, inputs: tuple[str, ...] = (), shards: int = shards, **options: Any) -> str:
        found.append(
            Stage(
                name=name,
                kind="array",
                work=f"hpc_llm.data.{work}:run",
                inputs=inputs,
                shards=shards,
                **options,
            )
        )
        return name

    documents = add("read", "read.stage", items=tuple(tuple(item) for item in items))
    filters = config.filters
    if filters.gopher_repetition.enabled or filters.gopher_quality.enabled or filters.c4.enabled:
        documents = add("filter", "filters.stage", (documents,))
    if config.dedup.minhash.enabled:
        sign = add("minhash_sign", "dedup.minhash_sign", (documents,))
        match = add(
            "minhash_match", "dedup.minhash_match", (documents, sign), config.dedup.minhash.partitions
        )
        cluster = add("minhash_cluster", "dedup.minhash_cluster", (documents, match), 1)
        documents = add("minhash_filter", "dedup.minhash_filter", (documents, cluster))
    if config.dedup.exact.enabled:
        sign = add("exact_sign", "dedup.exact_sign", (documents,))
        match = add("exact_match", "dedup.exact_match", (documents, sign), config.dedup.exact.partitions)
        documents = add("exact_filter", "dedup.exact_filter", (documents, match))
    if config.pii.emails or config.pii.ips or config.pii.phones:
        documents = add("pii", "pii.pii", (documents,))
    tokenizer = add("tokenizer", "tokens.tokenizer", (documents,), 1)
    tokens = add("tokenize", "tokens.tokenize", (documents, tokenizer))
    found.append(Stage("train", "gang", "hpc_llm.train.stage:run", (tokens, tokenizer), 1, "train"))
    found.append(Stage("export", "array", "hpc_llm.export.stage:run", ("train", tokenizer), 1, "train"))
    return found


def selected(plan: Sequence[Stage], which: str) -> list[Stage]:
    """The part of the graph that ``stages=all|data|train`` names."""
    return [stage for stage in plan if which in ("all", stage.group)]


def document(plan: Sequence[Stage], config: Config, fingerprints: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What ``plan.json`` holds: the stages, all settings that decide the result, and a hash over both.

    Parameters
    ----------
    fingerprints
        One entry for each input file (`hpc_llm.run.inputs.fingerprint`): a changed input is a changed plan.
    """
    settings = {key: value for key, value in asdict(config).items() if key not in _FREE}
    body = json.loads(
        json.dumps(
            {"settings": settings, "inputs": fingerprints, "stages": [asdict(stage) for stage in plan]}
        )
    )
    # Which function does the work is the code's business: renaming it changes no result.
    identity = {**body, "stages": [{**stage, "work": ""} for stage in body["stages"]]}
    return {**body, "hash": hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()}


def read(document: dict[str, Any]) -> list[Stage]:
    """The stages of a ``plan.json``."""
    return [
        Stage(**{**stage, "inputs": tuple(stage["inputs"]), "items": tuple(map(tuple, stage["items"]))})
        for stage in document["stages"]
    ]


def difference(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line for each setting, input or stage in which two plan documents differ."""
    lines = [
        f"{key}: {before} -> {after}"
        for key, before, after in _pairs(_flat(old["settings"]), _flat(new["settings"]))
    ]
    inputs = _pairs(_by_name(old["inputs"]), _by_name(new["inputs"]))
    lines += [f"input {name}: {_change(before, after)}" for name, before, after in inputs[:10]]
    if len(inputs) > 10:
        lines.append(f"... and {len(inputs) - 10} more inputs")
    names_old, names_new = ([stage["name"] for stage in plan["stages"]] for plan in (old, new))
    if names_old != names_new:
        lines.append(f"stages: {' '.join(names_old)} -> {' '.join(names_new)}")
    elif not lines and old["hash"] != new["hash"]:
        lines.append("the distribution of inputs over shards")
    return lines


_ABSENT = "(absent)"


def _change(before: Any, after: Any) -> str:
    if before == _ABSENT:
        return "added"
    return "removed" if after == _ABSENT else f"changed from {before} to {after}"


def _pairs(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [
        (key, old.get(key, _ABSENT), new.get(key, _ABSENT))
        for key in sorted({*old, *new})
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    ]


def _by_name(fingerprints: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {str(name): tuple(rest) for name, *rest in fingerprints}


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
