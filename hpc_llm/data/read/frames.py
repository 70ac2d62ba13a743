"""WARC records cut out of a byte stream (ISO 28500), strict about where each one ends.

fastwarc's iterator trusts Content-Length and stops at the first bad header. Here a length that does not
lead to a record boundary is reported, and reading goes on at the next ``WARC/1.x`` line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hpc_llm.data.read.streams import Bad

MAX_HEADER = 1 << 16

_BOUNDARY = re.compile(rb"\n(?=WARC/[01]\.\d+\r?\n)")
_BOUNDARY_BYTES = 16  # that a boundary can need; the last this many bytes of a search are kept
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


def frames(chunks: Iterable[bytes | Bad], max_bytes: int) -> Iterator[tuple[int, bytes] | Bad]:
    """``(offset, record)`` for each record, header and content, and a `Bad` for each that has none.

    A gap in the stream costs the record that it interrupts, and both are one `Bad`. A record of more
    than `max_bytes` is a `Bad`; the search for the next one then starts inside its content, so records
    that it embeds line by line are read as records.
    """
    window = _Window(chunks)
    while True:
        yield from _segment(window, max_bytes)
        if window.end is None:
            return
        window.resume()


class _Window:
    """The part of the stream that is held: `data`, whose first byte is at `offset`, up to EOF or a gap."""

    def __init__(self, chunks: Iterable[bytes | Bad]) -> None:
        self._chunks = iter(chunks)
        self.data = bytearray()
        self.offset = 0
        self.end: Bad | None = None  # the gap at which the bytes end
        self._done = False

    def fill(self, size: int) -> bool:
        """Hold at least `size` bytes; False when the stream ends or breaks before."""
        while len(self.data) < size and not self._done:
            chunk = next(self._chunks, None)
            if isinstance(chunk, bytes):
                self.data += chunk
            else:
                self.end, self._done = chunk, True
        return len(self.data) >= size

    def skip(self, size: int) -> None:
        del self.data[:size]
        self.offset += size

    def resume(self) -> None:
        """Go on behind the gap."""
        assert self.end is not None
        self.offset = self.end.offset
        self.data.clear()
        self.end, self._done = None, False


def _segment(window: _Window, max_bytes: int) -> Iterator[tuple[int, bytes] | Bad]:
    """Records up to the end of the stream or to its next gap."""
    while True:
        while window.fill(1) and window.data[0] in b"\r\n":
            window.skip(1)
        if not window.fill(1):
            if window.end is not None:
                yield window.end
            return
        offset = window.offset
        size, reason = _measure(window, max_bytes)
        if not reason:
            record = bytes(window.data[:size])
            window.skip(size)
            yield offset, record
            continue
        window.skip(size)
        if _resync(window) or window.end is None:
            yield Bad(offset, reason)
        else:
            yield Bad(offset, f"{reason}; {window.end.reason}")
            return


def _measure(window: _Window, max_bytes: int) -> tuple[int, str]:
    """Bytes of the record at the window's start and ``""``; or bytes to skip before a search, and why."""
    window.fill(MAX_HEADER)
    if not window.data.startswith(b"WARC/"):
        return 0, "no WARC header where a record should begin"
    end = _HEADER_END.search(window.data, 0, MAX_HEADER)
    if end is None:
        return 1, "WARC header without an end"
    header = end.end()
    search = header - 1  # a record may begin right behind the header's last newline
    length = _LENGTH.search(window.data, 0, header)
    if length is None:
        return search, "WARC header without a valid Content-Length"
    content = int(length[1])
    if content > max_bytes:
        return search, f"record of {content} bytes exceeds source.max_record_mb ({max_bytes / 1e6:g} MB)"
    size = header + content
    if not window.fill(size):
        return search, f"truncated record: Content-Length {content}, {len(window.data) - header} bytes left"
    window.fill(size + 4 + len(b"WARC/"))
    behind = bytes(window.data[size : size + 9])
    if not behind.startswith((b"\r\n\r\n", b"\n\n")) and not (behind.lstrip(b"\r\n") or b"WARC/").startswith(
        b"WARC/"
    ):
        return search, f"Content-Length {content} does not lead to a record boundary"
    return size, ""


def _resync(window: _Window) -> bool:
    """Move to the next line that begins a record; False when there is none before the end or a gap."""
    while True:
        found = _BOUNDARY.search(window.data)
        if found:
            window.skip(found.end())
            return True
        window.skip(max(0, len(window.data) - _BOUNDARY_BYTES))
        if not window.fill(_BOUNDARY_BYTES + 1):
            window.skip(len(window.data))
            return False
