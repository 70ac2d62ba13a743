"""The launcher on this machine, as a person types it: submitit's local executor, real files, bad ones among them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["tokenizer.vocab_size=300", "stages=data", "filters=none", "dedup=exact"]


def launch(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hpc_llm.launch", f"run.root={folder}/runs", "run.name=r", *arguments],
        capture_output=True, text=True, timeout=300, cwd=ROOT, env={**os.environ, **environment},
    )  # fmt: skip


def document(number: int) -> str:
    return json.dumps(
        {"id": str(number), "text": f"Document {number} has words, and then more words follow."}
    )


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    whole = gzip.compress("\n".join(map(document, range(300))).encode())
    (folder / "truncated.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.jsonl").write_bytes(b"")
    lines = [document(1000).encode(), b'{"text": "bad \xff bytes"}', document(1001).encode()]
    (folder / "utf8.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with (folder / "huge.jsonl").open("wb") as stream:
        stream.write(document(2000).encode() + b'\n{"text": "')
        for _ in range(200):
            stream.write(b"x" * 1_000_000)
        stream.write(b'"}\n' + document(2001).encode() + b"\n")
    return folder


def test_bad_input_is_named_counted_and_costs_nothing_else(bad_files: Path, tmp_path: Path):
    done = launch(
        tmp_path, "source=jsonl", f"source.paths=[{bad_files}]", "source.max_bad_fraction=0.5", *SMALL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    for name, offset in (("utf8.jsonl", len(document(1000)) + 1), ("huge.jsonl", len(document(2000)) + 1)):
        line = next(line for line in done.stdout.splitlines() if f"/{name} " in line)
        assert str(offset) in line.split(), line
    assert "truncated" in done.stdout
    assert f"{bad_files}/empty.jsonl: no records" in done.stdout
    assert "document accounts    balance" in done.stdout
    status = subprocess.run(
        [sys.executable, "-m", "hpc_llm.status", f"{tmp_path}/runs/r", "--json"],
        capture_output=True, text=True, timeout=60, cwd=ROOT,
    )  # fmt: skip
    found = json.loads(status.stdout)
    assert found["balanced"] and found["documents"]["quarantined"] == 3
    assert found["documents"]["in"] == found["documents"]["kept"] + 3  # nothing else is lost
    assert found["documents"]["kept"] > 100

    again = launch(
        tmp_path, "source=jsonl", f"source.paths=[{bad_files}]", "source.max_bad_fraction=0.5", *SMALL
    )
    assert again.returncode == 0 and "all is done" in again.stdout


def test_no_document_left_is_said_and_fails(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text(document(1) + "\n")
    done = launch(tmp_path, "source=jsonl", f"source.paths=[{tmp_path}/a.jsonl]", "tokenizer.vocab_size=300")
    assert done.returncode == 1
    assert "no document is left to train a tokenizer on" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["source=jsonl", "source.paths=[/nowhere]"], "source.paths: '/nowhere' does not exist"),
        (["run.root=/proc/nowhere"], "run.root=/proc/nowhere: cannot write"),
        (["+cluster=lustre_ib"], "is not on PATH: Slurm is not installed on this machine"),
        (["+cluster=mini_slurm", "cluster.slurm_conf=/nowhere/slurm.conf"], "SLURM_CONF=/nowhere/slurm.conf"),
        (["cluster.templates=/nowhere", "+cluster=lustre_ib", "dry_run=true"], "array.sbatch is missing"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], said: str):
    bin_folder = tmp_path / "bin"  # a PATH without Slurm, wherever this runs
    bin_folder.mkdir()
    done = launch(tmp_path, *arguments, PATH=str(bin_folder))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_broken_template_is_refused_with_its_line(tmp_path: Path):
    templates = tmp_path / "templates"
    templates.mkdir()
    for name in ("array.sbatch", "train.sbatch"):
        text = (ROOT / "sbatch_templates" / name).read_text()
        (templates / name).write_text(
            text.replace("# @launcher: values", "# gone") if name[0] == "t" else text
        )
    done = launch(tmp_path, f"cluster.templates={templates}", "+cluster=lustre_ib", "dry_run=true")
    assert done.returncode == 2
    assert f"{templates}/train.sbatch" in done.stderr and "# @launcher: values" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_line_added_by_ops_is_in_the_script_and_named(tmp_path: Path):
    templates = tmp_path / "templates"
    templates.mkdir()
    for name in ("array.sbatch", "train.sbatch"):
        text = (ROOT / "sbatch_templates" / name).read_text()
        added = "# @launcher: options\n#SBATCH --account=physics\n#SBATCH -t 7"
        (templates / name).write_text(text.replace("# @launcher: options", added, 1))
    done = launch(tmp_path, f"cluster.templates={templates}", "+cluster=lustre_ib", "dry_run=true")
    assert done.returncode == 0, done.stderr
    assert "#SBATCH --account=physics" in done.stdout
    assert "the template sets time" in done.stdout
    assert "--time=" not in done.stdout


def workers(run: Path) -> list[int]:
    """Processes whose command line names the run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(run).encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def test_one_launcher_works_on_a_run_and_its_workers_end_with_it(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "hpc_llm.launch",
        f"run.root={tmp_path}/runs",
        "run.name=r",
        "stages=data",
    ]
    run = tmp_path / "runs" / "r"
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as first:
        deadline = time.monotonic() + 60
        while not (run / "stages" / "read" / "out").exists():  # the first worker has begun to write
            assert time.monotonic() < deadline
            time.sleep(0.1)
        second = launch(tmp_path, "stages=data")
        assert second.returncode == 2
        assert f"process {first.pid} works on this run" in second.stderr
        first.kill()
    deadline = time.monotonic() + 30
    while workers(run):
        assert time.monotonic() < deadline, workers(run)
        time.sleep(0.1)
