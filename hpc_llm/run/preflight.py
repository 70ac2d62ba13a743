"""The configuration against the live cluster, before anything is submitted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpc_llm.config.schema import Config
from hpc_llm.slurm import timefmt
from hpc_llm.slurm.limits import Partition


def problems(config: Config, partitions: Sequence[Partition]) -> Iterator[str]:
    """One line for each request that this cluster would refuse or leave pending for ever."""
    names = {partition.name: partition for partition in partitions}
    for key, resources in (("array", config.cluster.array), ("train", config.cluster.train)):
        name = resources.partition
        if name is not None and name not in names:
            yield f"cluster.{key}.partition={name}: the cluster has {', '.join(sorted(names))}"
            continue
        chosen = names[name] if name is not None else next((p for p in partitions if p.default), None)
        if chosen is None:
            yield f"cluster.{key}.partition=null: the cluster has no default partition; name one of {', '.join(names)}"
            continue
        if chosen.state != "UP":
            yield f"cluster.{key}.partition={name or 'null'}: partition {chosen.name} is {chosen.state}, not UP"
        asked, most = timefmt.parse(resources.time), chosen.max_time_s
        if most is not None and (asked is None or asked > most):
            yield (
                f"cluster.{key}.time={resources.time}: partition {chosen.name} allows at most {timefmt.render(most)}"
            )
        nodes = config.parallel.nodes if key == "train" else 1
        if nodes > chosen.total_nodes:
            yield f"parallel.nodes={nodes}: partition {chosen.name} has {chosen.total_nodes} nodes"
