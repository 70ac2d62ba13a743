"""Show what became of a run: stages, jobs, documents, tokens, training.

    python -m hpc_llm.status RUN_FOLDER [--json]

Reads the run folder, and asks squeue and sacct where they answer. Exit codes: 0 shown, 2 no such run.
"""

from __future__ import annotations

import argparse
import json
import sys

from hpc_llm.run.folder import RunFolder
from hpc_llm.watch import render, terminal
from hpc_llm.watch.jobs import ask
from hpc_llm.watch.summary import summary


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hpc_llm.status", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("run", help="run folder: <run.root>/<run.name>")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args(arguments)
    folder = RunFolder(options.run)
    if not folder.plan.is_file():
        print(f"{folder.path}: no run there (it has no plan.json)", file=sys.stderr)
        return 2
    jobs, note = ask(folder)
    found = summary(folder, jobs)
    if options.json:
        print(json.dumps({**found, "note": note}, indent=1))
        return 0
    print(f"{folder.name}: {found['state']}\n\n{render.stages(found)}\n\n{render.report(found)}\n")
    if found["failures"]:
        print(f"{render.failures(found)}\n")
    print(render.where(found["run"], folder.export.is_dir()))
    if note:
        print(f"\n{note}")
    return 0


if __name__ == "__main__":
    sys.exit(terminal.run(main))
