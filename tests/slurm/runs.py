"""Whole runs for the tests of this folder: a small corpus of real prose and the commands that people type."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest

# Small enough for eight processes on two cores; every axis of the layout is there.
SMALL = [
    "source=jsonl",
    "source.shards=4",
    "source.max_bad_fraction=0.5",
    "filters=none",
    "tokenizer.vocab_size=600",
    "model.layers=4",
    "model.hidden=64",
    "model.heads=4",
    "model.kv_heads=4",
    "model.ffn_hidden=96",
    "model.sequence_length=64",
    "train.global_batch=8",
    "train.micro_batch=2",
    "train.eval_interval_steps=0",
    "train.sample_tokens=8",
    "cluster.array.time=10",
    "cluster.train.time=20",
    "cluster.array.mem=null",
]


def corpus(folder: Path, files: int = 4) -> Path:
    """The standard library's help topics, cut into documents, with duplicates across files and one bad line."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = []
    for name in sorted(topics):
        text = topics[name]
        for number, start in enumerate(range(0, len(text), 1500)):
            documents.append({"id": f"{name}:{number}", "text": text[start : start + 1500]})
    documents += [{**document, "id": document["id"] + ":copy"} for document in documents[::10]]
    for number, document in enumerate(documents[::7]):
        document["text"] += f" Write to person{number}@mail{number}.org about it."
    for file in range(files):
        lines = [json.dumps(document).encode() for document in documents[file::files]]
        if file == 0:
            lines.insert(3, b'{"id": "broken", "text": "never clo')
        with gzip.GzipFile(folder / f"{file}.jsonl.gz", "wb", mtime=0) as stream:
            stream.write(b"\n".join(lines) + b"\n")
    return folder


def command(module: str, *arguments: str, slurm_conf: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if slurm_conf is not None:
        environment["SLURM_CONF"] = slurm_conf
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True, text=True, timeout=300, env=environment, check=False,
    )  # fmt: skip


def status(run: Path) -> dict[str, Any]:
    done = command("hpc_llm.status", str(run), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_until_done(run: Path, timeout_s: float) -> dict[str, Any]:
    """Poll the status as a person would; fails with the table and the logs when a stage fails."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = status(run)
        if found["state"] == "done":
            return found
        if found["state"] == "failed" or time.monotonic() > deadline:
            table = command("hpc_llm.status", str(run)).stdout
            logs = sorted(run.glob("stages/*/logs/*.log"), key=lambda path: path.stat().st_mtime)
            tails = "\n".join(f"== {path}\n{path.read_text(errors='replace')[-1500:]}" for path in logs[-4:])
            pytest.fail(f"{found['state']} after {timeout_s:g} s at most\n{table}\n{tails}")
        time.sleep(1)


def digests(run: Path, pattern: str) -> dict[str, str]:
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.glob(pattern))
    }


def losses(run: Path) -> dict[int, str]:
    """The last recorded loss of each step, as the hexadecimal text of the float: equal texts are equal bits."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row["loss_hex"] for row in rows if "loss_hex" in row}
