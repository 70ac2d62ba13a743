"""The process group of a gang, and the device of one rank."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.utils.deterministic

from hpc_llm.config.schema import Config
from hpc_llm.node.context import Context
from hpc_llm.train.stop import Stopped

_TIMEOUT = timedelta(minutes=30)  # a rank that is silent for longer is taken for dead


def choose_device(wanted: str, local_rank: int) -> torch.device:
    """`train.device`: cpu, cuda, or auto, which is cuda where there is one.

    Raises ValueError when cuda is asked for and not there, or has too few devices for this node's ranks.
    """
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    devices = torch.cuda.device_count()
    if not devices:
        raise ValueError(f"train.device={wanted}: no CUDA device is visible here; allowed: auto, cpu")
    # Where Slurm binds one GPU to each task, every rank sees its own as number 0.
    index = 0 if devices == 1 else local_rank
    if index >= devices:
        raise ValueError(f"parallel.tasks_per_node: local rank {local_rank}, but {devices} CUDA devices")
    return torch.device("cuda", index)


def prepare(config: Config, device: torch.device) -> None:
    """Determinism and seeds of this process. Torch takes its threads from OMP_NUM_THREADS, which launchers set."""
    torch.manual_seed(config.train.seed)
    torch.use_deterministic_algorithms(config.train.deterministic)
    # Filling every new tensor with NaN would find reads of unwritten memory, at the cost of a write each.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type == "cuda":
        # cuBLAS is deterministic only with a fixed workspace (its documentation, section 2.1.4).
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.cuda.set_device(device)


@contextmanager
def process_group(context: Context, device: torch.device) -> Iterator[None]:
    """The default process group while the block runs: NCCL on CUDA, gloo on the CPU.

    gloo and NCCL listen on the interface that GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name.
    """
    nccl = device.type == "cuda"
    # A single rank needs no port, which might be taken.
    store = dist.HashStore() if context.world == 1 else None  # type: ignore[attr-defined]
    address = f"tcp://{context.master_address}:{context.master_port}"
    dist.init_process_group(
        "nccl" if nccl else "gloo",
        init_method=None if store else address,
        store=store,
        rank=context.rank,
        world_size=context.world,
        timeout=_TIMEOUT,
        device_id=device if nccl else None,
    )
    try:
        yield
    except Stopped:
        dist.destroy_process_group()
        raise
    # After another error the process ends: to destroy the group could wait for ranks that are gone.
    dist.destroy_process_group()
