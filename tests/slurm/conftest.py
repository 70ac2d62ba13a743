"""A real Slurm for the tests of this folder: tools/mini_slurm, once for the whole session."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hpc_llm.slurm.client import Client

ROOT = Path(__file__).parents[2]
MINI_SLURM = ROOT / "tools" / "mini_slurm"
MAX_ARRAY_SIZE = 11  # small, so that splitting is exercised
PROGRAMS = ("sbatch", "slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd")


def mini_slurm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MINI_SLURM), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def missing() -> str:
    """Why no Slurm can be started here; empty when one can."""
    if os.geteuid() != 0:
        return "a Slurm cluster can only be started by root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [program for program in PROGRAMS if not shutil.which(program, path=path)]
    return f"not installed: {', '.join(absent)}" if absent else ""


@pytest.fixture(scope="session")
def slurm_installed() -> None:
    """Skips without Slurm; HPC_LLM_REQUIRE_SLURM=1 turns the skip into a failure, for CI."""
    reason = missing()
    if reason and os.environ.get("HPC_LLM_REQUIRE_SLURM") == "1":
        pytest.fail(f"HPC_LLM_REQUIRE_SLURM=1, but {reason}")
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster(slurm_installed: None) -> Iterator[Client]:
    """Four nodes with accounting. HPC_LLM_KEEP_SLURM=1 leaves it up and prints where it is."""
    folder = Path(tempfile.mkdtemp(prefix="hpc_llm_slurm_", dir="/tmp"))
    arguments = ("--nodes", "4", "--max-array-size", str(MAX_ARRAY_SIZE), "--dir", str(folder))
    started = mini_slurm("up", *arguments)
    if started.returncode:
        pytest.fail(f"mini_slurm did not start:\n{started.stdout}{started.stderr}")
    try:
        yield Client(str(folder / "slurm.conf"))
    finally:
        if os.environ.get("HPC_LLM_KEEP_SLURM"):
            print(f"\nleft up: export SLURM_CONF={folder}/slurm.conf")
        else:
            stopped = mini_slurm("down", "--dir", str(folder))
            assert stopped.returncode == 0, stopped.stderr


@pytest.fixture(autouse=True)
def _nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Jobs of one test must not hold the nodes of the next."""
    yield
    if "cluster" in request.fixturenames:
        client: Client = request.getfixturevalue("cluster")
        client.cancel(sorted({row.job_id.partition("_")[0] for row in client.queue()}))
        until(lambda: not client.queue(), "the queue to empty")


def until(condition: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    """Poll `condition`; fails naming `what` was waited for."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s:g} s for {what}")
        time.sleep(0.2)


def scontrol(client: Client, *arguments: str) -> None:
    environment = {**os.environ, "SLURM_CONF": str(client.slurm_conf)}
    subprocess.run(["scontrol", *arguments], env=environment, check=True)


@contextmanager
def dead_node(client: Client, node: str) -> Iterator[None]:
    """Within the block, `node` is as after a power cut: daemon, step daemons and jobs ended by SIGKILL."""
    conf = str(client.slurm_conf)
    victims = {int((Path(conf).parent / f"slurmd.{node}.pid").read_text())}
    processes = dict(_processes())
    for pid, (parent, _, environ) in processes.items():
        if {f"SLURMD_NODENAME={node}", f"SLURM_CONF={conf}"} <= environ:
            victims.add(pid)
            if processes[parent][1] == "slurmstepd":
                victims.add(parent)
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Slurm itself notices after SlurmdTimeout; said here, so that the test does not wait for it.
    scontrol(client, "update", f"nodename={node}", "state=down", "reason=power")
    try:
        yield
    finally:
        environment = {**os.environ, "HPC_LLM_MINI_SLURM": str(Path(conf).parent), "SLURM_CONF": conf}
        subprocess.Popen(
            ["/usr/sbin/slurmd", "-D", "-N", node],
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: all(group.state == "idle" for group in client.nodes()), "the node to return")


def _processes() -> Iterator[tuple[int, tuple[int, str, set[str]]]]:
    """Parent, program and environment of every process that can be read."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                program, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                environ: set[str] = set()
                with suppress(PermissionError):
                    environ = set((entry / "environ").read_text(errors="replace").split("\0"))
                yield int(entry.name), (int(rest.split()[1]), program, environ)
