"""Slurm's commands. The only module here that starts a process; what they print is read by the pure ones."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpc_llm.slurm import limits, rows

# A shell inside an allocation, or a user's profile, sets these; they silently change what sbatch and
# srun ask for (SBATCH_TIMELIMIT, SLURM_CPU_BIND, SLURM_MEM_PER_NODE) and what squeue prints (SQUEUE_FORMAT).
SCRUBBED = (
    "SLURM",
    "SBATCH_",
    "SRUN_",
    "SALLOC_",
    "SQUEUE_",
    "SACCT_",
    "SINFO_",
    "SCANCEL_",
    "PMI_",
    "PMIX_",
)
TRANSIENT = ("Socket timed out", "Zero Bytes were transmitted", "Transport endpoint is not connected")
UNREACHABLE = (
    "Unable to contact slurm controller",
    "Unable to process configuration",
    "configuration source",
    " is DOWN",
)
RETRY_AFTER_S = (1, 3, 9)  # the controller is busy: asking again at once makes that worse


class SlurmError(Exception):
    """One line that says what Slurm refused or why it could not be asked."""


class SubmitUncertain(SlurmError):
    """sbatch gave no clear answer: the job may be in the queue, so look before submitting again."""


class Client:
    """One cluster. `slurm_conf` is its configuration file; None takes $SLURM_CONF or the machine's own."""

    def __init__(self, slurm_conf: str | None = None, timeout_s: float = 60) -> None:
        self.slurm_conf = slurm_conf or os.environ.get("SLURM_CONF")
        self.timeout_s = timeout_s
        # Without the file, every command of Slurm would retry for a minute and then say the same.
        if self.slurm_conf and not Path(self.slurm_conf).is_file():
            raise SlurmError(f"no cluster here: SLURM_CONF={self.slurm_conf} does not exist")

    def config(self) -> limits.ClusterLimits:
        # ping asks once; everything else waits MessageTimeout, often a minute, for a controller that is down.
        self._ask("scontrol", "ping")
        return limits.parse_config(self._ask("scontrol", "show", "config"))

    def partitions(self) -> list[limits.Partition]:
        return limits.parse_partitions(self._ask("scontrol", "show", "partition", "-o"))

    def nodes(self) -> list[limits.NodeGroup]:
        return limits.parse_nodes(self._ask("sinfo", "-h", "-e", "-o", limits.SINFO_FORMAT))

    def queue(self, job_ids: Sequence[str] | None = None, name: str | None = None) -> list[rows.QueueRow]:
        """Jobs that squeue still knows: waiting, running, or ended less than MinJobAge ago (with `job_ids`).

        Without arguments, the caller's own waiting and running jobs.
        """
        if job_ids is not None and not job_ids:
            return []
        fields = ",".join(f"{field}:{rows.SEPARATOR}" for field in rows.QUEUE_FIELDS)
        which = ["--me"] if job_ids is None else ["-t", "all", "-j", ",".join(job_ids)]
        if name is not None:
            which += ["-n", name]
        try:
            return rows.parse_queue(self._ask("squeue", "-h", *which, "-O", fields))
        except SlurmError as error:
            if "Invalid job id" in str(error):  # said only when it knows none of them
                return []
            raise

    def accounting(self, job_ids: Sequence[str]) -> list[rows.AccountingRow] | None:
        """Every run of these jobs, restarts included; None where the site keeps no accounting.

        An empty list means that the database has not heard of them yet, not that they are gone.
        """
        if not job_ids:
            return []
        fields = ",".join(rows.ACCOUNTING_FIELDS)
        try:
            return rows.parse_accounting(
                self._ask("sacct", "-n", "-P", "-X", "-D", "-j", ",".join(job_ids), "-o", fields)
            )
        except SlurmError as error:
            if "accounting storage is disabled" in str(error):
                return None
            raise

    def show_job(self, job_id: str) -> dict[str, str]:
        """Fields of one job as ``scontrol show job`` names them; of an array, its first record."""
        return rows.parse_job(self._ask("scontrol", "show", "job", "-o", job_id))

    def submit(self, script: Path, arguments: Sequence[str] = (), options: Sequence[str] = ()) -> str:
        """Submit `script` with its `arguments`; `options` are sbatch's. Returns the job id.

        Never repeated on its own: raises SubmitUncertain where sbatch gave no clear answer.
        """
        done = self._run(
            "sbatch", "--parsable", *options, str(script), *arguments, environment=self._scrubbed()
        )
        if done.returncode != 0:
            reason = _reason(done)
            if any(text in reason for text in TRANSIENT):
                raise SubmitUncertain(f"sbatch {script}: {reason}")
            raise SlurmError(f"sbatch {script}: {self._explained(reason)}")
        job_id = done.stdout.strip().partition(";")[0]  # id, or id;cluster
        if not job_id.isdecimal():
            raise SubmitUncertain(f"sbatch {script} answered {done.stdout!r} in place of a job id")
        return job_id

    def test_only(self, script: Path, options: Sequence[str] = ()) -> str:
        """Slurm's own estimate of when `script` would start, one line; nothing is submitted."""
        done = self._run("sbatch", "--test-only", *options, str(script), environment=self._scrubbed())
        if done.returncode != 0:
            raise SlurmError(f"sbatch {script}: {self._explained(_reason(done))}")
        return _reason(done)

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Cancel what still runs or waits; ids that are gone are no error."""
        if job_ids:
            self._ask("scancel", "--quiet", *job_ids)

    def _ask(self, *command: str) -> str:
        """Standard output of a command that changes nothing when it is repeated."""
        environment = self._scrubbed() | {
            "LC_ALL": "C",
            "SLURM_TIME_FORMAT": "standard",
            "SLURM_BITSTR_LEN": "0",  # or squeue cuts 12_[1,3,5,...] off at 64 characters
        }
        for wait_s in (*RETRY_AFTER_S, None):
            done = self._run(*command, environment=environment)
            reason = _reason(done)
            disabled = "accounting storage is disabled" in reason  # which sacct says with exit code 0 or 1
            if done.returncode == 0 and not disabled:
                return done.stdout
            if wait_s is None or not any(text in reason for text in TRANSIENT):
                raise SlurmError(f"{command[0]}: {self._explained(reason)}")
            time.sleep(wait_s)
        raise AssertionError("the last round returns or raises")

    def _run(self, *command: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.timeout_s,
            )
        except FileNotFoundError:
            raise SlurmError(
                f"{command[0]} is not on PATH: Slurm is not installed on this machine; "
                "run where it is, or here with cluster.executor=local"
            ) from None
        except subprocess.TimeoutExpired:
            error = SubmitUncertain if command[0] == "sbatch" and "--parsable" in command else SlurmError
            raise error(f"{command[0]} gave no answer in {self.timeout_s:g} s {self._which()}") from None

    def _scrubbed(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SCRUBBED)}
        return kept | ({"SLURM_CONF": self.slurm_conf} if self.slurm_conf else {})

    def _explained(self, reason: str) -> str:
        if any(text in reason for text in UNREACHABLE):
            return f"the cluster does not answer {self._which()}: {reason}"
        return reason

    def _which(self) -> str:
        return f"(SLURM_CONF={self.slurm_conf})" if self.slurm_conf else "(SLURM_CONF is not set)"


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """What Slurm said, on one line, without the ``sbatch: error:`` in front of each."""
    text = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
    lines = [line.strip() for line in text.splitlines() if line.strip(" *")]
    command = Path(str(done.args[0])).name
    for prefix in (f"{command}: ", "error: ", "fatal: "):
        lines = [line.removeprefix(prefix) for line in lines]
    return "; ".join(dict.fromkeys(lines))
