"""What every command does around its work in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from hpc_llm.run.atomic import Damaged


def run(main: Callable[[], int]) -> int:
    """The exit code of `main`. A pipe that its reader closed (``| head``) is no error, a damaged file one line."""
    try:
        code = main()
        sys.stdout.flush()
        return code
    except Damaged as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
