"""Device mesh, tensor, pipeline and data parallelism."""
