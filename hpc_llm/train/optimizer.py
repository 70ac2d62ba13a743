"""AdamW, its parameter groups, and the learning rate as a pure function of the step."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from hpc_llm.config.schema import OptimConfig


def learning_rate(step: int, steps: int, config: OptimConfig) -> float:
    """Learning rate of step `step` (1 .. `steps`).

    Linear warm-up to `lr` at step `warmup_steps`, then half a cosine (Loshchilov and Hutter 2017,
    arXiv 1608.03983, equation 5, one period) down to `lr * min_lr_ratio` at the last step.
    """
    if step < config.warmup_steps:
        return config.lr * step / config.warmup_steps
    progress = (step - config.warmup_steps) / max(steps - config.warmup_steps, 1)
    floor = config.lr * config.min_lr_ratio
    return floor + (config.lr - floor) * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Weight decay is for matrices: not for norms, and not for the embedding table."""
    return parameter.ndim > 1 and not name.startswith("embed_tokens.")


def build_optimizer(model: nn.Module, config: OptimConfig) -> AdamW:
    """AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101), fused, over one pipeline stage.

    Its state exists from the start, all zero, so that a checkpoint is read straight into it.
    """
    named = list(model.named_parameters())
    optimizer = AdamW(
        [
            {"params": [p for n, p in named if decays(n, p)], "weight_decay": config.weight_decay},
            {"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0},
        ],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
    for _, p in named:
        optimizer.state[p] = {
            "step": torch.zeros((), dtype=torch.float32, device=p.device),
            "exp_avg": torch.zeros_like(p.detach()),
            "exp_avg_sq": torch.zeros_like(p.detach()),
        }
    return optimizer


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
