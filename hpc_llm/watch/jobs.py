"""A run's jobs in squeue and sacct, and scancel. The only part of watch that leaves the run folder."""

from __future__ import annotations

from hpc_llm.run import journal
from hpc_llm.run.folder import RunFolder
from hpc_llm.slurm.client import Client, SlurmError
from hpc_llm.watch.summary import Jobs


def ask(folder: RunFolder) -> tuple[dict[str, Jobs] | None, str]:
    """The state of every job by stage, and a line for the person when something did not answer.

    The states are None when squeue was not to be asked: a stage whose jobs cannot be seen is unknown,
    not gone. Without accounting the queue alone answers.
    """
    stages = {
        event["job"]: event["stage"]
        for event in journal.read(folder.journal)
        if event.get("event") == "submitted"
    }
    if not stages:
        return {}, ""
    found: dict[str, Jobs] = {stage: Jobs() for stage in stages.values()}
    try:
        client = Client(_slurm_conf(folder), timeout_s=20)
        queue = client.queue(list(stages))
        accounting = client.accounting(list(stages))
    except SlurmError as error:
        return None, f"job states are not known: {error}"
    for run in accounting or []:
        stage = stages.get(run.job_id.partition("_")[0])
        if stage is not None and run.state.ended:
            found[stage].ended[run.job_id] = run.raw_state
    for row in queue:
        stage = stages.get(row.job_id.partition("_")[0])
        if stage is not None:
            shown = f"{row.raw_state} ({row.reason})" if row.reason else row.raw_state
            (found[stage].ended if row.state.ended else found[stage].live)[row.job_id] = shown
    note = (
        ""
        if accounting is not None
        else "this cluster keeps no accounting (sacct): states are from squeue alone"
    )
    return found, note


def cancel(folder: RunFolder) -> list[str]:
    """Cancel the run's waiting and running jobs; returns their ids. Raises SlurmError."""
    submitted = [event["job"] for event in journal.read(folder.journal) if event.get("event") == "submitted"]
    if not submitted:
        return []
    client = Client(_slurm_conf(folder))
    rows = client.queue(submitted)
    live = sorted({row.job_id.partition("_")[0] for row in rows if not row.state.ended}, key=int)
    client.cancel(live)
    return live


def _slurm_conf(folder: RunFolder) -> str | None:
    """``cluster.slurm_conf`` of the run, read without the schema: a run of an older version must show too."""
    from omegaconf import OmegaConf

    return OmegaConf.select(OmegaConf.load(folder.config), "cluster.slurm_conf")
