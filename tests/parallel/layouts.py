"""What the ranks of the layout tests do: train one model on the same data, in one layout after another."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from hpc_llm.config.schema import Config, ModelConfig, ParallelConfig
from hpc_llm.node.context import Context
from hpc_llm.parallel.cross_entropy import vocabulary_parallel_cross_entropy
from hpc_llm.parallel.mesh import build_layout
from hpc_llm.run.folder import RunFolder
from hpc_llm.train import distributed
from hpc_llm.train.loop import Job, Trainer
from hpc_llm.train.manifest import Position
from hpc_llm.train.stop import StopRequest

VOCAB = 250  # padded to 256: one tp=4 shard holds padding
LENGTH = 32


class Progressions:
    """Ids that go up by a constant, which differs between samples: something to learn."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> np.ndarray:
        return (index + (1 + index % 3) * np.arange(LENGTH + 1)) % VOCAB


def config(layout: dict[str, Any]) -> Config:
    """`layout`: fields of ParallelConfig; "micro_batch" and "precision" of TrainConfig; "steps" to run."""
    value = Config()
    value.model = ModelConfig(
        layers=4, hidden=64, heads=4, kv_heads=4, ffn_hidden=96, sequence_length=LENGTH, vocab_multiple=16
    )
    train = {k: layout[k] for k in ("micro_batch", "precision") if k in layout}
    value.parallel = ParallelConfig(**{k: v for k, v in layout.items() if k not in (*train, "steps")})
    value.train.steps, value.train.global_batch, value.train.micro_batch = 20, 8, 2
    value.train.eval_interval_steps, value.train.eval_batches = 10, 1
    value.optim.warmup_steps = 5
    value.optim.lr = 3e-3
    for name, setting in train.items():
        setattr(value.train, name, setting)
    return value


def train(arguments: dict[str, Any]) -> dict[str, Any]:
    """For each named layout: losses, gradient norms, validation losses, and hashes of the first weights."""
    context = Context.from_environment(os.environ)
    device = torch.device("cpu")
    results = {}
    with distributed.process_group(context, device):
        for name, layout in arguments["layouts"].items():
            value = config(layout)
            distributed.prepare(value, device)
            mesh = build_layout(value.parallel, device)
            job = Job(
                value, RunFolder("unused"), mesh, VOCAB, Progressions(), Progressions(), 0, StopRequest()
            )
            trainer, position, rows = Trainer(job), Position(), []
            initial, start = _hashes(trainer.model), time.perf_counter()
            for _ in range(layout.get("steps", value.train.steps)):
                metrics, position = trainer.step(position)
                assert metrics is not None
                rows.append(metrics)
            print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
            results[name] = {
                "loss": [m.loss for m in rows],
                "norm": [m.grad_norm for m in rows],
                "validation": [m.validation_loss for m in rows if m.validation_loss is not None],
                "tokens": position.tokens,
                "initial": initial,
            }
        if context.world > 1 and arguments.get("cross_entropy"):
            results["cross_entropy"] = _cross_entropy()
        dist.barrier()
    return results


def _hashes(model: torch.nn.Module) -> dict[str, str]:
    """Of the whole value of every parameter of every stage."""
    mine = {}
    for name, parameter in model.named_parameters():
        whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        mine[name] = hashlib.sha256(whole.detach().contiguous().numpy().tobytes()).hexdigest()
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    merged: dict[str, str] = {}
    for part in everyone:
        for name, digest in part.items():
            assert merged.setdefault(name, digest) == digest, f"ranks differ in {name}"
    return merged


def _cross_entropy() -> dict[str, float]:
    """Largest differences of loss and gradient from torch's own, vocabulary split over all ranks."""
    rank, world = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(1)
    whole = torch.randn(2, 7, 16 * world, generator=generator) * 5
    targets = torch.randint(0, 16 * world - 20, (2, 7), generator=generator)
    targets[0, 3] = -100
    vocab = 16 * world - 20  # the last rank holds nothing but padding
    part = whole.chunk(world, dim=-1)[rank].clone().requires_grad_()
    loss = vocabulary_parallel_cross_entropy(part, targets, vocab, dist.group.WORLD)
    (loss * 3.0).backward()
    reference = whole.clone().requires_grad_()
    expected = torch.nn.functional.cross_entropy(
        reference[..., :vocab].flatten(0, 1), targets.flatten(), reduction="sum"
    )
    (expected * 3.0).backward()
    difference = (part.grad - reference.grad.chunk(world, dim=-1)[rank]).abs().max()
    dist.all_reduce(difference, dist.ReduceOp.MAX)
    return {"loss": abs(loss.item() / expected.item() - 1), "gradient": difference.item()}
