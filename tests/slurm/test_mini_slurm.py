"""tools/mini_slurm: comes up, says so, survives crashes, leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MINI_SLURM, mini_slurm, until

HOSTS = Path("/etc/hosts")


@pytest.fixture
def folder(slurm_installed: None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mini_", dir="/tmp") as parent:
        path = Path(parent) / "slurm"
        yield path
        mini_slurm("down", "--dir", str(path))


def up(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return mini_slurm("up", "--nodes", "2", "--no-accounting", "--dir", str(folder), *more)


def processes(folder: Path) -> list[int]:
    """Every process with the folder in its command line or environment, zombies aside."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if str(folder).encode() in text:
                found.append(int(entry.name))
    return found


def test_up_again_and_other_settings_and_down(folder: Path) -> None:
    hosts = HOSTS.read_text()
    first = up(folder)
    assert first.returncode == 0, first.stderr
    assert f"export SLURM_CONF={folder}/slurm.conf" in first.stdout
    assert f"127.0.0.1 n1 n2 # hpc_llm mini_slurm {folder}" in HOSTS.read_text().splitlines()
    again = up(folder)
    assert (again.returncode, again.stdout.split(":")[0]) == (0, "already up")
    other = up(folder, "--max-array-size", "77")
    assert other.returncode == 2
    assert "max_array_size 1001 (asked: 77)" in other.stderr
    assert mini_slurm("status", "--dir", str(folder)).returncode == 0

    environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf"}
    # A job that ignores TERM and has a child without an environment must not outlive the cluster.
    job = "#!/bin/bash\n#SBATCH --output=/dev/null\ntrap '' TERM\nenv -i sleep 987654 & sleep 987654\n"
    subprocess.run(["sbatch"], input=job, text=True, env=environment, check=True, capture_output=True)
    until(lambda: b"987654" in subprocess.run(["ps", "-eo", "args"], capture_output=True).stdout, "the job")
    down = mini_slurm("down", "--dir", str(folder))
    assert (down.returncode, folder.exists(), HOSTS.read_text()) == (0, False, hosts)
    assert processes(folder) == []
    assert b"987654" not in subprocess.run(["ps", "-eo", "args"], capture_output=True).stdout
    assert "nothing was up" in mini_slurm("down", "--dir", str(folder)).stdout
    assert mini_slurm("status", "--dir", str(folder)).returncode == 1


def test_after_a_crash_up_starts_anew(folder: Path) -> None:
    assert up(folder).returncode == 0
    os.kill(int((folder / "slurmctld.pid").read_text()), signal.SIGKILL)
    status = mini_slurm("status", "--dir", str(folder))
    assert (status.returncode, "parts of it are gone" in status.stdout) == (1, True)
    assert up(folder).returncode == 0
    assert mini_slurm("status", "--dir", str(folder)).returncode == 0


def test_an_up_that_was_killed_midway(folder: Path) -> None:
    hosts = HOSTS.read_text()
    arguments = [sys.executable, str(MINI_SLURM), "up", "--dir", str(folder)]
    starting = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    until(lambda: (folder / "munge" / "key").exists(), "the first daemon")
    starting.kill()
    starting.wait()
    assert mini_slurm("status", "--dir", str(folder)).returncode == 1
    assert mini_slurm("down", "--dir", str(folder)).returncode == 0
    assert (processes(folder), folder.exists(), HOSTS.read_text()) == ([], False, hosts)


def test_a_folder_of_somebody_else_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "mine").touch()
    for command in ("up", "down"):
        refused = mini_slurm(command, "--dir", str(folder))
        assert (refused.returncode, "was not made by mini_slurm" in refused.stderr) == (2, True)
    assert (folder / "mine").exists()


def test_the_settings_are_what_was_asked_for(folder: Path) -> None:
    assert up(folder, "--max-array-size", "5").returncode == 0
    assert json.loads((folder / "settings.json").read_text()) == {
        "nodes": 2,
        "accounting": False,
        "max_array_size": 5,
    }
    assert "MaxArraySize=5\n" in (folder / "slurm.conf").read_text()


@pytest.mark.parametrize("arguments", [("up", "--nodes", "0"), ("up", "--dir", "/tmp/a b"), ("start",)])
def test_wrong_arguments_are_refused(slurm_installed: None, arguments: tuple[str, ...]) -> None:
    refused = mini_slurm(*arguments)
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()[-1]) > 0


def test_without_root_it_says_so(slurm_installed: None) -> None:
    # On stdin, since another user may not be able to enter the checkout.
    asked = subprocess.run(
        ["su", "nobody", "-s", "/bin/sh", "-c", "/usr/bin/python3 - up"],
        input=MINI_SLURM.read_text(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (asked.returncode, "must be started by root" in asked.stderr) == (2, True)
