"""Which rank does what: one DeviceMesh with the axes pp, dp and tp, tp varying fastest.

Neighbours in tp exchange activations in every layer, so they are neighbours in rank, which Slurm
places on one node; pipeline stages exchange least and are farthest apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from hpc_llm.config.schema import ParallelConfig


@dataclass(frozen=True)
class Layout:
    """The mesh, and this rank's place in it. Needs an initialized process group."""

    mesh: DeviceMesh
    device: torch.device

    @cached_property
    def pp(self) -> Axis:
        return Axis.of(self.mesh["pp"])

    @cached_property
    def dp(self) -> Axis:
        return Axis.of(self.mesh["dp"])

    @cached_property
    def tp(self) -> Axis:
        return Axis.of(self.mesh["tp"])

    @property
    def is_first_stage(self) -> bool:
        return self.pp.rank == 0

    @property
    def is_last_stage(self) -> bool:
        return self.pp.rank == self.pp.size - 1


@dataclass(frozen=True)
class Axis:
    """One axis of the mesh: the group of ranks along it through this rank."""

    mesh: DeviceMesh
    group: dist.ProcessGroup
    rank: int
    size: int

    @classmethod
    def of(cls, mesh: DeviceMesh) -> Axis:
        return cls(mesh, mesh.get_group(), mesh.get_local_rank(), mesh.size())


def build_layout(config: ParallelConfig, device: torch.device) -> Layout:
    """Lay all ranks of the process group out as pp x dp x tp.

    Raises ValueError when the number of ranks is not a multiple of pp * tp.
    """
    world = dist.get_world_size()
    if world % (config.pp * config.tp):
        raise ValueError(
            f"parallel.pp={config.pp} x parallel.tp={config.tp} does not divide the {world} ranks of this job"
        )
    shape = (config.pp, world // (config.pp * config.tp), config.tp)
    return Layout(init_device_mesh(device.type, shape, mesh_dim_names=("pp", "dp", "tp")), device)


def stage_layers(layers: int, stages: int, stage: int) -> range:
    """Consecutive layers of one pipeline stage; sizes differ by at most one, the longer ones first.

    Raises ValueError when a stage would be empty.
    """
    if stages > layers:
        raise ValueError(f"parallel.pp={stages}: at most model.layers={layers} stages have a layer each")
    base, longer = divmod(layers, stages)
    start = stage * base + min(stage, longer)
    return range(start, start + base + (stage < longer))
