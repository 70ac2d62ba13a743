import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_llm.config import command
from hpc_llm.config.check import ConfigError


def test_plain_arguments_are_one_config():
    [config] = command.parse(["run.name=a", "optim.lr=0.5"])
    assert (config.run.name, config.optim.lr) == ("a", 0.5)


def test_sweep_names_each_run_after_its_point():
    configs = command.parse(["-m", "run.name=s", "optim.lr=0.1,0.2", "train.seed=range(0,2)"])
    assert [(c.run.name, c.optim.lr, c.train.seed) for c in configs] == [
        ("s-optim.lr_0.1-train.seed_0", 0.1, 0),
        ("s-optim.lr_0.1-train.seed_1", 0.1, 1),
        ("s-optim.lr_0.2-train.seed_0", 0.2, 0),
        ("s-optim.lr_0.2-train.seed_1", 0.2, 1),
    ]


def test_the_sweep_flag_may_stand_anywhere():
    assert len(command.parse(["run.name=s", "-m", "optim.lr=0.1,0.2"])) == 2


def test_sweep_over_names_keeps_them():
    assert [c.run.name for c in command.parse(["-m", "run.name=a,b"])] == ["a", "b"]


def test_one_bad_point_refuses_the_whole_sweep():
    with pytest.raises(ConfigError, match="train\\.global_batch=10"):
        command.parse(["-m", "train.global_batch=16,10"])


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], "Exit codes: 0 done or submitted"),
        (["--cfg", "job", "optim.lr=0.25"], "lr: 0.25"),
        (["--info", "defaults"], "model"),
    ],
)
def test_hydra_describes_the_config(arguments, shown, capsys):
    assert command.parse(arguments) == []
    assert shown in capsys.readouterr().out


def test_tab_completion_offers_groups_and_keys(capsys, monkeypatch):
    monkeypatch.setenv("COMP_LINE", "python -m hpc_llm.launch source=")
    monkeypatch.setenv("COMP_POINT", "32")
    command.parse(["-sc", "query=bash"])
    assert {"source=warc", "source=jsonl", "source=parquet", "source=python_env"} <= set(
        capsys.readouterr().out.split()
    )


def test_bash_completes_a_module_command():
    """The installed function in a real bash, with the command line as bash hands it over."""
    line = "python -m hpc_llm.launch optim.warm"
    script = (
        f"source <({sys.executable} -m hpc_llm.launch -sc install=bash); "
        f"COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_CWORD=3; "
        f"_hpc_llm_launch; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout.split() == ["optim.warmup_steps="], done.stderr
