"""Saving and loading model, optimizer and position, in any layout, with torch.distributed.checkpoint.

Only tensors are stored, under ``model.<parameter>`` and ``optimizer.<parameter>.exp_avg`` and
``.exp_avg_sq``: no pickled objects but the library's own index, which is read after its checksum.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch.distributed as dist
import xxhash
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors
from torch.distributed.checkpoint.state_dict_saver import save as save_tensors
from torch.optim import Optimizer

from hpc_llm.train import manifest
from hpc_llm.train.manifest import Corrupt, FileSum, Position


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read. (The library's own is a BaseException, easily missed.)"""


def tensors(model: nn.Module, optimizer: Optimizer | None = None) -> dict[str, Tensor]:
    """What a checkpoint holds of this rank's stage; the tensors themselves, so loading is in place."""
    state: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        state[f"model.{name}"] = parameter.detach()
        if optimizer is not None:
            moments = optimizer.state[parameter]
            state[f"optimizer.{name}.exp_avg"] = moments["exp_avg"]
            state[f"optimizer.{name}.exp_avg_sq"] = moments["exp_avg_sq"]
    return state


def load_weights(checkpoint: Path, model: nn.Module) -> Position:
    """Read a published checkpoint's weights into a whole model in this one process, verified first.

    Raises manifest.Corrupt, or CheckpointError when the model is not the one that was saved.
    """
    manifest.verify(checkpoint)
    with _as_error(f"reading {checkpoint}"), warnings.catch_warnings():
        # It says that there is no process group, which is what no_dist asks for.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load_tensors(tensors(model), storage_reader=FileSystemReader(checkpoint), no_dist=True)
    return manifest.read(checkpoint)[0]


class Checkpointer:
    """The checkpoints of one run. Every method is collective: all ranks call it, in the same order.

    folder
        Holds the published checkpoints, on storage that every rank sees.
    keep
        How many published checkpoints stay.
    asynchronous
        `save` returns once the tensors are copied; a thread writes and publishes them.
    """

    def __init__(self, folder: Path, keep: int, asynchronous: bool) -> None:
        self._folder = folder
        self._keep = keep
        self._asynchronous = asynchronous
        # A group of its own, on the CPU: the writing thread must not mix with training's collectives.
        self._group = dist.new_group(backend="gloo")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def save(self, model: nn.Module, optimizer: Optimizer, position: Position) -> None:
        """Save; waits for the one before. Raises CheckpointError, also for a failure of the one before."""
        self.wait()
        writer = _HashingWriter(manifest.temporary(self._folder, position.step))
        staged = writer.stage(tensors(model, optimizer))
        self._pending = self._thread.submit(self._write, writer, staged, position)
        if not self._asynchronous:
            self.wait()

    def wait(self) -> None:
        """Return when nothing is being written. Raises CheckpointError for what went wrong meanwhile."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        self.wait()
        self._thread.shutdown()

    def load(self, model: nn.Module, optimizer: Optimizer) -> Position:
        """Load the newest checkpoint that is what was written; the start of training when there is none.

        Those that are not are named on standard output and set aside. Raises CheckpointError when a
        good checkpoint does not fit the model.
        """
        position = Position()
        if self._rank == 0:
            manifest.remove_torn(self._folder)
        for checkpoint in self._from_rank_0(list(reversed(manifest.published(self._folder)))):
            problems = [None] * self._size
            dist.all_gather_object(problems, self._problem(checkpoint), group=self._group)
            if reasons := [p for p in problems if p]:
                if self._rank == 0:
                    aside = manifest.set_aside(checkpoint)
                    print(f"checkpoint refused, kept as {aside.name}: {reasons[0]}", flush=True)
                continue
            with _as_error(f"reading {checkpoint}"):
                load_tensors(
                    tensors(model, optimizer),
                    storage_reader=FileSystemReader(checkpoint),
                    process_group=self._group,
                )
            position, _ = manifest.read(checkpoint)
            break
        for moments in optimizer.state.values():
            moments["step"].fill_(position.step)
        if self._rank == 0 and (position.step or list(self._folder.glob("corrupt_*"))):
            print(f"training continues from step {position.step}", flush=True)
        return position

    @property
    def _rank(self) -> int:
        return dist.get_rank(self._group)

    @property
    def _size(self) -> int:
        return dist.get_world_size(self._group)

    def _problem(self, checkpoint: Path) -> str | None:
        try:
            manifest.verify(checkpoint, self._rank, self._size)
        except Corrupt as error:
            return str(error)
        return None

    def _from_rank_0(self, value: Any) -> Any:
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def _write(self, writer: _HashingWriter, staged: dict[str, Tensor], position: Position) -> None:
        """In the thread of every rank. What fails on one rank is raised on all, so none waits for ever."""
        path = manifest.temporary(self._folder, position.step)
        with _as_error(f"writing {path}"):
            save_tensors(staged, storage_writer=writer, process_group=self._group)
        sums: list[dict[str, FileSum]] = [{}] * self._size
        dist.all_gather_object(sums, writer.sums, group=self._group)
        failure: str | None = None
        if self._rank == 0:
            try:
                manifest.publish(self._folder, position, {k: v for s in sums for k, v in s.items()})
                manifest.prune(self._folder, self._keep)
            except OSError as error:
                failure = f"publishing {path}: {error}"
        if failure := self._from_rank_0(failure):
            raise CheckpointError(failure)


@contextmanager
def _as_error(doing: str) -> Iterator[None]:
    try:
        yield
    except CheckpointException as error:
        causes = "; ".join(f"rank {rank}: {cause[0]}" for rank, cause in sorted(error.failures.items()))
        raise CheckpointError(f"{doing}: {causes}") from error


class _HashingWriter(FileSystemWriter):
    """Takes the checksum of every byte on its way to the file, so damage done on the way shows later."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.fs = _HashingFileSystem()
        self.sums = self.fs.sums  # of the files that this rank wrote, by name


class _HashingFileSystem(FileSystem):
    def __init__(self) -> None:
        self.sums: dict[str, FileSum] = {}

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[io.IOBase]:
        assert mode == "wb"
        with Path(path).open("wb") as file:
            stream = _HashingStream(file)
            yield cast(io.IOBase, stream)
        self.sums[Path(path).name] = FileSum(stream.written, stream.digest.hexdigest())

    def rename(self, path: Any, new_path: Any) -> None:
        super().rename(path, new_path)
        self.sums[Path(new_path).name] = self.sums.pop(Path(path).name)


class _HashingStream:
    """A binary file that is only appended to."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file
        self.digest = xxhash.xxh3_128()
        self.written = 0

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.written += self._file.write(data)
        return memoryview(data).nbytes

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.flush()
