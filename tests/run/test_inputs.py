from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.config.schema import SourceConfig
from hpc_llm.run import inputs


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a.jsonl",
        "b.jsonl.gz",
        "deep/c.ndjson",
        "deep/d.json.zst",
        "e.warc.gz",
        ".hidden.jsonl",
        "f.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * len(name))
    return tmp_path


def names(shards: list[tuple[str, ...]]) -> list[str]:
    return sorted(Path(item).name for shard in shards for item in shard)


def plan(*paths: object, **kwargs: object) -> list[tuple[str, ...]]:
    return inputs.plan(SourceConfig(kind="jsonl", paths=[str(p) for p in paths], **kwargs))


def test_folders_files_and_globs_give_each_file_once(tree: Path) -> None:
    everything = ["a.jsonl", "b.jsonl.gz", "c.ndjson", "d.json.zst"]
    assert names(plan(tree)) == everything
    assert names(plan(tree, tree / "a.jsonl", tree / "*.jsonl", f"{tree}/deep/../a.jsonl")) == everything
    assert names(plan(tree / "*.jsonl*")) == ["a.jsonl", "b.jsonl.gz"]
    assert names(plan(f"{tree}/**/*.zst")) == ["d.json.zst"]
    assert names(plan(tree / "f.txt")) == ["f.txt"]  # named outright


def test_all_faulty_paths_are_named_at_once(tree: Path) -> None:
    with pytest.raises(ValueError) as caught:
        plan(tree / "a.jsonl", tree / "none.jsonl", tree / "*.parquet", tree / "deep" / "..")
    message = str(caught.value)
    assert f"source.paths: '{tree}/none.jsonl' does not exist" in message
    assert f"source.paths: no file matches '{tree}/*.parquet'" in message
    assert "deep" not in message
    with pytest.raises(ValueError, match="no parquet file below"):
        inputs.plan(SourceConfig(kind="parquet", paths=[str(tree)]))
    with pytest.raises(ValueError, match=r"source.paths is empty"):
        plan()
    with pytest.raises(ValueError, match=r"source.kind is 'csv'; allowed: python_env, warc"):
        inputs.plan(SourceConfig(kind="csv"))


def test_shards_are_cut_by_bytes(tmp_path: Path) -> None:
    for i in range(7):
        with (tmp_path / f"{i}.jsonl").open("wb") as file:
            os.truncate(file.fileno(), (i + 1) * 1_000_000)  # 28 MB, sparse
    assert len(plan(tmp_path, shard_mb=10)) == 3
    assert len(plan(tmp_path, shards=5)) == 5
    assert len(plan(tmp_path, shards=50)) == 7
    assert len(plan(tmp_path)) == 1


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 1000), min_size=1), st.integers(1, 20))
def test_every_item_is_in_exactly_one_shard_and_shards_are_balanced(
    sizes: dict[str, int], shards: int
) -> None:
    dealt = inputs.balance(sizes, shards)
    assert sorted(item for shard in dealt for item in shard) == sorted(sizes)
    assert all(dealt)
    assert dealt == inputs.balance(dict(reversed(sizes.items())), shards)
    loads = [sum(sizes[item] for item in shard) for shard in dealt]
    best = max(sum(sizes.values()) / len(dealt), max(sizes.values()))
    assert max(loads) <= 4 / 3 * best + max(
        sizes.values()
    )  # Graham 1969, against a lower bound of the optimum


def test_a_changed_input_changes_the_fingerprint(tree: Path) -> None:
    items = [str(tree / "a.jsonl"), "dist:numpy==1.0"]
    before = inputs.fingerprint(items)
    assert before[0][:2] == (str(tree / "a.jsonl"), 7)
    assert before == inputs.fingerprint(items)
    os.utime(tree / "a.jsonl", ns=(1, 1))
    assert inputs.fingerprint(items) != before


def test_the_python_environment_is_planned_without_importing_it() -> None:
    code = (
        "import sys; from hpc_llm.run import inputs; from hpc_llm.config.schema import SourceConfig;"
        "p = inputs.plan(SourceConfig()); print(len(p), *[i for s in p for i in s]);"
        "bad = {'torch', 'numba', 'pyarrow', 'numpy'} & set(sys.modules); assert not bad, bad"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert out[0] == "8"
    assert any(item.startswith("dist:pyarrow==") for item in out)
    assert any(item.startswith("stdlib:asyncio==") for item in out)
    assert len(out) == len(set(out))
