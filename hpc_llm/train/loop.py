"""The training loop."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from hpc_llm.config.schema import Config
from hpc_llm.parallel.gradients import clip_, local_square_norm
from hpc_llm.parallel.mesh import Layout
from hpc_llm.parallel.parallelize import build_model
from hpc_llm.parallel.schedule import Schedule
from hpc_llm.parallel.tensor import sum_partial_gradients
from hpc_llm.run.folder import RunFolder
from hpc_llm.train.checkpoint import Checkpointer
from hpc_llm.train.flops import flops_per_token, peak_flops
from hpc_llm.train.loader import Loader, Samples
from hpc_llm.train.manifest import Position
from hpc_llm.train.metrics import Recorder, StepMetrics
from hpc_llm.train.optimizer import build_optimizer, learning_rate, set_learning_rate
from hpc_llm.train.stop import Stopped, StopRequest


@dataclass(frozen=True)
class Job:
    """All that the loop works on."""

    config: Config
    folder: RunFolder
    layout: Layout
    vocab_size: int
    training: Samples
    validation: Samples | None
    restart: int
    stop: StopRequest


def train(job: Job) -> Position:
    """Train to the last step, from the newest good checkpoint if there is one. Every rank calls it.

    Raises Stopped when asked to stop: a checkpoint of the last whole step is then published.
    """
    config, layout = job.config, job.layout
    trainer = Trainer(job)
    checkpoints = Checkpointer(
        job.folder.checkpoints, config.train.checkpoint.keep, config.train.checkpoint.asynchronous
    )
    position = checkpoints.load(trainer.model, trainer.optimizer)
    saved = position.step
    recorder: AbstractContextManager[Recorder | None] = nullcontext()
    if dist.get_rank() == 0:
        recorder = Recorder(
            job.folder, layout.device, job.restart, position.step, config.train.steps,
            config.train.log_interval_steps,
        )  # fmt: skip
    with recorder as record:
        while position.step < config.train.steps:
            metrics, position = trainer.step(position)
            if metrics is None:
                if position.step > saved:
                    checkpoints.save(trainer.model, trainer.optimizer, position)
                checkpoints.close()
                dist.barrier()
                if record:
                    print(f"stopped as asked after step {position.step}; checkpoint published", flush=True)
                raise Stopped
            if record:
                record.record(metrics)
            if position.step % config.train.checkpoint.interval_steps == 0:
                checkpoints.save(trainer.model, trainer.optimizer, position)
                saved = position.step
        if position.step > saved:
            checkpoints.save(trainer.model, trainer.optimizer, position)
        checkpoints.close()
    dist.barrier()
    return position


class Trainer:
    """Model, optimizer and data of one rank, and one optimizer step over all ranks."""

    def __init__(self, job: Job) -> None:
        config, layout = job.config, job.layout
        self._job = job
        self.model = build_model(config, job.vocab_size, layout)
        self.optimizer = build_optimizer(self.model, config.optim)
        self._schedule = Schedule(self.model, layout, config)
        batch, dp = config.train.global_batch, layout.dp
        self._training = Loader(job.training, batch, dp.rank, dp.size)
        self._validation = Loader(job.validation, batch, dp.rank, dp.size) if job.validation else None
        self._parameters = list(self.model.parameters())
        # Ranks of one tp group, and stages of one pipeline, see the same tokens: such sums count them once.
        self._token_copies = layout.tp.size * layout.pp.size
        peak, source = peak_flops(layout.device, config.train.precision)
        self._peak = peak * dist.get_world_size()
        self._flops = flops_per_token(config.model, job.vocab_size)
        self._flops_causal = flops_per_token(config.model, job.vocab_size, causal=True)
        if dist.get_rank() == 0:
            print(f"peak {peak / 1e12:.3g} TFLOP/s a rank in {config.train.precision}, {source}", flush=True)

    def step(self, position: Position) -> tuple[StepMetrics | None, Position]:
        """The step after `position`. No metrics, and `position` itself, when any rank was asked to stop.

        Raises ValueError, on every rank, when the loss or the gradient norm is not finite.
        """
        config, layout = self._job.config, self._job.layout
        start = time.perf_counter()
        inputs, targets = self._training.training(position.samples, config.train.seed)
        counted = int((targets >= 0).sum())
        everywhere, stop = self._sum(float(counted), float(self._job.stop.requested)).tolist()
        if stop:
            return None, position
        tokens = int(everywhere) // self._token_copies

        # FSDP averages gradients over dp, while each rank's loss is already its share of the step's mean.
        scale = layout.dp.size / tokens
        loss = self._schedule.train(inputs.to(layout.device), targets.to(layout.device), scale)
        sum_partial_gradients(self.model, layout.tp)
        square_norm = local_square_norm(self._parameters, layout.device)
        loss, square_norm = self._sum(loss / (layout.dp.size * layout.tp.size), square_norm)
        norm = square_norm.sqrt()
        number, value, norm_value = position.step + 1, loss.item(), norm.item()
        if not math.isfinite(value + norm_value):
            raise ValueError(
                f"training diverged: step {number} has loss {value} and gradient norm {norm_value} "
                f"(optim.lr={config.optim.lr}, optim.clip={config.optim.clip}); no weight was changed by it"
            )
        if config.optim.clip > 0:
            clip_(self._parameters, norm, config.optim.clip)
        lr = learning_rate(number, config.train.steps, config.optim)
        set_learning_rate(self.optimizer, lr)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if layout.device.type == "cuda":
            torch.cuda.synchronize(layout.device)  # the update is part of the step's time
        seconds = time.perf_counter() - start

        position = Position(number, position.samples + config.train.global_batch, position.tokens + tokens)
        rate = tokens / seconds
        metrics = StepMetrics(
            step=number,
            loss=value,
            lr=lr,
            grad_norm=norm_value,
            tokens=position.tokens,
            tokens_per_s=rate,
            mfu=rate * self._flops / self._peak,
            mfu_causal=rate * self._flops_causal / self._peak,
            step_time_s=seconds,
            restart=self._job.restart,
            validation_loss=self._validate(number),
        )
        return metrics, position

    def _validate(self, step: int) -> float | None:
        """Mean validation loss, in nats, where the interval asks for one."""
        train, layout = self._job.config.train, self._job.layout
        last = step == train.steps
        if self._validation is None or not train.eval_interval_steps:
            return None
        if step % train.eval_interval_steps and not last:
            return None
        limit = min(len(self._validation.samples), train.eval_batches * train.global_batch)
        loss = torch.zeros((), dtype=torch.float64, device=layout.device)
        count = 0
        for batch in range(-(-limit // train.global_batch)):
            inputs, targets = self._validation.validation(batch, limit)
            loss += self._schedule.evaluate(inputs.to(layout.device), targets.to(layout.device))
            count += int((targets >= 0).sum())
        total, tokens = self._sum(loss / layout.tp.size, count / self._token_copies)
        return (total / tokens).item()

    def _sum(self, *values: Tensor | float) -> Tensor:
        """Sums over all ranks, float64."""
        device = self._job.layout.device
        total = torch.stack([torch.as_tensor(v, dtype=torch.float64, device=device) for v in values])
        dist.all_reduce(total)
        return total
