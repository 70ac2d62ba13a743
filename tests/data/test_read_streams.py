from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.data.read.lines import lines
from hpc_llm.data.read.streams import Bad, chunks

PAYLOAD = b"".join(b"line %d of some text\n" % i for i in range(20_000))


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data)


CODECS = {"gzip": lambda data: gzip.compress(data, 1), "zstd": _zstd}


def _read(path: Path, data: bytes, max_expansion: int = 1000) -> tuple[bytes, list[Bad]]:
    path.write_bytes(data)
    out = list(chunks(path, max_expansion))
    return b"".join(c for c in out if isinstance(c, bytes)), [c for c in out if isinstance(c, Bad)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams") / "input"


@pytest.mark.parametrize("codec", CODECS)
@given(pieces=st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_a_file_of_several_members_gives_all_of_them(path: Path, codec: str, pieces: list[bytes]) -> None:
    data = b"".join(CODECS[codec](piece) for piece in pieces)
    assert _read(path, data) == (b"".join(pieces), [])


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(cut=st.integers(1, 10**6))
def test_a_truncated_member_gives_a_prefix_and_is_never_silent(path: Path, codec: str, cut: int) -> None:
    whole = CODECS[codec](PAYLOAD)
    data = whole[: 4 + cut % (len(whole) - 4)]
    out, bad = _read(path, data)
    assert PAYLOAD.startswith(out)
    assert [b.offset for b in bad] == [len(out)]
    assert "truncated" in bad[0].reason


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(where=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_damage_to_one_member_costs_that_member_only(path: Path, codec: str, where: int, flip: int) -> None:
    first, last = CODECS[codec](b"first\n" * 50), CODECS[codec](b"last\n" * 50)
    middle = bytearray(CODECS[codec](PAYLOAD[:3000]))
    where = len(first) + 10 + where % (len(middle) - 10)  # behind the fields of a header that mean nothing
    data = bytearray(first + middle + last)
    data[where] ^= flip
    out, bad = _read(path, bytes(data))
    assert out.startswith(b"first\n" * 50)
    assert out.endswith(b"last\n" * 50)
    assert bad or out == b"first\n" * 50 + PAYLOAD[:3000] + b"last\n" * 50  # some bits mean nothing


def test_zstd_skippable_frames_and_zero_padding_are_not_damage(path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert _read(path, skippable + _zstd(b"x") + skippable + _zstd(b"y")) == (b"xy", [])
    assert _read(path, gzip.compress(b"x") + bytes(512)) == (b"x", [])


def test_garbage_behind_a_member_is_reported(path: Path) -> None:
    out, bad = _read(path, gzip.compress(b"x") + b"garbage" + gzip.compress(b"y"))
    assert out == b"xy"
    assert len(bad) == 1 and "no gzip header" in bad[0].reason


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_stops_at_the_bound(path: Path, codec: str) -> None:
    deflate = zlib.compressobj(9, wbits=31)
    data = {
        "gzip": b"".join(deflate.compress(bytes(1 << 20)) for _ in range(90)) + deflate.flush(),
        "zstd": _zstd(bytes(90 << 20)),
    }[codec]
    path.write_bytes(data)
    total = 0
    for chunk in chunks(path, max_expansion=100):
        if isinstance(chunk, Bad):
            assert "source.max_expansion" in chunk.reason
            break
        total += len(chunk)
    else:
        pytest.fail("the bomb was read to its end")
    assert total < 90 << 20
    assert _read(path, data, max_expansion=10**6) == (bytes(90 << 20), [])


def test_lz4_ends_where_the_damage_begins(shared_data: Path, path: Path) -> None:
    whole = (shared_data / "resiliparse-warcfile.warc.lz4").read_bytes()
    full, bad = _read(path, whole)
    assert not bad and full.count(b"WARC/1.") == 50
    out, bad = _read(path, whole[: len(whole) // 2])
    assert full.startswith(out) and len(out) > len(full) // 4
    assert [b.offset for b in bad] == [len(out)]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing\.gz is gone"):
        list(chunks(tmp_path / "nothing.gz", 10))


@given(st.binary(max_size=200).map(lambda b: b.replace(b"x", b"\n")), st.lists(st.integers(1, 40)))
def test_lines_are_those_of_the_whole_however_the_stream_is_cut(data: bytes, cuts: list[int]) -> None:
    def pieces() -> Iterator[bytes]:
        rest = data
        for cut in cuts:
            if rest:
                yield rest[:cut]
                rest = rest[cut:]
        if rest:
            yield rest

    wanted = data.split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    out = [line for line in lines(pieces(), 1000) if not isinstance(line, Bad)]
    assert [text for _, text in out] == wanted
    assert all(data[offset : offset + len(text)] == text for offset, text in out)


@given(st.integers(1, 30), st.integers(0, 60), st.integers(1, 70))
def test_a_long_line_costs_itself_and_its_offset_is_told(limit: int, size: int, step: int) -> None:
    data = b"a\n" + b"b" * size + b"\nc"
    out = list(lines((data[i : i + step] for i in range(0, len(data), step)), limit))
    middle = out.pop(1)
    assert out == [(0, b"a"), (len(data) - 1, b"c")]
    assert (isinstance(middle, Bad) and middle.offset == 2) if size > limit else middle == (2, b"b" * size)


def test_a_gap_takes_the_line_under_way_with_it() -> None:
    gap = Bad(5, "gap")
    assert list(lines([b"a\nbcd", gap, b"e\nf"], 10)) == [(0, b"a"), gap, (5, b"e"), (7, b"f")]
