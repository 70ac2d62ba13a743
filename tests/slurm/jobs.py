"""Submissions for the template tests: the shipped templates around a worker that does as it is told.

The worker stands in for data stages and training, which have tests of their own: here only the contract
between Slurm, batch script, policy and an exit code is of interest. All of those are the real ones.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from hpc_llm.run import journal
from hpc_llm.run.folder import RunFolder
from hpc_llm.slurm import template
from hpc_llm.slurm.client import Client

ROOT = Path(__file__).parents[2]

# behaviour.json maps an element to what its attempts do, the last one repeated:
# an exit code; "progress N": finish a shard, then exit with N; "stop": wait for USR2 or TERM, then exit
# with 85; "deaf": ignore every signal.
WORKER = """
import json, os, pathlib, signal, sys, time
run, stage, submission = map(pathlib.Path, sys.argv[1:4])
element = os.environ.get("SLURM_ARRAY_TASK_ID", "0")
tries = run / f"tries_{element}_{os.environ['SLURM_PROCID']}"
count = len(tries.read_text().split()) if tries.exists() else 0
for number in (signal.SIGUSR2, signal.SIGTERM):
    signal.signal(number, lambda *_: sys.exit(85))
tries.open("a").write(os.environ.get("SLURM_RESTART_COUNT", "0") + "\\n")
steps = json.loads((run / "behaviour.json").read_text()).get(element, [0])
step = steps[min(count, len(steps) - 1)]
print("try", count, "does", step, os.environ.get("MASTER_ADDR"), os.environ["SLURMD_NODENAME"], flush=True)
if isinstance(step, str) and step.startswith("progress"):
    done = run / "stages" / str(stage) / "done"
    done.mkdir(parents=True, exist_ok=True)
    shards = json.loads(submission.read_text())["elements"][int(element)]
    (done / f"{shards[len(list(done.iterdir()))]:05d}.json").write_text("{}")
    step = int(step.split()[1])
if step == "deaf":
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if isinstance(step, str):
    time.sleep(600)
sys.exit(step)
"""


class Work:
    """One stage of one run, submitted as the launcher does it."""

    def __init__(
        self, client: Client, tmp: Path, behaviour: dict[str, list[Any]], gang: bool = False
    ) -> None:
        self.client = client
        self.gang = gang
        self.folder = RunFolder(tmp / "a run")  # the space is on purpose
        self.stage = "train" if gang else "filter"
        self.token = "abc"
        self.code = tmp / "code"
        if not self.code.exists():
            shutil.copytree(
                ROOT / "hpc_llm", self.code / "hpc_llm", ignore=shutil.ignore_patterns("__pycache__")
            )
        (self.code / "hpc_llm" / "run" / "worker.py").write_text(WORKER)
        self.folder.logs(self.stage).mkdir(parents=True)
        (self.folder.path / "behaviour.json").write_text(json.dumps(behaviour))
        self.count = len(behaviour)

    def script(self, options: dict[str, str | None] | None = None, shards: int = 1, **restart: int) -> Path:
        submissions = self.folder.submissions(self.stage)
        submissions.mkdir(parents=True, exist_ok=True)
        content = {
            "stage": self.stage,
            "token": self.token,
            "elements": [list(range(i * shards, (i + 1) * shards)) for i in range(self.count)],
            "code": str(self.code),
            "restart": {"max_failures": 2, "max_node_failures": 2, **restart},
        }
        payload = submissions / f"{self.token}.json"
        payload.write_text(json.dumps(content))
        base: dict[str, str | None] = {
            "job-name": f"{self.stage}.{self.token}",
            "output": str(self.folder.logs(self.stage) / ("%j.log" if self.gang else "%A_%a.log")),
            "open-mode": "append",
            "requeue": None,
            "kill-on-invalid-dep": "yes",
            "signal": "B:USR2@60",
            "time": "00:10:00",
            "nodes": "2" if self.gang else "1",
            "ntasks-per-node": "2" if self.gang else "1",
            "cpus-per-task": "1",
            "mem": "100M",
        }
        if not self.gang:
            base["array"] = f"0-{self.count - 1}"
        values = {
            "HPC_LLM_RUN": str(self.folder.path),
            "HPC_LLM_STAGE": self.stage,
            "HPC_LLM_SUBMISSION": str(payload),
            "HPC_LLM_PYTHON": sys.executable,
            "HPC_LLM_CODE": str(self.code),
            "HPC_LLM_CPUS": "1",
        }
        form = template.read(ROOT / "sbatch_templates" / ("train.sbatch" if self.gang else "array.sbatch"))
        text, _ = template.fill(form, base | (options or {}), values, {"SITE": "it's"})
        path = submissions / f"{self.token}.sbatch"
        path.write_text(text)
        return path

    def submit(self, options: dict[str, str | None] | None = None, **restart: int) -> str:
        return self.client.submit(self.script(options, **restart))

    def states(self, job: str) -> dict[str, str]:
        return {i: row.raw_state for row in self.client.queue([job]) for i in row.ids}

    def tries(self, element: int = 0, rank: int = 0) -> list[str]:
        """SLURM_RESTART_COUNT of every attempt that got as far as the worker."""
        path = self.folder.path / f"tries_{element}_{rank}"
        return path.read_text().split() if path.exists() else []

    def events(self, element: int = 0) -> list[dict[str, Any]]:
        return list(journal.read(self.folder.events(self.stage) / f"{self.token}_{element}.jsonl"))

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.logs(self.stage).iterdir()))
