"""Compose a configuration, check it, and run or submit the whole graph.

    python -m hpc_llm.launch [GROUP=OPTION ...] [KEY=VALUE ...] [+cluster=NAME]

Without a cluster the graph runs on this machine; with one, every job is submitted and this command ends.
``--help`` lists groups and keys. Exit codes: 0 done or submitted, 1 the work failed, 2 refused.
"""

from __future__ import annotations

import signal
import sys

from hpc_llm.config import command
from hpc_llm.config.check import ConfigError
from hpc_llm.config.schema import Config
from hpc_llm.run import local, lock, preflight, preparation
from hpc_llm.run.preparation import Prepared, Refused
from hpc_llm.watch import progress, render, tables, terminal
from hpc_llm.watch.summary import summary

DEFAULT_MAX_ARRAY_SIZE = 1001  # slurm.conf(5): what a dry run splits at, since it asks no cluster


def main(arguments: list[str] | None = None) -> int:
    try:
        configs = command.parse(sys.argv[1:] if arguments is None else arguments)
        return max((launch(config) for config in configs), default=0)
    except ConfigError as error:
        print(
            "refused: nothing was submitted",
            *(f"  {line}" for line in error.problems),
            sep="\n",
            file=sys.stderr,
        )
    except Refused as error:
        print(f"refused: {error}", file=sys.stderr)
    return 2


def launch(config: Config) -> int:
    """Run or submit what `config` describes; returns the exit code. Raises Refused before anything is done."""
    prepared = preparation.prepare(config)
    if config.dry_run:
        return _dry_run(prepared)
    return _submit(prepared) if config.cluster.executor == "slurm" else _run_here(prepared)


def _dry_run(prepared: Prepared) -> int:
    rows = [
        (s.name, s.kind, s.shards, len(prepared.unfinished(s)), " ".join(s.inputs)) for s in prepared.selected
    ]
    print(tables.render(("stage", "kind", "shards", "to do", "reads"), rows, "llrrl"))
    if prepared.config.cluster.executor == "slurm":
        from hpc_llm.run import queueing

        code = prepared.folder.code / "<hash>"
        for stage, text, overridden in queueing.preview(prepared, code, DEFAULT_MAX_ARRAY_SIZE):
            note = f"  (the template sets {', '.join(overridden)})" if overridden else ""
            print(f"\n# ---- {stage.name}{note}\n{text}")
    print(f"\ndry run: nothing was written or submitted. The run folder would be {prepared.folder.path}")
    return 0


def _run_here(prepared: Prepared) -> int:
    folder, config = prepared.folder, prepared.config
    todo = sum(len(prepared.unfinished(stage)) for stage in prepared.selected)
    if todo == 0:
        _print_report(prepared)
        print(f"\nall is done: nothing of {folder.name} was left to do. Start another run with run.name=...")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, and takes its jobs along
    code = preparation.create(prepared)
    print(
        f"run {folder.name}: {len(prepared.selected)} stages on this machine, {todo} shards to do; {folder.path}"
    )
    try:
        local.run(prepared, code, progress.Progress(folder, prepared.selected, config.train.steps))
    except lock.Held as error:
        raise Refused(f"{error}: {folder.path}. Wait for it or stop it, then launch again") from error
    except local.StageFailed as error:
        print(f"\nfailed: {error}\nlaunch again to go on from what is finished", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped. Launch again to go on from what is finished", file=sys.stderr)
        return 1
    _print_report(prepared)
    return 0


def _print_report(prepared: Prepared) -> None:
    found = summary(prepared.folder)
    print(f"\n{render.report(found)}\n\n{render.where(found['run'], prepared.folder.export.is_dir())}")


def _submit(prepared: Prepared) -> int:
    from hpc_llm.run import queueing
    from hpc_llm.slurm.client import Client, SlurmError

    config, folder = prepared.config, prepared.folder
    try:
        client = Client(config.cluster.slurm_conf)
        limits = client.config()
        found = list(preflight.problems(config, client.partitions()))
        if found:
            raise ConfigError(found)
        queueing.rehearse(prepared, client, limits)
        code = preparation.create(prepared)
        rows = queueing.queue(prepared, code, client, limits)
    except SlurmError as error:
        raise Refused(str(error)) from error
    table = [(r.stage.name, ", ".join(r.jobs), r.elements or "", r.stage.shards, r.note) for r in rows]
    print(tables.render(("stage", "jobs", "elements", "shards", ""), table, "llrrl"))
    count = sum(1 for row in rows if row.elements)
    said = f"submitted {count} stages" if count else "nothing to submit: all is done or queued"
    print(f"\n{said}; run folder {folder.path}\nfollow it with: python -m hpc_llm.status {folder.path}")
    return 0


if __name__ == "__main__":
    sys.exit(terminal.run(main))
