from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.config.compose import compose
from hpc_llm.config.schema import RestartConfig
from hpc_llm.run import plan
from hpc_llm.run.stage import Stage
from hpc_llm.run.submission import split

ITEMS = [("a.warc", "b.warc"), ("c.warc",)]
PRINTS = [["a.warc", 1, 1], ["b.warc", 2, 2], ["c.warc", 3, 3]]


def graph(*overrides):
    return plan.stages(compose(list(overrides)), ITEMS)


def test_every_stage_follows_its_inputs():
    seen = set()
    for stage in graph():
        assert set(stage.inputs) <= seen
        seen.add(stage.name)
    assert seen >= {
        "read",
        "filter",
        "minhash_cluster",
        "exact_filter",
        "pii",
        "tokenizer",
        "tokenize",
        "train",
        "export",
    }


def test_a_stage_left_out_is_bridged():
    stages = {stage.name: stage for stage in graph("dedup=none", "filters=none", "pii=none")}
    assert list(stages) == ["read", "tokenizer", "tokenize", "train", "export"]
    assert stages["tokenize"].inputs == ("read", "tokenizer")


def test_selection():
    assert [stage.name for stage in plan.selected(graph(), "train")] == ["train", "export"]
    assert "train" not in [stage.name for stage in plan.selected(graph(), "data")]


def test_plan_document_round_trips():
    config = compose([])
    stages = plan.stages(config, ITEMS)
    assert plan.read(plan.document(stages, config, PRINTS)) == stages


def document(*overrides, prints=PRINTS):
    config = compose(list(overrides))
    return plan.document(plan.stages(config, ITEMS), config, prints)


def test_where_it_runs_is_not_part_of_the_plan():
    assert document()["hash"] == document("run.name=x", "stages=data", "+cluster=mini_slurm")["hash"]


def test_difference_names_settings_and_inputs():
    lines = plan.difference(
        document(), document("optim.lr=0.5", prints=[*PRINTS[:2], ["c.warc", 4, 3], ["d", 1, 1]])
    )
    assert "optim.lr: 0.001 -> 0.5" in lines
    assert "input c.warc: changed from (3, 3) to (4, 3)" in lines
    assert "input d: added" in lines
    assert plan.difference(document(), document()) == []


@given(
    shards=st.lists(st.integers(0, 10_000), unique=True, max_size=300),
    per_element=st.integers(1, 7),
    limit=st.integers(1, 40),
)
def test_split_covers_every_shard_once_within_the_index_limit(shards, per_element, limit, tmp_path_factory):
    stage = Stage("read", "array", "m:f", shards=10_001)
    arrays = list(split(stage, shards, tmp_path_factory.getbasetemp(), RestartConfig(), per_element, limit))
    assert [s for array in arrays for element in array.elements for s in element] == shards
    assert all(1 <= len(array.elements) <= limit for array in arrays)
    assert all(len(element) <= per_element for array in arrays for element in array.elements)
    assert len({array.token for array in arrays}) == len(arrays)
