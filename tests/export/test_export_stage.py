from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

from hpc_llm.config.schema import Config, ModelConfig, TrainConfig
from hpc_llm.data.tokens import bpe
from hpc_llm.export import stage
from hpc_llm.model.init import initialize
from hpc_llm.model.transformer import Transformer
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage
from hpc_llm.train.checkpoint import Checkpointer
from hpc_llm.train.manifest import Position
from hpc_llm.train.optimizer import build_optimizer

TEXT = "The reader returns every record of the file, and an empty list when there is none."
STAGES = {
    s.name: s
    for s in (
        Stage("tokenizer", "array", "-"),
        Stage("train", "gang", "-", ("tokenizer",)),
        Stage("export", "array", "hpc_llm.export.stage:run", ("train", "tokenizer")),
    )
}
CONFIG = Config(
    model=ModelConfig(
        layers=2, hidden=32, heads=4, kv_heads=2, ffn_hidden=48, sequence_length=32, init_std=0.2
    ),
    train=TrainConfig(steps=20, sample_prompts=["The ", ""], sample_tokens=12, seed=5),
)


def weights(step: int, vocab_size: int) -> Transformer:
    """What the run's model is at `step`: other weights at each."""
    model = Transformer(CONFIG.model, vocab_size)
    initialize(model, CONFIG.model, seed=step)
    return model


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """A run folder with a tokenizer and checkpoints of steps 10 and 20."""
    folder = RunFolder(tmp_path / "run")
    tokenizer = bpe.train([TEXT] * 3, vocab_size=300, min_frequency=2)
    path = folder.output("tokenizer", 0, ".json")
    path.parent.mkdir(parents=True)
    tokenizer.save(str(path))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        checkpointer = Checkpointer(folder.checkpoints, keep=2, asynchronous=False)
        for step in (10, 20):
            model = weights(step, bpe.vocab_size(tokenizer))
            checkpointer.save(model, build_optimizer(model, CONFIG.optim), Position(step=step))
        checkpointer.close()
    finally:
        dist.destroy_process_group()
    return folder


def export(folder: RunFolder) -> Shard:
    shard = Shard(folder, CONFIG, STAGES, STAGES["export"], 0)
    stage.run(shard)
    shard.finish()
    return shard


def exported_step(folder: RunFolder) -> int:
    """Which of the two checkpoints the folder holds, told by its weights."""
    head = AutoModelForCausalLM.from_pretrained(folder.export).lm_head.weight
    [step] = [s for s in (10, 20) if torch.equal(weights(s, len(head)).lm_head.weight[: len(head)], head)]
    return step


def damage(checkpoint: Path) -> None:
    file = max(checkpoint.glob("*.distcp"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_the_newest_checkpoint_is_exported_without_a_process_group(run):
    assert not dist.is_initialized()
    shard = export(run)
    assert exported_step(run) == shard.account.extra["export_step"] == 20
    record = json.loads(run.record("export", 0).read_text())
    assert record["account"]["documents_in"] == record["account"]["documents_out"] == 0
    written = sum(path.stat().st_size for path in run.export.iterdir() if path.name != stage.SAMPLES)
    assert record["account"]["extra"]["export_bytes"] == written


def test_samples_are_texts_and_the_same_each_time(run):
    export(run)
    first = json.loads((run.export / stage.SAMPLES).read_text())
    assert [sample["prompt"] for sample in first] == ["The ", ""]
    assert all(sample["text"] and bpe.END_OF_TEXT not in sample["text"] for sample in first)
    export(run)
    assert json.loads((run.export / stage.SAMPLES).read_text()) == first


def test_a_damaged_last_checkpoint_is_named_and_an_older_one_not_taken_for_it(run, capsys):
    damage(run.checkpoints / "step_00000020")
    with pytest.raises(
        ValueError, match=r"of step 10 of 20\..* remove .*train/done/00000\.json and launch again"
    ):
        export(run)
    assert "step_00000020" in capsys.readouterr().out
    assert not run.export.exists()


def test_others_may_read_the_weights_as_the_umask_says(run):
    export(run)
    [weights] = run.export.glob("*.safetensors")
    mask = os.umask(0)
    os.umask(mask)
    assert weights.stat().st_mode & 0o777 == 0o666 & ~mask


def test_no_good_checkpoint_is_an_error_that_names_each(run):
    damage(run.checkpoints / "step_00000010")
    damage(run.checkpoints / "step_00000020")
    with pytest.raises(ValueError, match=r"no checkpoint that can be exported.*step_00000020.*step_00000010"):
        export(run)
    assert not run.export.exists()
    assert not run.record("export", 0).exists()
