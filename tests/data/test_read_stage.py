from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hpc_llm.config.schema import Config, SourceConfig
from hpc_llm.data import documents
from hpc_llm.data.read import python_env, stage
from hpc_llm.data.read.outcome import Document, Dropped
from hpc_llm.run import inputs
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage


def run(tmp_path: Path, source: SourceConfig) -> Shard:
    items = tuple(inputs.plan(source))
    plan = Stage("read", "array", "hpc_llm.data.read.stage:run", shards=len(items), items=items)
    shard = Shard(RunFolder(tmp_path / "run"), Config(source=source), {"read": plan}, plan, 0)
    stage.run(shard)
    shard.finish()
    return shard


def lines(good: int, bad: int = 0, empty: int = 0) -> bytes:
    return b'{"text": "\xc3\xa9"}\n' * good + b"{\n" * bad + b'{"text": ""}\n' * empty


def test_every_record_is_accounted_for_and_bad_ones_are_shown(tmp_path: Path, capsys) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(40, 2, 3))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines(5))[:-6])
    (tmp_path / "c.jsonl").write_bytes(b"")
    shard = run(tmp_path, SourceConfig(kind="jsonl", paths=[str(tmp_path)], shards=1))
    account = shard.account
    assert (account.documents_in, account.documents_out, account.bytes_out) == (51, 45, 90)
    assert account.dropped == {"empty_text": 3}
    assert [(Path(q.file).name, q.offset) for q in account.quarantined] == [
        ("a.jsonl", 600),
        ("a.jsonl", 602),
        ("b.jsonl.gz", 75),
    ]
    printed = capsys.readouterr().out
    assert f"quarantined {tmp_path}/a.jsonl offset 600: invalid JSON" in printed
    assert f"quarantined {tmp_path}/b.jsonl.gz offset 75: truncated gzip" in printed
    assert shard.account.notes == [f"{tmp_path}/c.jsonl: no records"]
    assert documents.count(shard.folder.output("read", 0, ".parquet")) == 45
    skipped = pq.read_table(shard.folder.output("read", 0, ".skipped.parquet")).to_pylist()
    assert [(Path(row["file"]).name, row["offset"]) for row in skipped if row["reason"] == "empty_text"] == [
        ("a.jsonl", 604),
        ("a.jsonl", 617),
        ("a.jsonl", 630),
    ]
    assert len(skipped) == 6


@pytest.mark.parametrize(
    ("good", "bad", "allowed", "fails"),
    [(100, 11, 0.1, False), (100, 12, 0.1, True), (1, 3, 0.1, False), (0, 4, 0.1, True), (100, 1, 0.0, True)],
)
def test_too_many_bad_records_fail_the_shard(
    tmp_path: Path, good: int, bad: int, allowed: float, fails: bool
) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(good, bad))
    source = SourceConfig(kind="jsonl", paths=[str(tmp_path)], max_bad_fraction=allowed)
    if not fails:
        run(tmp_path, source)
        return
    with pytest.raises(ValueError, match=rf"source.max_bad_fraction.*a.jsonl offset {good * 15}"):
        run(tmp_path, source)
    assert not (tmp_path / "run" / "stages" / "read" / "out" / "00000.parquet").exists()


MODULE = '''"""Short module text."""
import torch_that_does_not_exist

class A:
    """%s"""
    def f(self):
        "Short f."
        if True:
            async def g():
                r"""%s"""

    @overload
    def f(self, x): "Second f."
'''


def test_docstrings_are_found_without_importing_and_short_ones_joined() -> None:
    long, other = "A long text. " * 20, "Another long text. " * 20
    out = list(python_env._docstrings((MODULE % (long, other)).encode(), "p==1", "p/m.py"))
    assert [(o.id, o.text) for o in out] == [
        ("p==1/p/m.py#A:4", long.strip()),
        ("p==1/p/m.py#A.f.g:9", other.strip()),
        ("p==1/p/m.py", "Short module text.\n\nShort f.\n\nSecond f."),
    ]
    assert list(python_env._docstrings(b"print 'python 2'", "p==1", "p/m.py")) == [Dropped("python_syntax")]
    assert list(python_env._docstrings(b'"\\ud800"', "p==1", "p/m.py")) == [Dropped("not_utf8")]


def test_long_descriptions_come_from_body_or_header() -> None:
    assert python_env._description("Name: x\nVersion: 1\n\nBody\n\ntext") == "Body\n\ntext"
    folded = "Name: x\nDescription: One\n        two\n        \n        three\nVersion: 1\n"
    assert python_env._description(folded) == "One\ntwo\n\nthree"
    assert python_env._description("Name: x\n") == ""


def test_the_environment_gives_the_same_documents_every_time() -> None:
    (item,) = (i for i in inputs.python_env() if i.startswith("dist:numpy=="))
    first = [o for o in python_env.read(item, SourceConfig()) if isinstance(o, Document)]
    assert first == [o for o in python_env.read(item, SourceConfig()) if isinstance(o, Document)]
    assert len({o.id for o in first}) == len(first) > 500
    kinds = {json.loads(o.meta)["kind"] for o in first}
    assert {"readme", "licence", "docstring", "docstrings"} <= kinds
    assert any("NumPy" in o.text and len(o.text) > 1000 for o in first)
    (item,) = (i for i in inputs.python_env() if i.startswith("stdlib:json=="))
    names = [o.id for o in python_env.read(item, SourceConfig()) if isinstance(o, Document)]
    assert any("json/decoder.py#JSONDecoder" in name for name in names)


@pytest.mark.parametrize("item", ["dist:numpy==0.0.1", "dist:no-such-package==1", "stdlib:nothing==3"])
def test_another_environment_than_the_planned_one_is_refused(item: str) -> None:
    with pytest.raises(ValueError, match=f"planned with {item.partition(':')[2]}"):
        list(python_env.read(item, SourceConfig()))
