"""The structure itself: layers, packaging."""

import ast
import configparser
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "hpc_llm").rglob("*.py"))

# package: what it may import of this project, beside itself.
ALLOWED = {
    "config": {"slurm"},
    "slurm": set(),
    "node": {"slurm"},
    "run": {"config", "slurm", "node"},
    "data": {"run", "config"},
    "model": {"config", "parallel"},
    "parallel": {"config", "model"},
    "train": {"run", "config", "node", "data", "model", "parallel"},
    "export": {"run", "config", "data", "train", "model"},
    "watch": {"run", "slurm"},
}
LOGIN_NODE = ("config", "slurm", "node", "run", "watch")
HEAVY = {
    "torch",
    "numba",
    "pyarrow",
    "numpy",
    "datatrove",
    "tokenizers",
    "fastwarc",
    "orjson",
    "transformers",
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_floor_imports_only_the_floors_below(package):
    for path in (ROOT / "hpc_llm" / package).rglob("*.py"):
        ours = {
            name.split(".")[1]
            for name in imports(path)
            if name.startswith("hpc_llm.") and name.count(".") > 1
        }
        assert ours <= ALLOWED[package] | {package}, path


@pytest.mark.parametrize("package", LOGIN_NODE)
def test_login_node_packages_name_no_heavy_import(package):
    for path in (ROOT / "hpc_llm" / package).rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & HEAVY, path


def test_no_pickle_is_loaded():
    for path in MODULES:
        text = path.read_text()
        assert "pickle.load" not in text and "weights_only=False" not in text, path


def test_every_package_is_installed():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    present = {str(p.parent.relative_to(ROOT)).replace("/", ".") for p in MODULES if p.name == "__init__.py"}
    assert listed == present | {"hpc_llm.conf", "hpc_llm.sbatch_templates"}


def test_wheel_works_outside_the_checkout(tmp_path):
    source = (
        tmp_path / "source"
    )  # setuptools builds in the tree and would leave its build folder in the checkout
    for name in ("hpc_llm", "conf", "sbatch_templates"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(source),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-m", "hpc_llm.launch", "dry_run=true", "+cluster=lustre_ib"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "nothing was written or submitted" in done.stdout and "#SBATCH" in done.stdout
