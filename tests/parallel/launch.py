"""Start a function on every rank of a real gloo process group; rank 0's written result is the verdict.

One process imports torch and forks the ranks before it has any thread: eight imports on two cores
would take longer than most tests.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def launch(
    world: int, function: str, folder: Path, arguments: Any = None, timeout: float = 120
) -> tuple[list[int], Any]:
    """Call ``module:function(arguments)`` in `world` processes.

    Returns their exit codes by rank, negative for a signal, and what rank 0's call returned, or None.
    When one fails the others are killed: they would wait for it. Output goes to folder/rank_N.log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    (folder / "arguments.json").write_text(json.dumps(arguments))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SUBMITIT_"))}
    environment |= {
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of compiling processes to outlive a rank
        "PYTHONPATH": str(ROOT),
        "SUBMITIT_LOCAL_JOB_ID": "1",
        "SUBMITIT_LOCAL_NTASKS": str(world),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.parallel.launch", function, str(folder)],
        env=environment,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"ranks still run after {timeout} s\n{logs(folder)}")
    codes = json.loads((folder / "codes.json").read_text())
    result = folder / "result.json"
    return codes, json.loads(result.read_text()) if result.exists() else None


def ranks(world: int, function: str, folder: Path, arguments: Any = None, timeout: float = 120) -> Any:
    """`launch`, where every rank must succeed; returns what rank 0's call returned."""
    codes, result = launch(world, function, folder, arguments, timeout)
    assert codes == [0] * world, f"exit codes {codes}\n{logs(folder)}"
    return result


def logs(folder: Path) -> str:
    return "\n".join(f"--- {p.name}\n{p.read_text()[-3000:]}" for p in sorted(folder.glob("rank_*.log")))


def _rank(rank: int, function: Any, folder: Path) -> int:
    os.environ |= {"SUBMITIT_LOCAL_GLOBALID": str(rank), "SUBMITIT_LOCAL_LOCALID": str(rank)}
    log = os.open(folder / f"rank_{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        result = function(json.loads((folder / "arguments.json").read_text()))
        if rank == 0:
            (folder / "result.json").write_text(json.dumps(result))
        return 0
    except SystemExit as error:
        return int(error.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _free_port() -> int:
    """Below the range that the kernel hands out: else it may give the port away before it is listened on."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", port))
            return port


def _main(name: str, folder: Path) -> None:
    import torch.distributed.tensor  # noqa: F401

    import hpc_llm.train.loop  # noqa: F401

    module, _, attribute = name.partition(":")
    function = getattr(importlib.import_module(module), attribute)
    os.environ["MASTER_PORT"] = str(_free_port())
    running: dict[int, int] = {}
    codes = [0] * int(os.environ["SUBMITIT_LOCAL_NTASKS"])
    for rank in range(len(codes)):
        pid = os.fork()
        if pid == 0:
            os._exit(_rank(rank, function, folder))
        running[pid] = rank
    while running:
        pid, status = os.wait()
        code = codes[running.pop(pid)] = os.waitstatus_to_exitcode(status)
        if code not in (0, 85):
            time.sleep(1.0)  # the others may be about to say why
            for other in running:
                os.kill(other, signal.SIGKILL)
    (folder / "codes.json").write_text(json.dumps(codes))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
