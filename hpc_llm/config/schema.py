"""The typed configuration tree.

Every dataclass here is one node of the Hydra tree under ``conf/``; ``Config`` is its root and is
registered in Hydra's ConfigStore, so an unknown key or a wrong type is refused by name.
Only types that OmegaConf can check are used. Combinations are checked in ``config.check``.
Units are in the field names or comments: ``_s`` seconds, ``_mb`` megabytes (10**6 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class RunConfig:
    root: str = "runs"  # folder of all runs, on storage that every node sees
    name: str = "quickstart"  # the run folder is root/name


@dataclass
class SourceConfig:
    kind: str = "python_env"  # python_env | warc | jsonl | parquet
    paths: list[str] = field(default_factory=list)  # files, folders, globs; unused by python_env
    shards: int = 0  # 0: as many as shard_mb asks for
    shard_mb: int = 256  # target input bytes in one shard, as stored
    text_field: str = "text"  # jsonl and parquet: the column that holds the text
    id_field: str = "id"  # jsonl and parquet: optional column with the document id
    max_record_mb: int = 64  # a larger record, after decompression, is quarantined
    max_expansion: int = 1000  # decompressed bytes per compressed byte of a file before it is a bomb
    max_bad_fraction: float = (
        0.1  # a shard with more unreadable records fails; three are always borne unless 0
    )


@dataclass
class GopherQualityConfig:
    """Thresholds of Rae et al. 2021 (arXiv 2112.11446), Table A1 and section A.1.1."""

    enabled: bool = True
    min_words: int = 50
    max_words: int = 100_000
    min_mean_word_length: float = 3.0
    max_mean_word_length: float = 10.0
    max_symbol_word_ratio: float = 0.1
    max_bullet_line_fraction: float = 0.9
    max_ellipsis_line_fraction: float = 0.3
    min_alpha_word_fraction: float = 0.8
    min_stop_words: int = 2


@dataclass
class GopherRepetitionConfig:
    """Thresholds of Rae et al. 2021 (arXiv 2112.11446), Table A1."""

    enabled: bool = True
    max_dup_line_fraction: float = 0.30
    max_dup_paragraph_fraction: float = 0.30
    max_dup_line_char_fraction: float = 0.20
    max_dup_paragraph_char_fraction: float = 0.20
    max_top_ngram_char_fraction: list[float] = field(
        default_factory=lambda: [0.20, 0.18, 0.16]
    )  # n = 2, 3, 4
    max_dup_ngram_char_fraction: list[float] = field(
        default_factory=lambda: [0.15, 0.14, 0.13, 0.12, 0.11, 0.10]
    )  # n = 5 .. 10


@dataclass
class C4Config:
    """Line and document rules of Raffel et al. 2020 (arXiv 1910.10683), section 2.2."""

    enabled: bool = True
    require_terminal_punctuation: bool = False  # FineWeb runs C4 without this rule
    min_words_per_line: int = 3
    max_word_length: int = 1000
    min_sentences: int = 5
    drop_javascript_lines: bool = True
    drop_policy_lines: bool = True
    drop_curly_bracket: bool = True
    drop_lorem_ipsum: bool = True
    remove_citations: bool = True


@dataclass
class FiltersConfig:
    gopher_quality: GopherQualityConfig = field(default_factory=GopherQualityConfig)
    gopher_repetition: GopherRepetitionConfig = field(default_factory=GopherRepetitionConfig)
    c4: C4Config = field(default_factory=C4Config)


@dataclass
class MinHashConfig:
    """Banded MinHash (Broder 1997; Leskovec et al., Mining of Massive Datasets, section 3.4)."""

    enabled: bool = True
    ngram: int = 5  # words in a shingle
    bands: int = 14
    rows: int = 8  # hashes in a band
    seed: int = 1
    partitions: int = 2  # tasks of the bucket stage; bands are dealt out over them


@dataclass
class ExactConfig:
    enabled: bool = True
    partitions: int = 2  # tasks of the match stage; key ranges are dealt out over them


@dataclass
class DedupConfig:
    minhash: MinHashConfig = field(default_factory=MinHashConfig)
    exact: ExactConfig = field(default_factory=ExactConfig)


@dataclass
class PiiConfig:
    emails: bool = True
    ips: bool = True  # public addresses only
    phones: bool = True


@dataclass
class TokenizerConfig:
    path: str | None = None  # an existing tokenizer.json; null: train one
    vocab_size: int = 8192  # special tokens included
    sample_mb: int = 50  # text sampled for training
    min_frequency: int = 2
    seed: int = 0


@dataclass
class PackConfig:
    seed: int = 0
    validation_fraction: float = 0.01  # of documents, chosen by hash of the document id


@dataclass
class ModelConfig:
    """Decoder-only Transformer: RMSNorm, SwiGLU, RoPE, grouped-query attention."""

    layers: int = 4
    hidden: int = 256
    heads: int = 8
    kv_heads: int = 4
    ffn_hidden: int = 688
    sequence_length: int = 256
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    init_std: float = 0.02
    vocab_multiple: int = 128  # the vocabulary is padded to a multiple of this, which tp divides


@dataclass
class ParallelConfig:
    """Ranks = nodes * tasks_per_node = dp * tp * pp; dp is what the others leave."""

    nodes: int = 1
    tasks_per_node: int = 1
    tp: int = 1
    pp: int = 1
    schedule: str = "1f1b"  # gpipe | 1f1b
    zero: int = 3  # 2: keep parameters between microbatches; 3: reshard them
    activation_checkpointing: bool = False
    compile: bool = False


@dataclass
class OptimConfig:
    lr: float = 1e-3
    min_lr_ratio: float = 0.1
    warmup_steps: int = 20
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1  # none on norms and embeddings
    clip: float = 1.0  # global gradient norm; 0: no clipping


@dataclass
class CheckpointConfig:
    interval_steps: int = 50
    keep: int = 2
    asynchronous: bool = True


@dataclass
class TrainConfig:
    steps: int = 200
    global_batch: int = 16  # sequences in one optimizer step, over all ranks
    micro_batch: int = 4  # sequences in one forward pass of one rank
    precision: str = "fp32"  # fp32 | bf16 (autocast; fp32 weights and reductions)
    seed: int = 0
    device: str = "auto"  # auto | cpu | cuda
    deterministic: bool = True  # refuse nondeterministic kernels
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    eval_interval_steps: int = 50  # 0: no validation loss
    eval_batches: int = 4
    log_interval_steps: int = 1
    sample_prompts: list[str] = field(default_factory=lambda: ["The", "This function returns"])
    sample_tokens: int = 48


@dataclass
class ArrayResources:
    """What one array element of a data stage asks for."""

    partition: str | None = None
    time: str = "01:00:00"  # any Slurm form
    cpus: int = 1
    mem: str | None = None  # as sbatch --mem; null: the cluster's default
    parallel: int | None = None  # elements that run at once; null: no limit (local: the number of CPUs)
    shards_per_element: int = 1  # shards that one element works through


@dataclass
class TrainResources:
    partition: str | None = None
    time: str = "1-00:00:00"
    cpus_per_task: int = 1
    gpus_per_node: int = 0
    mem: str | None = None


@dataclass
class RestartConfig:
    """Who restarts is the batch script; these are its three budgets."""

    signal_lead_s: int = 120  # warning before the time limit
    max_failures: int = 3  # restarts in a row without a new checkpoint or shard
    max_node_failures: int = 10


@dataclass
class ClusterConfig:
    executor: str = "local"  # local | slurm | debug (in this process)
    array: ArrayResources = field(default_factory=ArrayResources)
    train: TrainResources = field(default_factory=TrainResources)
    restart: RestartConfig = field(default_factory=RestartConfig)
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    slurm_conf: str | None = None  # SLURM_CONF for a cluster that is not the machine's own
    templates: str | None = None  # folder with array.sbatch and train.sbatch; null: the ones shipped
    environment: dict[str, str] = field(default_factory=dict)  # exported in every job, quoted
    interface: str | None = None  # network interface for gloo and NCCL's bootstrap


@dataclass
class Config:
    run: RunConfig = field(default_factory=RunConfig)
    stages: str = "all"  # all | data | train: the part of the graph to submit
    dry_run: bool = False  # print the graph and every script, submit nothing
    source: SourceConfig = field(default_factory=SourceConfig)
    filters: FiltersConfig = field(default_factory=FiltersConfig)
    dedup: DedupConfig = field(default_factory=DedupConfig)
    pii: PiiConfig = field(default_factory=PiiConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    pack: PackConfig = field(default_factory=PackConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
