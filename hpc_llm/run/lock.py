"""One local launcher works on a run at a time."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A file system without locks (Lustre mounted with -o noflock) says one of these.
_UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class Held(Exception):
    """Another launcher works on this run; the message says which process."""


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock file `path` while the block runs; the kernel lets go of it however the process ends.

    Raises Held at once when it is taken. Where the file system has no locks this does nothing: shards are
    published by rename, so two launchers only do some work twice.
    """
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Held(f"process {file.read().strip() or 'of another user'} works on this run") from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def held(path: Path) -> bool:
    """Whether a launcher of this machine works on the run."""
    try:
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
