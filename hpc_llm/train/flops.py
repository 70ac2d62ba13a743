"""Floating-point operations of training, and what a device could do at most."""

from __future__ import annotations

import time

import torch

from hpc_llm.config.schema import ModelConfig
from hpc_llm.model.transformer import padded_vocabulary, parameter_count

# Dense peak FLOP/s by the vendor's data sheet: (bfloat16, float32 without TensorFloat-32).
# The first entry whose key is part of the device's name counts, so longer names come first.
_DATA_SHEETS = {
    "B200": (2250e12, 75e12),
    "H200": (989e12, 67e12),
    "GH200": (989e12, 67e12),
    "H100 PCIe": (756e12, 51e12),
    "H100 NVL": (835e12, 60e12),
    "H100": (989e12, 67e12),
    "A100": (312e12, 19.5e12),
    "L40S": (362e12, 91.6e12),
    "MI300X": (1307e12, 163e12),
    "MI250X": (191.5e12, 47.9e12),  # one of its two dies, which is what a rank sees
}


def flops_per_token(config: ModelConfig, vocab_size: int, causal: bool = False) -> float:
    """Operations of one forward and backward pass for one token, without recomputation.

    6 N + 12 L H Q T (Chowdhery et al. 2022, arXiv 2204.02311, appendix B), N without the embedding
    table, whose lookup multiplies nothing. The second term counts the whole attention matrix, as published
    MFU figures do; with `causal` only the half that a causal mask leaves: 6 L H Q T.
    """
    rows = padded_vocabulary(vocab_size, config.vocab_multiple)
    multiplied = parameter_count(config, vocab_size) - rows * config.hidden
    attention = config.layers * config.hidden * config.sequence_length
    return 6.0 * multiplied + (6.0 if causal else 12.0) * attention


def peak_flops(device: torch.device, precision: str) -> tuple[float, str]:
    """Peak FLOP/s of one rank's device, and where the number is from.

    Devices without an entry in the table (every CPU) are measured by a short matrix product.
    """
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        for key, (bf16, fp32) in _DATA_SHEETS.items():
            if key in name:
                return (bf16 if precision == "bf16" else fp32), f"data sheet of {key}"
    return _measured_flops(device, precision), "measured by a matrix product at start"


def _measured_flops(device: torch.device, precision: str) -> float:
    """The best of five n x n x n products."""
    n = 1024 if device.type == "cpu" else 8192
    a = torch.ones(n, n, device=device, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        (a @ a)[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return 2 * n**3 / best
