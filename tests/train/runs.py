"""What the ranks of the training tests do: a whole training stage on real token files."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from hpc_llm.config.schema import Config, ModelConfig
from hpc_llm.data.tokens import bpe
from hpc_llm.data.tokens.indexed import Writer
from hpc_llm.model.transformer import Transformer
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage
from hpc_llm.train.checkpoint import load_weights

STAGES = {
    "tokenizer": Stage("tokenizer", "array", "x:y"),
    "tokenize": Stage("tokenize", "array", "x:y", inputs=("tokenizer",), shards=2),
    "train": Stage("train", "gang", "hpc_llm.train.stage:run", inputs=("tokenize", "tokenizer")),
}


def config() -> Config:
    """A model of 2 x 64 that learns in seconds."""
    value = Config()
    value.model = ModelConfig(
        layers=2, hidden=64, heads=4, kv_heads=4, ffn_hidden=96, sequence_length=32, vocab_multiple=16
    )
    value.train.steps, value.train.global_batch, value.train.micro_batch = 12, 8, 2
    value.train.eval_interval_steps, value.train.eval_batches = 6, 2
    value.train.checkpoint.interval_steps = 4
    value.optim.warmup_steps = 3
    return value


def write_inputs(folder: RunFolder) -> None:
    """A tokenizer and two shards of tokens in which the next token is often predictable."""
    texts = [f"{a} and {b} make {a + b}. " for a in range(60) for b in range(60)]
    tokenizer = bpe.train(texts, vocab_size=300, min_frequency=2)
    path = folder.output("tokenizer", 0, ".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))
    for shard in range(2):
        for split, part in (("train", texts[shard::4]), ("valid", texts[2 + shard :: 40])):
            path = folder.output("tokenize", shard, f".{split}.bin")
            path.parent.mkdir(parents=True, exist_ok=True)
            with Writer(path, path.with_suffix(".idx"), np.dtype("<u2")) as writer:
                for text in part:
                    writer.add(np.array(tokenizer.encode(text).ids))


def stage(arguments: dict[str, Any]) -> dict[str, Any]:
    """Run the training stage on this rank, "parallel", "train" and "optim" in `arguments` over the config.

    "stop_after": the last rank asks itself to stop, by a real signal, within that step.
    "kill_in": this rank kills itself within that step.
    """
    value = config()
    for section in ("parallel", "train", "optim"):
        _set(getattr(value, section), arguments.get(section, {}))
    for step, number in (("stop_after", signal.SIGUSR2), ("kill_in", signal.SIGKILL)):
        if step in arguments:
            _signal_within(arguments[step], number)
    shard = Shard(RunFolder(arguments["run"]), value, STAGES, STAGES["train"], 0)
    from hpc_llm.train.stage import run

    run(shard)
    return shard.account.extra


def _set(node: Any, settings: dict[str, Any]) -> None:
    for name, setting in settings.items():
        if isinstance(setting, dict):
            _set(getattr(node, name), setting)
        else:
            setattr(node, name, setting)


def _signal_within(step: int, number: signal.Signals) -> None:
    """Have the last rank receive a signal between the backward pass and the update of that step."""
    from hpc_llm.train import loop

    last = int(os.environ["SUBMITIT_LOCAL_NTASKS"]) - 1
    original = loop.learning_rate

    def learning_rate(current: int, *others: Any) -> float:
        if current == step and int(os.environ["SUBMITIT_LOCAL_GLOBALID"]) == last:
            os.kill(os.getpid(), number)
        return original(current, *others)

    loop.learning_rate = learning_rate


def weights(checkpoint: Path) -> dict[str, str]:
    """Hash of every parameter of a checkpoint, loaded into one whole model."""
    model = Transformer(config().model, bpe.vocab_size(bpe.load(_tokenizer(checkpoint))))
    load_weights(checkpoint, model)
    return {n: hashlib.sha256(p.detach().numpy().tobytes()).hexdigest() for n, p in model.named_parameters()}


def _tokenizer(checkpoint: Path) -> Path:
    return RunFolder(checkpoint.parents[1]).output("tokenizer", 0, ".json")
