import pytest

from hpc_llm.config.compose import compose
from hpc_llm.run import preflight
from hpc_llm.slurm import limits

PARTITIONS = limits.parse_partitions(
    "PartitionName=batch Default=YES MaxTime=02:00:00 State=UP TotalNodes=4 TotalCPUs=32 Nodes=n[1-4]\n"
    "PartitionName=old Default=NO MaxTime=UNLIMITED State=DRAIN TotalNodes=2 TotalCPUs=16 Nodes=n[1-2]\n"
    "PartitionName=long Default=NO MaxTime=UNLIMITED State=UP TotalNodes=2 TotalCPUs=16 Nodes=n[1-2]\n"
)


def problems(*overrides: str) -> list[str]:
    return list(preflight.problems(compose(["+cluster=lustre_ib", *overrides]), PARTITIONS))


FITS = ["cluster.array.time=1:00:00", "cluster.train.time=2:00:00"]


def test_what_fits_has_no_problem():
    assert problems(*FITS) == []
    assert problems(*FITS, "cluster.train.partition=long", "cluster.train.time=UNLIMITED") == []


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["cluster.train.time=2:00:01"],
            "cluster.train.time=2:00:01: partition batch allows at most 0-02:00:00",
        ),
        (["cluster.train.time=UNLIMITED"], "cluster.train.time=UNLIMITED: partition batch allows at most"),
        (["cluster.array.partition=old"], "cluster.array.partition=old: partition old is DRAIN, not UP"),
        (["cluster.array.partition=gpu"], "cluster.array.partition=gpu: the cluster has batch, long, old"),
        (
            ["cluster.train.partition=long", "parallel.nodes=3", "train.global_batch=48"],
            "parallel.nodes=3: partition long has 2 nodes",
        ),
    ],
)
def test_what_the_cluster_would_not_run_is_named(overrides, said):
    [problem] = problems(*FITS, *overrides)
    assert problem.startswith(said)


def test_a_cluster_without_a_default_partition_wants_one_named():
    found = list(preflight.problems(compose(["+cluster=lustre_ib", *FITS]), PARTITIONS[1:]))
    assert (
        all("has no default partition; name one of old, long" in line for line in found) and len(found) == 2
    )
