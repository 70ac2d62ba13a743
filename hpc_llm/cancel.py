"""Cancel every job of a run that waits or runs on Slurm. What is finished stays; launching again goes on from it.

    python -m hpc_llm.cancel RUN_FOLDER

Exit codes: 0 cancelled, or nothing was left to cancel; 2 no such run, or Slurm did not answer.
"""

from __future__ import annotations

import argparse
import sys

from hpc_llm.run.folder import RunFolder
from hpc_llm.slurm.client import SlurmError
from hpc_llm.watch import jobs, terminal


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hpc_llm.cancel", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("run", help="run folder: <run.root>/<run.name>")
    folder = RunFolder(parser.parse_args(arguments).run)
    if not folder.plan.is_file():
        print(f"{folder.path}: no run there (it has no plan.json)", file=sys.stderr)
        return 2
    try:
        cancelled = jobs.cancel(folder)
    except SlurmError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"cancelled {', '.join(cancelled)}" if cancelled else "nothing of this run waits or runs on Slurm")
    return 0


if __name__ == "__main__":
    sys.exit(terminal.run(main))
