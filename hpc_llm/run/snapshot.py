"""What a job runs and where it ran from: the code snapshot and the environment manifest of a launch."""

from __future__ import annotations

import hashlib
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from hpc_llm.run import atomic
from hpc_llm.run.folder import RunFolder


def code(folder: RunFolder) -> Path:
    """Copy the package's modules to ``code/<hash>/hpc_llm`` and return ``code/<hash>``.

    Keyed by content: launching again with changed code leaves what running jobs import untouched.
    """
    package = Path(__file__).resolve().parent.parent
    files = sorted(path for path in package.rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes() + b"\0")
    target = folder.code / digest.hexdigest()[:16]
    if not target.is_dir():
        tmp = atomic.temporary(target)
        for file in files:
            copy = tmp / "hpc_llm" / file.relative_to(package)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
        tmp.rename(target)
    return target


def environment(code: Path) -> dict[str, Any]:
    """Interpreter, machine and installed packages. No environment variables: they hold secrets."""
    packages = sorted((d.metadata["Name"], d.version) for d in metadata.distributions() if d.metadata["Name"])
    return {
        "python": sys.version,
        "executable": sys.executable,
        "platform": platform.platform(),
        "code": code.name,
        "packages": dict(packages),
    }
