"""Node-local disk: compiled kernels, and the code that they are compiled from.

Numba's cache is keyed by the path of a source file. Modules are therefore imported from a node-local copy of
the run's code snapshot, whose path holds the code's hash and not the run's name: a node compiles each
version once, whatever the run, and thousands of tasks do not read the same files from shared storage.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import uuid
from pathlib import Path

import hpc_llm


def prepare(snapshot: Path) -> None:
    """Import what is not yet imported of hpc_llm from this node's copy of `snapshot` (``code/<hash>``).

    A process that does not run from `snapshot`, as the debug executor does not, goes on as it is.
    """
    cache = private_folder()
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache / "kernels"))
    if Path(hpc_llm.__file__).parent == snapshot / "hpc_llm":
        hpc_llm.__path__.insert(0, str(_copy(snapshot, cache / "code" / snapshot.name) / "hpc_llm"))


def private_folder() -> Path:
    """A folder in the temporary directory that nobody else can write to: numba's index is a pickle."""
    path = Path(tempfile.gettempdir()) / f"hpc_llm_{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
        return path
    return Path(tempfile.mkdtemp(prefix="hpc_llm_"))


def _copy(source: Path, target: Path) -> Path:
    if not target.is_dir():
        tmp = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        shutil.copytree(source, tmp)
        try:
            tmp.rename(target)
        except OSError:  # another task of this node was first
            shutil.rmtree(tmp, ignore_errors=True)
    return target
