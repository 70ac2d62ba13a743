"""The training loop, optimizer, schedule, checkpoints, loader and metrics."""
