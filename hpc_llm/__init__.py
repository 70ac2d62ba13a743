"""hpc_llm: from raw web pages to a trained, exported language model on a Slurm cluster."""

__version__ = "0.1.0"
