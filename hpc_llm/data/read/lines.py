"""Lines of a byte stream, with their offsets, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpc_llm.data.read.streams import Bad


def lines(chunks: Iterable[bytes | Bad], max_bytes: int) -> Iterator[tuple[int, bytes] | Bad]:
    """``(offset, line)`` for each line, without its ``\\n``; the last need not end in one.

    A line of more than `max_bytes` is a `Bad`, and is never held whole. So is each gap in the stream,
    which takes the line that it interrupts with it.
    """
    pieces: list[bytes] = []  # of the line under way, empty once it is too long
    held = 0  # its bytes so far
    offset = 0  # where it begins

    def line() -> tuple[int, bytes] | Bad:
        if held > max_bytes:
            return Bad(offset, f"line of {held} bytes exceeds source.max_record_mb ({max_bytes / 1e6:g} MB)")
        return offset, b"".join(pieces)

    for chunk in chunks:
        if isinstance(chunk, Bad):
            yield chunk
            pieces, held, offset = [], 0, chunk.offset
            continue
        whole, newline, last = chunk.rpartition(b"\n")
        if newline:
            first, *others = whole.split(b"\n")
            pieces.append(first)
            held += len(first)
            yield line()
            offset += held + 1
            for other in others:
                pieces, held = [other], len(other)
                yield line()
                offset += held + 1
            pieces, held = [], 0
        pieces.append(last)
        held += len(last)
        if held > max_bytes:
            pieces = []
    if held:
        yield line()
