from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpc_llm.node import codes
from hpc_llm.run import attempt, journal
from hpc_llm.run.folder import RunFolder

SUBMISSION: dict[str, Any] = {
    "stage": "filter",
    "token": "abc",
    "elements": [[0, 1], [2]],
    "restart": {"max_failures": 1, "max_node_failures": 1},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "9")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    return RunFolder(tmp_path / "run")


def test_an_attempt_is_on_record_before_it_is_known_how_it_ends(folder: RunFolder) -> None:
    assert attempt.start(folder, "filter", SUBMISSION) == codes.GO_ON
    (event,) = journal.read(folder.events("filter") / "abc_0.jsonl")
    assert (event["event"], event["job"], event["restart"], event["nodes"]) == ("start", "9_0", 0, "n1")
    assert attempt.end(folder, "filter", SUBMISSION, 1) == codes.RESTART
    attempt.start(folder, "filter", SUBMISSION)
    assert attempt.end(folder, "filter", SUBMISSION, 1) == codes.GIVE_UP
    attempt.start(folder, "filter", SUBMISSION)
    assert attempt.end(folder, "filter", SUBMISSION, 0) == codes.GO_ON


def test_only_the_elements_own_shards_are_progress(folder: RunFolder) -> None:
    for done in (2, 1):  # shard 2 is the other element's
        attempt.start(folder, "filter", SUBMISSION)
        folder.record("filter", done).parent.mkdir(parents=True, exist_ok=True)
        folder.record("filter", done).touch()
        assert attempt.end(folder, "filter", SUBMISSION, 1) == codes.RESTART
    assert attempt.marker(folder, "filter", [0, 1], gang=False) == "1 shards"
    attempt.start(folder, "filter", SUBMISSION)
    assert attempt.end(folder, "filter", SUBMISSION, 1) == codes.GIVE_UP


def test_a_checkpoint_is_progress_of_a_gang_also_when_old_ones_are_removed(folder: RunFolder) -> None:
    def newest(*names: str) -> str:
        for name in names:
            (folder.checkpoints / name).mkdir(parents=True, exist_ok=True)
        return attempt.marker(folder, "train", [0], gang=True)

    before = newest("step_00000090", "step_00000100", ".step_00000200.tmp")
    (folder.checkpoints / "step_00000090").rmdir()
    assert before == "0 shards, checkpoint 100"
    assert newest("step_00000110") != before
    assert attempt.marker(folder, "train", [0], gang=False) == "0 shards"


def test_nodes_that_die_are_counted_at_the_next_start(folder: RunFolder) -> None:
    assert [attempt.start(folder, "filter", SUBMISSION) for _ in range(3)] == [0, 0, codes.GIVE_UP]
    last = list(journal.read(folder.events("filter") / "abc_0.jsonl"))[-1]
    assert last["action"] == "give up"
    assert "lost its node (n1)" in last["reason"]
    assert attempt.start(folder, "filter", SUBMISSION) == codes.GO_ON  # a person has requeued it


def test_the_command_line_that_the_batch_script_uses(folder: RunFolder, tmp_path: Path) -> None:
    payload = tmp_path / "abc.json"
    payload.write_text(json.dumps(SUBMISSION))

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-X", "importtime", "-m", "hpc_llm.run.attempt", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    started = call("start", str(folder.path), "filter", str(payload))
    assert started.returncode == codes.GO_ON, started.stderr
    # It runs before and after every attempt on every node.
    assert not {"torch", "numba", "omegaconf", "submitit"} & {
        line.split()[-1] for line in started.stderr.splitlines()
    }
    assert call("end", str(folder.path), "filter", str(payload), "1").returncode == codes.RESTART
    assert call("end", str(folder.path), "filter").returncode == codes.REFUSED
