"""What a launch costs the login node before Slurm is asked anything: CPU seconds of a whole process.

Ours is ``python -m hpc_llm.launch dry_run=true``: compose and check the config, plan the graph, render
every script. The peer is a datatrove program for the same data graph (filters, MinHash in four jobs, PII,
tokens), which constructs its executors and renders their scripts by datatrove's own methods but submits
nothing. The pickling that its launch also does and the spaCy that its default words need are left out, in
its favour; it has no training job and no config to check. CPU seconds, since a login node is shared.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROUNDS = 5


def cpu_seconds(command: list[str], cwd: str) -> float:
    """User and system seconds of `command` and its children. Raises RuntimeError when it fails."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            text = output.read().decode(errors="replace")
            raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}: {text[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def rows() -> list[dict[str, Any]]:
    """One row, medians of alternating turns; above 1 the ratio says that ours takes less."""
    arms = {
        "ours": ["-m", "hpc_llm.launch", "dry_run=true", "cluster.executor=slurm", "run.root=runs"],
        "peer": [str(Path(__file__).resolve()), "peer"],
    }
    seen: dict[str, list[float]] = {"ours": [], "peer": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(ROUNDS + 1):
            for arm, arguments in arms.items():
                seconds = cpu_seconds([sys.executable, *arguments], folder)
                if turn:  # the first turn compiles bytecode
                    seen[arm].append(seconds)
    ours, peer = statistics.median(seen["ours"]), statistics.median(seen["peer"])
    return [
        {
            "row": "launch, dry run",
            "ours": round(ours, 3),
            "peer": round(peer, 3),
            "ratio": round(peer / ours, 3),
            "peer_name": "datatrove executors, unsubmitted",
            "unit": "CPU s",
        }
    ]


def peer() -> None:
    """Build datatrove's graph and render its sbatch scripts into the current folder."""
    from datatrove.executor.slurm import SlurmPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets
    from datatrove.pipeline.filters import C4QualityFilter, GopherQualityFilter, GopherRepetitionFilter
    from datatrove.pipeline.formatters import PIIFormatter
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.word_tokenizers import WhitespaceTokenizer

    words: Any = WhitespaceTokenizer()
    minhash = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
    pipelines: dict[str, list[Any]] = {
        "filter": [
            JsonlReader("raw"),
            GopherRepetitionFilter(language=words),
            GopherQualityFilter(language=words),
            C4QualityFilter(language=words),
            JsonlWriter("filtered"),
        ],
        "signatures": [
            JsonlReader("filtered"),
            MinhashDedupSignature("signatures", config=minhash, language=words),
        ],
        "buckets": [MinhashDedupBuckets("signatures", "buckets", config=minhash)],
        "cluster": [MinhashDedupCluster("buckets", "remove", config=minhash)],
        "tokens": [
            JsonlReader("filtered"),
            MinhashDedupFilter("remove"),
            PIIFormatter(),
            DocumentTokenizer("tokens", tokenizer_name_or_path="tokenizer.json", eos_token="<|endoftext|>"),
        ],
    }
    before = None
    for name, pipeline in pipelines.items():
        before = SlurmPipelineExecutor(
            pipeline,
            tasks=14 if name == "buckets" else 1 if name == "cluster" else 100,
            time="01:00:00",
            partition="batch",
            job_name=name,
            logging_dir=f"logs/{name}",
            depends=before,
        )
        run = f"srun -l -n 1 launch_pickled_pipeline logs/{name}/executor.pik"
        Path(f"{name}.slurm").write_text(
            before.get_launch_file_contents(before.get_sbatch_args(before.tasks), run)
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["peer"]:
        peer()
    else:
        for row in rows():
            print(row)
