import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hpc_llm.node import local
from hpc_llm.run import snapshot
from hpc_llm.run.folder import RunFolder


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_private(temporary):
    folder = local.private_folder()
    assert folder == temporary / f"hpc_llm_{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert local.private_folder() == folder


@pytest.mark.parametrize("kind", ["writable by others", "a link"])
def test_a_folder_that_others_may_have_made_is_not_used(temporary, kind):
    planted = temporary / f"hpc_llm_{os.getuid()}"
    if kind == "a link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        planted.symlink_to(temporary / "elsewhere")
    else:
        planted.mkdir()
        planted.chmod(0o777)
    folder = local.private_folder()
    assert folder.resolve() not in (planted.resolve(), planted)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_work_is_imported_from_the_nodes_copy_of_the_snapshot(tmp_path):
    """Two runs of the same code share one path, and so the compiled kernels."""
    places = []
    for name in ("a", "b"):
        code = snapshot.code(RunFolder(tmp_path / name))
        program = (
            "import sys; from pathlib import Path; from hpc_llm.node import local\n"
            f"local.prepare(Path({str(code)!r}))\n"
            "import hpc_llm.data; print(hpc_llm.data.__file__)"
        )
        environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1", "TMPDIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env=environment,
            cwd="/",
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        places.append(Path(done.stdout.strip()))
    assert places[0] == places[1]
    assert places[0].is_relative_to(tmp_path / f"hpc_llm_{os.getuid()}" / "code")
