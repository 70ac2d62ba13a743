"""Start a function on every rank of a real gloo process group; rank 0's written result is the verdict."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(world: int, function: str, folder: Path, arguments: Any = None) -> list[subprocess.Popen[bytes]]:
    """Start ``module:function(arguments)`` in `world` processes; their output goes to folder/rank_N.log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "arguments.json").write_text(json.dumps(arguments))
    (folder / "result.json").unlink(missing_ok=True)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SUBMITIT_"))},
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "SUBMITIT_LOCAL_JOB_ID": "1",
        "SUBMITIT_LOCAL_NTASKS": str(world),
    }
    processes = []
    for rank in range(world):
        with (folder / f"rank_{rank}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.parallel.launch", function, str(folder)],
                    env={
                        **environment,
                        "SUBMITIT_LOCAL_GLOBALID": str(rank),
                        "SUBMITIT_LOCAL_LOCALID": str(rank),
                    },
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=ROOT,
                )
            )
    return processes


def finish(processes: list[subprocess.Popen[bytes]], folder: Path, timeout: float) -> list[int]:
    """Exit codes by rank. When one rank fails the others are killed: they would wait for it."""
    deadline = time.monotonic() + timeout
    try:
        while any(p.poll() is None for p in processes):
            if any(p.poll() not in (None, 0, 85) for p in processes):
                time.sleep(1.0)  # the others may be about to say why
                break
            if time.monotonic() > deadline:
                pytest.fail(f"ranks still run after {timeout} s\n{logs(folder)}")
            time.sleep(0.02)
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
    return [p.wait() for p in processes]


def logs(folder: Path) -> str:
    return "\n".join(f"--- {p.name}\n{p.read_text()[-3000:]}" for p in sorted(folder.glob("rank_*.log")))


def ranks(world: int, function: str, folder: Path, arguments: Any = None, timeout: float = 120) -> Any:
    """Run to the end and return what rank 0's call returned."""
    codes = finish(start(world, function, folder, arguments), folder, timeout)
    assert codes == [0] * world, f"exit codes {codes}\n{logs(folder)}"
    return json.loads((folder / "result.json").read_text())


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    module, _, function = name.partition(":")
    result = getattr(importlib.import_module(module), function)(
        json.loads((folder / "arguments.json").read_text())
    )
    if os.environ["SUBMITIT_LOCAL_GLOBALID"] == "0":
        (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
