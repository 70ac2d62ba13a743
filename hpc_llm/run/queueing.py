"""The graph on Slurm: one sbatch for each array, chained by afterok, through submitit and an ops template."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import DelayedSubmission
from submitit.slurm.slurm import SlurmJob

from hpc_llm.config.compose import packaged
from hpc_llm.config.schema import Config
from hpc_llm.run import atomic, journal
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.preparation import Prepared, Refused
from hpc_llm.run.stage import Stage
from hpc_llm.run.submission import Submission, split
from hpc_llm.run.worker import Payload
from hpc_llm.slurm import template
from hpc_llm.slurm.client import Client, SlurmError, SubmitUncertain
from hpc_llm.slurm.limits import ClusterLimits
from hpc_llm.slurm.rows import QueueRow


@dataclass
class Queued:
    """What became of one stage in this launch."""

    stage: Stage
    jobs: list[str] = field(default_factory=list)  # all that wait or run, those of earlier launches too
    submitted: list[str] = field(default_factory=list)  # by this launch
    elements: int = 0
    note: str = ""


class TemplateExecutor(submitit.SlurmExecutor):
    """submitit's Slurm executor with two things replaced.

    The script comes from the site's template, and the payload is the JSON file of a `Submission`,
    written before sbatch: submitit itself renames a pickle after it, so a login node that dies in
    between leaves a job without its work.
    """

    def __init__(self, folder: RunFolder, stage: Stage, client: Client, script: str) -> None:
        super().__init__(folder.logs(stage.name))
        self._client = client
        self._script = script

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        return self._script

    def _internal_process_submissions(self, delayed_submissions: list[DelayedSubmission]) -> list[Any]:
        jobs: list[SlurmJob[int]] = []
        for delayed in delayed_submissions:
            payload = delayed.function
            assert isinstance(payload, Payload)
            path = Path(payload.submission).with_suffix(".sbatch")
            atomic.write_text(path, self._make_submission_file_text("", ""))
            job_id = self._client.submit(path)
            jobs.append(SlurmJob(folder=self.folder, job_id=job_id, tasks=[0]))
        return jobs


def templates(config: Config) -> dict[str, template.Template]:
    """The two templates, by stage kind. Raises Refused when one is missing or broken, naming the line."""
    folder = Path(config.cluster.templates) if config.cluster.templates else packaged("sbatch_templates")
    found = {}
    for kind, name in (("array", "array.sbatch"), ("gang", "train.sbatch")):
        try:
            found[kind] = template.read(folder / name)
        except FileNotFoundError as error:
            raise Refused(f"cluster.templates={folder}: {name} is missing") from error
        except (ValueError, OSError) as error:
            raise Refused(str(error)) from error
    return found


def script(
    prepared: Prepared,
    stage: Stage,
    submission: Submission,
    dependencies: Sequence[str],
    form: template.Template,
) -> tuple[str, list[str]]:
    """The sbatch script of one submission, and which of the config's options the template overrides."""
    config, folder = prepared.config, prepared.folder
    cluster = config.cluster
    gang = stage.kind == "gang"
    resources = cluster.train if gang else cluster.array
    options: dict[str, str | None] = {
        "job-name": job_name(folder, stage.name, submission.token),
        # A percent sign of the path itself is doubled, or Slurm would take it for a pattern.
        "output": str(folder.logs(stage.name)).replace("%", "%%") + ("/%j.log" if gang else "/%A_%a.log"),
        "open-mode": "append",
        "requeue": None,
        "kill-on-invalid-dep": "yes",
        "signal": f"B:USR2@{cluster.restart.signal_lead_s}",
        "time": resources.time,
        "nodes": str(config.parallel.nodes if gang else 1),
        "ntasks-per-node": str(config.parallel.tasks_per_node if gang else 1),
        "cpus-per-task": str(cluster.train.cpus_per_task if gang else cluster.array.cpus),
    }
    if not gang:
        throttle = f"%{cluster.array.parallel}" if cluster.array.parallel else ""
        options["array"] = f"0-{len(submission.elements) - 1}{throttle}"
    elif cluster.train.gpus_per_node:
        options["gpus-per-node"] = str(cluster.train.gpus_per_node)
    if dependencies:
        options["dependency"] = "afterok:" + ":".join(dependencies)
    optional = {
        "partition": resources.partition,
        "mem": resources.mem,
        "account": cluster.account,
        "qos": cluster.qos,
        "constraint": cluster.constraint,
    }
    options.update({key: value for key, value in optional.items() if value is not None})
    values = {
        "HPC_LLM_RUN": str(folder.path),
        "HPC_LLM_STAGE": stage.name,
        "HPC_LLM_SUBMISSION": str(submission.path(folder)),
        "HPC_LLM_PYTHON": sys.executable,
        "HPC_LLM_CODE": submission.code,
        "HPC_LLM_CPUS": options["cpus-per-task"] or "1",
    }
    environment = dict(cluster.environment)
    if cluster.interface:
        environment |= {"GLOO_SOCKET_IFNAME": cluster.interface, "NCCL_SOCKET_IFNAME": cluster.interface}
    return template.fill(form, options, values, environment)


def preview(prepared: Prepared, code: Path, max_array_size: int) -> list[tuple[Stage, str, list[str]]]:
    """What `queue` would submit on an empty cluster: stage, script, overridden options. Writes nothing."""
    forms = templates(prepared.config)
    shown: list[tuple[Stage, str, list[str]]] = []
    placeholders: dict[str, list[str]] = {}
    for stage in prepared.selected:
        todo = prepared.unfinished(stage)
        dependencies = [job for name in stage.inputs for job in placeholders.get(name, [])]
        for number, submission in enumerate(_split(prepared, stage, todo, code, max_array_size)):
            text, overridden = script(prepared, stage, submission, dependencies, forms[stage.kind])
            shown.append((stage, text, overridden))
            placeholders.setdefault(stage.name, []).append(f"<{stage.name}.{number}>")
    return shown


def rehearse(prepared: Prepared, client: Client, limits: ClusterLimits) -> None:
    """Ask Slurm whether it would take each kind of job, before anything is written or submitted.

    Raises Refused with Slurm's reason and the part of the configuration that asks for it.
    """
    forms = templates(prepared.config)
    kinds: dict[str, Stage] = {}
    for stage in prepared.selected:
        if prepared.unfinished(stage):
            kinds.setdefault(stage.kind, stage)
    for kind, stage in kinds.items():
        todo = prepared.unfinished(stage)
        submission = _split(prepared, stage, todo, prepared.folder.code, limits.max_array_size)[0]
        text, _ = script(prepared, stage, submission, [], forms[kind])
        with tempfile.NamedTemporaryFile("w", prefix="hpc_llm_", suffix=".sbatch") as file:
            file.write(text)
            file.flush()
            try:
                client.test_only(Path(file.name))
            except SlurmError as error:
                part = "cluster.train, parallel" if kind == "gang" else "cluster.array"
                asked = [
                    line
                    for line in text.splitlines()
                    if line.startswith("#SBATCH") and _RESOURCE.search(line)
                ]
                raise Refused(
                    f"Slurm would not take {stage.name}: {str(error).rpartition(': ')[2]}. It asks for "
                    f"{' '.join(line.removeprefix('#SBATCH ') for line in asked)}: see {part}, cluster.account, "
                    "cluster.qos, cluster.constraint and the template"
                ) from error


# What of a script can be more than a cluster has.
_RESOURCE = re.compile(
    r"-(partition|account|qos|constraint|time|nodes|ntasks|cpus|mem|gpus|gres|[ACNcnptqG] )"
)


def queue(prepared: Prepared, code: Path, client: Client, limits: ClusterLimits) -> list[Queued]:
    """Submit what is neither finished nor already queued, in graph order.

    Each sbatch is preceded by an ``intent`` line in the journal and followed by a ``submitted`` one; a
    token with only the first is looked up in the queue, so an answer lost with the launcher is found again.

    Raises SlurmError when sbatch fails in the middle: what this call had submitted is cancelled by then.
    """
    rows: list[Queued] = []
    try:
        _queue(prepared, code, client, limits, rows)
    except SubmitUncertain:
        raise  # the job may stand in the queue; the next launch finds it by its name
    except SlurmError:
        client.cancel([job for row in rows for job in row.submitted])
        raise
    return rows


def _queue(prepared: Prepared, code: Path, client: Client, limits: ClusterLimits, rows: list[Queued]) -> None:
    folder = prepared.folder
    forms = templates(prepared.config)
    live = _live(prepared, client)
    jobs: dict[str, list[str]] = {}
    for stage in prepared.selected:
        row = Queued(stage)
        rows.append(row)
        covered = {shard for _, shards in live.get(stage.name, []) for shard in shards}
        row.jobs = [job for job, _ in live.get(stage.name, [])]
        missing = prepared.unfinished(stage)
        todo = [shard for shard in missing if shard not in covered]
        if not missing:
            row.note = "done"
        elif not todo:
            row.note = "already queued"
        dependencies = [job for name in stage.inputs for job in jobs.get(name, [])]
        for submission in _split(prepared, stage, todo, code, limits.max_array_size):
            text, overridden = script(prepared, stage, submission, dependencies, forms[stage.kind])
            path = submission.write(folder)
            event = {"stage": stage.name, "token": submission.token}
            journal.append(folder.journal, {"event": "intent", **event})
            folder.logs(stage.name).mkdir(parents=True, exist_ok=True)
            executor = TemplateExecutor(folder, stage, client, text)
            job = executor.submit(Payload(str(folder.path), stage.name, str(path), 0))
            journal.append(folder.journal, {"event": "submitted", "job": job.job_id, **event})
            row.jobs.append(job.job_id)
            row.submitted.append(job.job_id)
            row.elements += len(submission.elements)
            row.note = f"template sets {', '.join(overridden)}" if overridden else ""
        jobs[stage.name] = row.jobs


def _split(
    prepared: Prepared, stage: Stage, todo: list[int], code: Path, max_array_size: int
) -> list[Submission]:
    cluster = prepared.config.cluster
    return list(split(stage, todo, code, cluster.restart, cluster.array.shards_per_element, max_array_size))


def submitted_jobs(folder: RunFolder, rows: Sequence[QueueRow]) -> dict[str, tuple[str, str]]:
    """``{token: (stage, job id)}`` of every submission; a job whose id was never recorded is found by its name."""
    by_name = {row.name: row.job_id.partition("_")[0] for row in rows}
    found: dict[str, tuple[str, str]] = {}
    for event in journal.read(folder.journal):
        if event.get("event") == "submitted":
            found[event["token"]] = (event["stage"], event["job"])
        elif event.get("event") == "intent":
            job = by_name.get(job_name(folder, event["stage"], event["token"]))
            if job is not None:
                found.setdefault(event["token"], (event["stage"], job))
    return found


def job_name(folder: RunFolder, stage: str, token: str) -> str:
    """The token makes the name unique, so that squeue finds one submission."""
    return f"{folder.name}.{stage}.{token}"


def _live(prepared: Prepared, client: Client) -> dict[str, list[tuple[str, set[int]]]]:
    """Jobs of this run that wait or run: ``{stage: [(job id, shards that they will do)]}``."""
    folder = prepared.folder
    rows = [row for row in client.queue() if not row.state.ended] if folder.journal.exists() else []
    live: dict[str, list[tuple[str, set[int]]]] = {}
    for token, (stage, job) in submitted_jobs(folder, rows).items():
        ids = {element for row in rows for element in row.ids if element.partition("_")[0] == job}
        if ids:
            elements = Submission.read(folder.submissions(stage) / f"{token}.json").elements
            numbers = {int(element.partition("_")[2] or 0) for element in ids}
            live.setdefault(stage, []).append((job, {shard for i in numbers for shard in elements[i]}))
    return live
