"""Forward and backward passes of all microbatches of one step, with or without a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

from hpc_llm.config.schema import Config
from hpc_llm.model.transformer import Transformer
from hpc_llm.parallel.mesh import Layout

_SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Schedule:
    """Runs this rank's part of a batch: `train` leaves gradients, `evaluate` none.

    Both take tokens and targets, (B, S) int64 with B = microbatches * train.micro_batch, and return
    the sum over those tokens of the negative log likelihood, float64 scalar times `scale`, 0 on ranks
    without the last stage. Gradients are those of the mean over dp of what `train` returns.
    """

    def __init__(self, model: Transformer, layout: Layout, config: Config) -> None:
        self.model = model
        self.layout = layout
        self.zero = config.parallel.zero
        self.micro_batch = config.train.micro_batch
        self.microbatches = config.train.global_batch // (layout.dp.size * self.micro_batch)
        self._scale = 1.0
        self._bf16 = config.train.precision == "bf16"
        self._pipeline = self._build_pipeline(config) if layout.pp.size > 1 else None

    def train(self, tokens: Tensor, targets: Tensor, scale: float) -> Tensor:
        self._scale = scale
        if self._pipeline is not None:
            losses: list[Tensor] = []
            with self._autocast():
                self._pipeline.step(
                    *((tokens,) if self.layout.is_first_stage else ()),
                    target=targets if self.layout.is_last_stage else None,
                    losses=losses,
                    return_outputs=False,
                )
            return self._sum(losses)
        losses = []
        for x, y in self._microbatches(tokens, targets):
            self._prepare_backward(last=len(losses) == self.microbatches - 1)
            with self._autocast():
                loss = self._loss(self.model(x), y)
            torch.autograd.backward(loss)
            losses.append(loss.detach())
        return self._sum(losses)

    @torch.no_grad()
    def evaluate(self, tokens: Tensor, targets: Tensor) -> Tensor:
        loss = self._evaluate(tokens, targets)
        for module in self.model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()  # without a backward pass some parameters would stay gathered
        return loss

    def _evaluate(self, tokens: Tensor, targets: Tensor) -> Tensor:
        self._scale = 1.0
        if self._pipeline is not None:
            losses: list[Tensor] = []
            with self._autocast():
                self._pipeline.eval(
                    *((tokens,) if self.layout.is_first_stage else ()),
                    target=targets if self.layout.is_last_stage else None,
                    losses=losses,
                    return_outputs=False,
                )
            return self._sum(losses)
        with self._autocast():
            batches = self._microbatches(tokens, targets)
            return self._sum([self._loss(self.model(x), y) for x, y in batches])

    def _microbatches(self, tokens: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(tokens.chunk(self.microbatches), targets.chunk(self.microbatches), strict=True)

    def _loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return self.model.loss(logits, targets) * self._scale

    def _sum(self, losses: list[Tensor]) -> Tensor:
        if not self.layout.is_last_stage:
            return torch.zeros((), dtype=torch.float64, device=self.layout.device)
        return torch.stack([loss.detach() for loss in losses]).double().sum()

    def _autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.layout.device.type, dtype=torch.bfloat16, enabled=self._bf16)

    def _prepare_backward(self, last: bool) -> None:
        """ZeRO-3 keeps nothing whole between microbatches, ZeRO-2 keeps parameters and gradients."""
        if isinstance(self.model, FSDPModule):
            self.model.set_requires_gradient_sync(last or self.zero == 3)
            self.model.set_reshard_after_backward(last or self.zero == 3)
            self.model.set_is_last_backward(last)

    def _build_pipeline(self, config: Config) -> PipelineScheduleSingle:
        layout, model = self.layout, self.model
        if self.microbatches < layout.pp.size:
            raise ValueError(
                f"train.micro_batch={self.micro_batch} leaves {self.microbatches} microbatches of "
                f"train.global_batch={config.train.global_batch} to a rank; parallel.pp={layout.pp.size} "
                f"stages need at least as many"
            )
        with torch.device("meta"):
            sequence, hidden = config.model.sequence_length, config.model.hidden
            tokens = torch.empty(self.micro_batch, sequence, dtype=torch.int64)
            stream = torch.empty(self.micro_batch, sequence // layout.tp.size, hidden)
            rows = model.lm_head.weight.shape[0] // layout.tp.size if model.lm_head is not None else 0
            dtype = torch.bfloat16 if self._bf16 else torch.float32
            logits = torch.empty(self.micro_batch, sequence, rows, dtype=dtype)
        stage = PipelineStage(
            model,
            layout.pp.rank,
            layout.pp.size,
            layout.device,
            # Shapes are given, so that no trial pass runs and disturbs FSDP's state.
            input_args=tokens if layout.is_first_stage else stream.requires_grad_(),
            output_args=logits if layout.is_last_stage else stream.clone().requires_grad_(),
            group=layout.pp.group,
        )
        # The loss is already a share of the whole step's mean: the schedule must not divide again.
        return _SCHEDULES[config.parallel.schedule](
            stage, self.microbatches, loss_fn=self._loss, scale_grads=False
        )
