"""Exit codes between the work, the batch script and Slurm. None is above 125, where shells put their own."""

from __future__ import annotations

DONE = 0
FAILED = 1
REFUSED = 2  # the work cannot be done as asked; a restart would say the same
STOPPED = 85  # the work was asked to stop, and has saved what it had

# What `hpc_llm.run.attempt` answers to the batch script.
GO_ON = 0  # start: work; end: all is done
RESTART = 86
GIVE_UP = 87
