import subprocess
import sys

import pytest

from hpc_llm.config.check import ConfigError
from hpc_llm.config.compose import compose
from hpc_llm.config.schema import Config


def refused(*overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        compose(list(overrides))
    return caught.value.problems


def test_defaults_compose_to_the_typed_tree():
    config = compose([])
    assert isinstance(config, Config)
    assert (config.source.kind, config.cluster.executor, config.model.layers) == ("python_env", "local", 4)


def test_group_choice_and_override():
    config = compose(["source=warc", "source.paths=[/data/*.warc.gz]", "optim.lr=0.01"])
    assert (config.source.kind, config.source.paths, config.optim.lr) == ("warc", ["/data/*.warc.gz"], 0.01)


@pytest.mark.parametrize("cluster", ["mini_slurm", "lustre_ib"])
def test_every_cluster_composes(cluster):
    assert compose([f"+cluster={cluster}"]).cluster.executor == "slurm"


def test_everything_wrong_is_refused_together():
    found = refused(
        "foo=1",
        "train.stepz=3",
        "optim.lr=abc",
        "parallel.tp=3",
        "cluster.array.parallel=0",
        "cluster.train.time=1:2:3:4",
    )
    for text in (
        "foo",
        "stepz",
        "optim.lr",
        "parallel.tp x parallel.pp=3",
        "cluster.array.parallel=0",
        "cluster.train.time",
    ):
        assert any(text in line for line in found), (text, found)


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["parallel.tasks_per_node=8", "parallel.tp=3"], "parallel.tp x parallel.pp=3"),
        (["parallel.tasks_per_node=3", "parallel.tp=3", "train.global_batch=24"], "model.heads=8"),
        (["model.heads=6"], "model.hidden=256"),
        (["model.kv_heads=3"], "model.heads=8"),
        (["train.global_batch=10"], "train.global_batch=10"),
        (["parallel.tasks_per_node=8", "parallel.pp=8"], "parallel.pp=8"),
        (
            ["parallel.tasks_per_node=4", "parallel.pp=4", "train.micro_batch=8"],
            "parallel.pp=4: needs at least as many microbatches",
        ),
        (["parallel.nodes=2"], "parallel.nodes=2"),
        (["train.precision=fp64"], "train.precision=fp64"),
        (["stages=some"], "stages=some"),
        (["run.name=a/b"], "run.name='a/b'"),
        (["run.name=.."], "run.name='..'"),
        (["source=jsonl"], "source.paths=[]"),
        (["cluster.array.time='0'"], "cluster.array.time='0'"),
        (["cluster.array.mem=lots"], "cluster.array.mem='lots'"),
        (["+cluster.environment={BAD-NAME: x}"], "cluster.environment.BAD-NAME"),
    ],
)
def test_impossible_combination_names_key_and_value(overrides, key):
    assert any(line.startswith(key) for line in refused(*overrides)), refused(*overrides)


def test_an_unknown_key_is_answered_with_what_exists():
    [line] = refused("train.stepz=3")
    assert "did you mean train.steps" in line
    [line] = refused("pii.zzzzzz=3")
    assert "pii.emails, pii.ips, pii.phones are known" in line


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("cluster=lustre_ib", "+cluster=lustre_ib"),
        ("source.paths=/data/a.jsonl", "'source.paths=[/data/a.jsonl]'"),
        ("model=tinny", "Available options in 'model': llama_8b small tiny"),
    ],
)
def test_a_usual_slip_is_answered_with_its_mend(override, hint):
    line = next(line for line in refused(override) if hint in line)
    assert "search path" not in line


def test_an_added_key_is_refused_too():
    assert any(
        line.startswith("clustr: not a key (did you mean cluster") for line in refused("+clustr=lustre_ib")
    )
    assert any(line.startswith("optim.foo: not a key") for line in refused("+optim.foo=1"))


def test_environment_variables_are_free():
    assert compose(["+cluster.environment.NCCL_DEBUG=WARN"]).cluster.environment == {"NCCL_DEBUG": "WARN"}


def test_a_site_folder_comes_first(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tiny.yaml").write_text("layers: 2\n")
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "ours.yaml").write_text("executor: slurm\naccount: physics\n")
    config = compose(["+cluster=ours"], config_dir=str(tmp_path))
    assert (config.model.layers, config.cluster.account) == (2, "physics")


def test_an_unknown_key_in_a_site_file_is_refused(tmp_path):
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "ours.yaml").write_text("executer: slurm\n")
    with pytest.raises(ConfigError, match="executer"):
        compose(["+cluster=ours"], config_dir=str(tmp_path))


def test_login_node_commands_import_no_torch_and_start_within_a_second_of_cpu():
    code = (
        "import sys, time\n"
        "import hpc_llm.launch, hpc_llm.status\n"
        "assert hpc_llm.launch.main(['dry_run=true', '+cluster=lustre_ib', 'run.root=/nowhere']) == 0\n"
        "heavy = {'torch', 'numba', 'pyarrow', 'datatrove', 'numpy'} & set(sys.modules)\n"
        "print('heavy', sorted(heavy))\n"
        "print('cpu', time.process_time())\n"
    )
    # CPU time, not wall time: what the launcher costs before Slurm is asked anything. The least of three,
    # since a core that is shared with another process makes the same work dearer.
    seconds = []
    for _ in range(3):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert out.returncode == 0, out.stderr
        assert "heavy []" in out.stdout
        seconds.append(float(out.stdout.rsplit("cpu ", 1)[1]))
    assert min(seconds) < 1.0
