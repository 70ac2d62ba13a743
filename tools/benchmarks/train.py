"""Training throughput, tokens per second, ours against Hugging Face on the CPU with one thread a process.

The peer does what Hugging Face's Trainer does in a step: LlamaForCausalLM of the same shape, loss, gradient
clipping, fused AdamW; over two processes in torch's DistributedDataParallel. Ours is the step of the trainer
with its defaults, deterministic kernels and metrics included. Both stand in the same processes, read the
same batches and take turns step by step, so whatever else the machine does meets both alike. A figure is the
median over the turns, the ratio the median of the turns' ratios.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpc_llm.config.schema import Config, ModelConfig, ParallelConfig, TrainConfig

TURNS = 10
WARM_UP = 2
VOCABULARY = 8192
SHAPE = ModelConfig(layers=6)  # 8.5 million parameters
BATCH = 8  # sequences of a process
PEERS = {1: "transformers, AdamW", 2: "transformers, DDP, AdamW"}


def rows() -> list[dict[str, Any]]:
    """One process, and data parallel over two with each ZeRO stage. Above 1 the ratio says ours is faster."""
    return [_row(1, 3), _row(2, 2), _row(2, 3)]


def _row(world: int, zero: int) -> dict[str, Any]:
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "seconds.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
        done = subprocess.run(
            [*command, str(Path(__file__).resolve()), str(zero), str(result)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{world} processes, ZeRO {zero}: {done.stderr[-2000:]}")
        seconds: dict[str, list[float]] = json.loads(result.read_text())
    tokens = world * BATCH * SHAPE.sequence_length
    ours, peer = (tokens / statistics.median(seconds[arm]) for arm in ("ours", "peer"))
    ratio = statistics.median(p / o for o, p in zip(seconds["ours"], seconds["peer"], strict=True))
    return {
        "row": f"training step, dp={world}" + (f", ZeRO {zero}" if world > 1 else ""),
        "ours": round(ours, 1),
        "peer": round(peer, 1),
        "ratio": round(ratio, 3),
        "peer_name": PEERS[world],
        "unit": "tokens/s",
    }


def measure(zero: int) -> dict[str, list[float]]:
    """Seconds of each counted step of both, in one rank of a process group that stands already."""
    import numpy as np
    import torch
    import torch.distributed as dist

    world = dist.get_world_size()
    config = Config(
        model=SHAPE,
        parallel=ParallelConfig(tasks_per_node=world, zero=zero),
        train=TrainConfig(
            steps=TURNS + WARM_UP, global_batch=BATCH * world, micro_batch=BATCH, eval_interval_steps=0
        ),
    )
    samples = np.random.default_rng(0).integers(VOCABULARY, size=(512, SHAPE.sequence_length + 1))
    steps = {"ours": our_step(config, samples), "peer": peer_step(config, samples)}
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for turn in range(TURNS + WARM_UP):
        for arm in ("ours", "peer") if turn % 2 else ("peer", "ours"):
            torch.use_deterministic_algorithms(arm == "ours")
            dist.barrier()
            start = time.perf_counter()
            steps[arm]()
            if turn >= WARM_UP:
                seconds[arm].append(time.perf_counter() - start)
    return seconds


def our_step(config: Config, samples: Any) -> Callable[[], None]:
    import torch

    from hpc_llm.parallel.mesh import build_layout
    from hpc_llm.run.folder import RunFolder
    from hpc_llm.train.loop import Job, Trainer
    from hpc_llm.train.manifest import Position
    from hpc_llm.train.stop import StopRequest

    layout = build_layout(config.parallel, torch.device("cpu"))
    trainer = Trainer(Job(config, RunFolder("unused"), layout, VOCABULARY, samples, None, 0, StopRequest()))
    position = Position()

    def step() -> None:
        nonlocal position
        metrics, position = trainer.step(position)
        assert metrics is not None

    return step


def peer_step(config: Config, samples: Any) -> Callable[[], None]:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from transformers import LlamaConfig, LlamaForCausalLM

    from hpc_llm.train.loader import Loader

    shape, optim = config.model, config.optim
    model: Any = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=shape.hidden,
            intermediate_size=shape.ffn_hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            max_position_embeddings=shape.sequence_length,
            use_cache=False,
        )
    )
    world = dist.get_world_size()
    if world > 1:
        model = DistributedDataParallel(model)
    betas = (optim.beta1, optim.beta2)
    optimizer = torch.optim.AdamW(
        model.parameters(), optim.lr, betas, weight_decay=optim.weight_decay, fused=True
    )
    loader = Loader(samples, config.train.global_batch, dist.get_rank(), world)
    consumed = 0

    def step() -> None:
        nonlocal consumed
        inputs, targets = loader.training(consumed, config.train.seed)
        consumed += config.train.global_batch
        loss = model(input_ids=inputs, labels=targets, shift_labels=targets).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), optim.clip)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step


def main(zero: int, result: Path) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seconds = measure(zero)
    if dist.get_rank() == 0:
        result.write_text(json.dumps(seconds))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
