"""The summary of a run as text for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpc_llm.watch import tables

SHOWN_QUARANTINE = 20


def stages(summary: Mapping[str, Any]) -> str:
    rows = [
        (
            stage["name"],
            stage["state"],
            f"{stage['shards']['done']}/{stage['shards']['total']}",
            stage["shards"].get("running") or "",
            stage["shards"].get("failed") or "",
            tables.count(stage["documents_in"]) if stage["documents_in"] else "",
            tables.count(stage["documents_out"]) if stage["documents_out"] else "",
            stage["restarts"] or "",
            tables.duration(stage["seconds"]) if stage["seconds"] else "",
            _jobs(stage),
        )
        for stage in summary["stages"]
    ]
    headers = (
        "stage",
        "state",
        "done",
        "running",
        "failed",
        "documents in",
        "out",
        "restarts",
        "work",
        "jobs",
    )
    return tables.render(headers, rows, "llrrrrrrrl")


def failures(summary: Mapping[str, Any]) -> str:
    """For each failed stage its telling log line and where the rest is; empty when nothing failed."""
    parts = [
        f"{failure['stage']} failed: {tables.printable(failure['line'])}\n  {failure['log']}"
        for failure in summary["failures"]
    ]
    return "\n".join([*parts, "launch again to go on from what is finished"]) if parts else ""


def _jobs(stage: Mapping[str, Any]) -> str:
    ids = [job for job in stage["job_ids"] if not job.startswith("local-")]
    states = stage["job_states"]
    shown = [f"{job} {states[job]}" if job in states else job for job in ids]
    return ", ".join(shown[-3:])


def report(summary: Mapping[str, Any]) -> str:
    """Everything that a person asks after a run: documents, tokens, training, samples, and where things are."""
    documents, extra, training = summary["documents"], summary["extra"], summary["training"]
    lines: list[tuple[str, object]] = [
        ("documents in", f"{tables.count(documents['in'])}  ({tables.size(documents['bytes_in'])} of text)"),
        (
            "documents kept",
            f"{tables.count(documents['kept'])}  ({tables.percent(documents['kept'], documents['in'])})",
        ),
    ]
    duplicates = sum(n for reason, n in documents["dropped"].items() if reason.endswith("_duplicate"))
    lines += [(f"  dropped: {reason}", tables.count(n)) for reason, n in _by_size(documents["dropped"])]
    lines.append(("duplicates found", tables.count(duplicates)))
    lines.append(("quarantined records", tables.count(documents["quarantined"])))
    spans = {key.removeprefix("pii_"): n for key, n in extra.items() if key.startswith("pii_")}
    if spans:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in spans.items())
        lines.append(("PII spans replaced", f"{tables.count(sum(spans.values()))}  ({kinds})"))
    if "tokens_train" in extra:
        train, valid = tables.count(extra["tokens_train"]), tables.count(extra.get("tokens_valid", 0))
        lines.append(("tokens", f"{train} to train, {valid} to validate"))
    lines.append(("document accounts", "balance" if summary["balanced"] else "DO NOT BALANCE"))
    if "parameters" in extra:
        lines.append(("parameters", tables.count(extra["parameters"])))
    if training:
        lines += [
            (
                "training step",
                f"{training['step']:,} of {training['steps']:,}, {tables.count(training['tokens'])} tokens",
            ),
            ("loss first, last", f"{training['loss_first']:.4f}, {training['loss']:.4f}"),
            ("tokens/s", tables.count(round(training["tokens_per_s"]))),
        ]
    parts = [tables.pairs(lines)]
    if documents["quarantine"]:
        parts.append(_quarantine(documents))
    files = [note for note in documents["notes"] if not note.startswith(("stdlib:", "dist:"))]
    if files:
        parts.append("\n".join(map(tables.printable, files[:SHOWN_QUARANTINE])))
    if summary["samples"]:
        parts.append("generated text\n" + "\n".join(_sample(sample) for sample in summary["samples"]))
    return "\n\n".join(parts)


def where(run: str, exported: bool) -> str:
    path = Path(run)
    lines: list[tuple[str, object]] = [
        ("run folder", path),
        ("TensorBoard", f"tensorboard --logdir {path / 'tb'}"),
    ]
    if exported:
        lines.append(
            ("exported model", f"{path / 'export'}  (transformers.AutoModelForCausalLM.from_pretrained)")
        )
    return tables.pairs(lines)


def _by_size(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _quarantine(documents: Mapping[str, Any]) -> str:
    rows = [(q["file"], q["offset"], q["reason"]) for q in documents["quarantine"][:SHOWN_QUARANTINE]]
    table = tables.render(("quarantined in", "offset", "reason"), rows, "lrl")
    more = documents["quarantined"] - len(rows)
    return table + (f"\n... and {more:,} more: see stages/*/done/*.json" if more > 0 else "")


def _sample(sample: Mapping[str, Any]) -> str:
    return f"  {tables.printable(sample['prompt'])}|{tables.printable(sample['text'])}"
