import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.config.compose import compose
from hpc_llm.run import atomic, journal, snapshot
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage


def shard(tmp_path: Path) -> Shard:
    stage = Stage("read", "array", "m:f", shards=2)
    return Shard(RunFolder(tmp_path), compose([]), {"read": stage}, stage, 1)


def test_output_appears_whole_and_is_in_the_record(tmp_path):
    one = shard(tmp_path)
    with one.output(".txt") as path:
        path.write_text("hello")
        assert not one.folder.output("read", 1, ".txt").exists()
    one.account.documents_in = one.account.documents_out = 3
    one.finish()
    assert one.folder.output("read", 1, ".txt").read_text() == "hello"
    record = json.loads(one.folder.record("read", 1).read_text())
    assert record["outputs"] == {"00001.txt": 5}


def test_a_failed_output_leaves_nothing(tmp_path):
    one = shard(tmp_path)
    with pytest.raises(RuntimeError), one.output(".txt") as path:
        path.write_text("half")
        raise RuntimeError
    assert list((tmp_path / "stages" / "read" / "out").iterdir()) == []


def test_an_unbalanced_account_is_not_recorded(tmp_path):
    one = shard(tmp_path)
    one.account.documents_in = 3
    one.account.drop("short")
    one.account.quarantine("f", 7, "bad")
    with pytest.raises(ValueError, match="does not balance: 3 in, 0 out, 1 dropped, 1 quarantined"):
        one.finish()
    assert not one.folder.record("read", 1).exists()


@given(
    events=st.lists(
        st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=3), max_size=6
    )
)
def test_journal_returns_what_was_appended(events, tmp_path_factory):
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    for event in events:
        journal.append(path, {"e": event})
    assert [event["e"] for event in journal.read(path)] == events


def test_a_torn_last_line_costs_only_itself(tmp_path):
    path = tmp_path / "j.jsonl"
    journal.append(path, {"n": 1})
    with path.open("a") as stream:
        stream.write('{"n": 2, "half')
    journal.append(path, {"n": 3})
    assert [event["n"] for event in journal.read(path)] == [1, 3]


def test_publish_replaces_whole_files(tmp_path):
    path = tmp_path / "a.json"
    atomic.write_json(path, {"a": 1})
    atomic.write_json(path, {"a": 2})
    assert atomic.read_json(path) == {"a": 2}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_snapshot_is_keyed_by_content(tmp_path):
    folder = RunFolder(tmp_path)
    code = snapshot.code(folder)
    assert code == snapshot.code(folder)
    assert (code / "hpc_llm" / "run" / "worker.py").is_file()


def test_an_input_that_was_cut_is_named_with_its_cure(tmp_path):
    first = shard(tmp_path)
    with first.output(".txt") as path:
        path.write_text("hello")
    first.finish()
    second = Stage("filter", "array", "m:f", inputs=("read",), shards=2)
    after = Shard(first.folder, first.config, {**first.stages, "filter": second}, second, 1)
    after.check_inputs()
    file = first.folder.output("read", 1, ".txt")
    file.write_text("hell")
    with pytest.raises(ValueError, match=r"00001\.txt has 4 bytes, not the 5 .* remove .*done/00001\.json"):
        after.check_inputs()
    file.unlink()
    with pytest.raises(ValueError, match=r"00001\.txt is gone"):
        after.check_inputs()


def test_a_damaged_json_file_is_named(tmp_path):
    (tmp_path / "a.json").write_text('{"a": ')
    with pytest.raises(atomic.Damaged, match=r"a\.json is damaged"):
        atomic.read_json(tmp_path / "a.json")
