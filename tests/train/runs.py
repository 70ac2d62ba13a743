"""What the ranks of the training tests do: a whole training stage on real token files."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from hpc_llm.config.schema import Config, ModelConfig
from hpc_llm.data.tokens import bpe
from hpc_llm.data.tokens.indexed import Writer
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage

STAGES = {
    "tokenizer": Stage("tokenizer", "array", "x:y"),
    "tokenize": Stage("tokenize", "array", "x:y", inputs=("tokenizer",), shards=2),
    "train": Stage("train", "gang", "hpc_llm.train.stage:run", inputs=("tokenize", "tokenizer")),
}


def config(**train: Any) -> Config:
    """A model of 2 x 64 that learns in seconds; keywords are fields of TrainConfig."""
    value = Config()
    value.model = ModelConfig(
        layers=2, hidden=64, heads=4, kv_heads=4, ffn_hidden=96, sequence_length=32, vocab_multiple=16
    )
    value.train.steps, value.train.global_batch, value.train.micro_batch = 12, 8, 2
    value.train.eval_interval_steps, value.train.eval_batches = 6, 2
    value.train.checkpoint.interval_steps = 4
    value.optim.warmup_steps = 3
    for name, setting in train.items():
        setattr(value.train, name, setting)
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
    """Run the training stage on this rank. Layout and TrainConfig fields are in `arguments`.

    `stop_after`: rank 1 (of more than one) asks itself to stop, by a real signal, after that step.
    """
    value = config(**arguments.get("train", {}))
    for name, setting in arguments.get("parallel", {}).items():
        setattr(value.parallel, name, setting)
    folder = RunFolder(arguments["run"])
    shard = Shard(folder, value, STAGES, STAGES["train"], 0)
    if "stop_after" in arguments:
        _stop_after(arguments["stop_after"])
    from hpc_llm.train.stage import run

    run(shard)
    return shard.account.extra


def _stop_after(step: int) -> None:
    """Have one rank receive SIGUSR2 during step `step` + 1, wherever the step then is."""
    from hpc_llm.train import loop

    asked = int(os.environ["SUBMITIT_LOCAL_NTASKS"]) - 1
    original = loop.learning_rate

    def learning_rate(number: int, *others: Any) -> float:
        if number == step and int(os.environ["SUBMITIT_LOCAL_GLOBALID"]) == asked:
            os.kill(os.getpid(), signal.SIGUSR2)
        return original(number, *others)

    loop.learning_rate = learning_rate  # the step's own call, so that the signal arrives inside the step


def weights(arguments: dict[str, Any]) -> dict[str, str]:
    """Hash of every parameter of a checkpoint, loaded into one whole model."""
    import hashlib

    from hpc_llm.model.transformer import Transformer
    from hpc_llm.train.checkpoint import load_weights

    model = Transformer(config().model, arguments["vocab_size"])
    load_weights(Path(arguments["checkpoint"]), model)
    return {n: hashlib.sha256(p.detach().numpy().tobytes()).hexdigest() for n, p in model.named_parameters()}
