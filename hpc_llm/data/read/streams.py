"""Bytes of an input file, decompressed, strict: whatever is damaged is reported, never passed over.

The codec is told by the file's first bytes, not by its name. gzip and zstd are decoded member by member
(a file may hold any number), so that damage to one costs that member: decoding goes on at the next
member header that decodes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
import zstandard

CHUNK = 1 << 18  # bytes handed on at once
READ = 1 << 14  # compressed bytes read at once
# Compressed bytes decoded at once. A zstd block of 4 bytes may stand for 128 KiB: this bounds one step
# to 64 MiB of output, before the bomb check sees it.
SLICE = 2048
BOMB_FLOOR = 64_000_000  # decompressed bytes below which no ratio is alarming

GZIP, ZSTD, LZ4 = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
# A header to search for: the fixed fields of RFC 1952, 2.3.1 (no reserved flag, a known system) make a
# chance hit in compressed bytes unlikely, as zstd's four bytes do.
_HEADER = {
    "gzip": re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_HEADER_BYTES = 10
ZSTD_SKIPPABLE = tuple(bytes([low]) + b"\x2a\x4d\x18" for low in range(0x50, 0x60))  # RFC 8878, 3.1.2


@dataclass(frozen=True)
class Bad:
    """Bytes that give no record: where they begin (in the decompressed stream) and why."""

    offset: int
    reason: str


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def chunks(path: str | Path, max_expansion: int) -> Iterator[bytes | Bad]:
    """Decompressed bytes of a plain, gzip, zstd or lz4 file in chunks, with a `Bad` wherever some are lost.

    A file that expands more than `max_expansion` times, once past 64 MB, ends in a `Bad`: it is a
    decompression bomb. Raises ValueError when the file is gone, OSError when storage fails.
    """
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed by the with below
    except FileNotFoundError:
        raise ValueError(f"input {path} is gone; it was there when the run was planned") from None
    with file:
        magic = file.read(4)
        file.seek(0)
        if magic.startswith(GZIP):
            yield from _joined(_members(file, "gzip", (GZIP,), max_expansion))
        elif magic == ZSTD or magic in ZSTD_SKIPPABLE:
            yield from _joined(_members(file, "zstd", (ZSTD, *ZSTD_SKIPPABLE), max_expansion))
        elif magic == LZ4:
            yield from _lz4(path, Path(path).stat().st_size, max_expansion)
        else:
            while data := file.read(CHUNK):
                yield data


def _joined(source: Iterator[bytes | Bad]) -> Iterator[bytes | Bad]:
    """Small pieces joined to chunks of at least `CHUNK` bytes; never across a `Bad`."""
    pieces: list[bytes] = []
    size = 0
    for piece in source:
        if isinstance(piece, bytes):
            pieces.append(piece)
            size += len(piece)
        if pieces and (size >= CHUNK or isinstance(piece, Bad)):
            yield b"".join(pieces)
            pieces, size = [], 0
        if isinstance(piece, Bad):
            yield piece
    if pieces:
        yield b"".join(pieces)


def _decoder(codec: str) -> _Decoder:
    return zlib.decompressobj(wbits=31) if codec == "gzip" else zstandard.ZstdDecompressor().decompressobj()


def _members(
    file: BinaryIO, codec: str, headers: tuple[bytes, ...], max_expansion: int
) -> Iterator[bytes | Bad]:
    """Decode member after member. After damage, every later header is tried until one decodes."""
    pattern = _HEADER[codec]
    decoder: _Decoder | None = None  # of the member under way
    lost = False  # searching for the next member; the damage is already reported
    window = b""  # read and not yet decoded
    taken = produced = start = 0  # compressed bytes read, decompressed bytes, where this member starts
    while True:
        data = file.read(READ)
        taken += len(data)
        window += data
        reason = ""
        while window:
            if decoder is None:
                if lost:
                    found = pattern.search(window)
                    window = window[found.start() if found else -_HEADER_BYTES :]
                    if not found:
                        break
                if len(window) < len(headers[0]) and data:
                    break
                if not window.startswith(headers):
                    start = taken - len(window)
                    if window.strip(b"\0"):  # zeros pad files from tapes and some tools
                        reason = f"no {codec} header at compressed byte {start}"
                    window = b""
                    break
                decoder, start = _decoder(codec), taken - len(window)
            try:
                out = decoder.decompress(window[:SLICE])
            except (zlib.error, zstandard.ZstdError) as error:
                reason = f"damaged {codec} member, begun at compressed byte {start}: {error}"
                break
            if out:
                lost = False
                produced += len(out)
                yield out
            window = window[SLICE:]
            if decoder.eof:
                window, decoder = decoder.unused_data + window, None
            consumed = taken - len(window)
            if produced > max(BOMB_FLOOR, max_expansion * consumed):
                yield Bad(produced, _bomb(produced, consumed))
                return
        if not data and decoder is not None:
            reason = reason or f"truncated {codec} member, begun at compressed byte {start}"
        if reason:
            # A damaged member may have swallowed those behind it: search from its own start.
            if not lost:
                yield Bad(produced, reason)
            taken = file.seek(start + 1)
            decoder, lost, window = None, True, b""
        elif not data:
            return


def _lz4(path: str | Path, compressed: int, max_expansion: int) -> Iterator[bytes | Bad]:
    """lz4 frames through Arrow, which raises at damage but hides how far it got: hence the bytewise end."""
    produced = 0
    size = CHUNK
    stream = pa.CompressedInputStream(pa.OSFile(str(path)), "lz4")
    while True:
        try:
            out = stream.read(size)
        except OSError as error:
            if size == 1:
                yield Bad(produced, f"damaged or truncated lz4 frame: {error}")
                return
            stream, size = pa.CompressedInputStream(pa.OSFile(str(path)), "lz4"), 1
            for _ in range(produced // CHUNK):
                stream.read(CHUNK)
            stream.read(produced % CHUNK)
            continue
        if not out:
            return
        produced += len(out)
        yield out
        if produced > max(BOMB_FLOOR, max_expansion * compressed):
            yield Bad(produced, _bomb(produced, compressed))
            return


def _bomb(produced: int, compressed: int) -> str:
    return (
        f"{compressed} compressed bytes expand to more than {produced}, over source.max_expansion: "
        "taken for a decompression bomb, the rest of the file is not read"
    )
