"""The training stage: what every rank of the gang calls. Torch is imported only once signals are handled."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hpc_llm.node.context import Context
from hpc_llm.run import journal
from hpc_llm.run.shard import Shard
from hpc_llm.train.stop import StopRequest

if TYPE_CHECKING:
    from hpc_llm.data.tokens.packed import PackedDataset


def run(shard: Shard) -> None:
    """Train from the newest good checkpoint to the last step; validates, checkpoints and records meanwhile.

    Inputs are the stages (tokenize, tokenizer). Raises train.stop.Stopped, a SystemExit, when asked to
    stop, and ValueError for data or a layout that cannot be trained on.
    """
    with StopRequest() as stop:
        _run(shard, stop)


def _run(shard: Shard, stop: StopRequest) -> None:
    from hpc_llm.data.tokens import bpe
    from hpc_llm.model.transformer import parameter_count
    from hpc_llm.parallel.mesh import build_layout
    from hpc_llm.train import distributed
    from hpc_llm.train.loop import Job, train

    config = shard.config
    context = Context.from_environment(os.environ)
    tokenize, tokenizer = shard.stage.inputs
    vocab_size = bpe.vocab_size(bpe.load(shard.input(tokenizer, ".json", 0)))
    device = distributed.choose_device(config.train.device, context.local_rank)
    distributed.prepare(config, device)
    with distributed.process_group(context, device):
        job = Job(
            config,
            shard.folder,
            build_layout(config.parallel, device),
            vocab_size,
            _samples(shard, tokenize, ".train.bin"),
            _validation(shard, tokenize, context.rank),
            context.restart,
            stop,
        )
        position = train(job)
    if context.rank == 0:
        rows = {row["step"]: row["loss"] for row in journal.read(shard.folder.metrics)}
        shard.account.extra.update(
            parameters=parameter_count(config.model, vocab_size),
            steps=position.step,
            tokens=position.tokens,
            loss_first=rows[min(rows)],
            loss_last=rows[max(rows)],
        )


def _samples(shard: Shard, tokenize: str, suffix: str) -> PackedDataset:
    from hpc_llm.data.tokens.packed import PackedDataset

    return PackedDataset(shard.inputs(tokenize, suffix), shard.config.model.sequence_length)


def _validation(shard: Shard, tokenize: str, rank: int) -> PackedDataset | None:
    if not shard.config.train.eval_interval_steps:
        return None
    try:
        return _samples(shard, tokenize, ".valid.bin")
    except ValueError as error:
        if rank == 0:
            print(f"no validation loss: {error}", flush=True)
        return None
