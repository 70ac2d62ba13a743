from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.data.tokens.indexed import Reader, Writer, token_dtype


def write(folder: Path, documents: list[list[int]], dtype: str = "<u2") -> Path:
    path = folder / "00000.train.bin"
    with Writer(path, path.with_suffix(".idx"), np.dtype(dtype)) as writer:
        for document in documents:
            writer.add(np.array(document, dtype=np.int64))
    return path


@pytest.mark.parametrize(("dtype", "code", "letter"), [("<u2", 8, "H"), ("<i4", 4, "i")])
def test_bytes_are_those_of_the_format(tmp_path: Path, dtype: str, code: int, letter: str) -> None:
    documents = [[5, 6, 7], [], [65_000], [1, 2]]
    path = write(tmp_path, documents, dtype)
    assert path.read_bytes() == struct.pack(f"<6{letter}", 5, 6, 7, 65_000, 1, 2)
    size = struct.calcsize(f"<{letter}")
    assert path.with_suffix(".idx").read_bytes() == (
        b"MMIDIDX\x00\x00"
        + struct.pack("<QBQQ", 1, code, 4, 5)
        + struct.pack("<4i", 3, 0, 1, 2)
        + struct.pack("<4q", 0, 3 * size, 3 * size, 4 * size)
        + struct.pack("<5q", 0, 1, 2, 3, 4)
    )


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 65_535), max_size=20), max_size=10))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]]) -> None:
    reader = Reader(write(tmp_path_factory.mktemp("i"), documents))
    assert [reader[i].tolist() for i in range(len(reader))] == documents
    assert reader.tokens.tolist() == [t for d in documents for t in d]
    assert reader.dtype == np.uint16


def test_no_documents(tmp_path: Path) -> None:
    path = write(tmp_path, [])
    assert path.stat().st_size == 0
    reader = Reader(path)
    assert len(reader) == len(reader.tokens) == 0


@pytest.mark.parametrize("token", [65_536, -1])
def test_an_id_that_does_not_fit_is_refused(tmp_path: Path, token: int) -> None:
    with pytest.raises(ValueError, match="outside what uint16 holds"):
        write(tmp_path, [[1, token]])
    assert not (tmp_path / "00000.train.idx").exists()


@pytest.mark.parametrize(("change", "message"), [(-1, "cut short"), (-4, "cut short"), (2, "longer than")])
def test_another_bin_size_is_refused(tmp_path: Path, change: int, message: str) -> None:
    path = write(tmp_path, [[1, 2, 3], [4]])
    data = path.read_bytes()
    path.write_bytes(data[:change] if change < 0 else data + bytes(change))
    with pytest.raises(ValueError, match=message):
        Reader(path)


def test_a_damaged_index_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, [[1, 2, 3], [4]])
    idx = path.with_suffix(".idx")
    good = idx.read_bytes()
    for end in range(len(good)):
        idx.write_bytes(good[:end])
        with pytest.raises(ValueError, match=r"00000\.train\.idx"):
            Reader(path)
    for at in (0, 9, 17):  # magic, version, dtype code
        idx.write_bytes(good[:at] + b"\xee" + good[at + 1 :])
        with pytest.raises(ValueError, match=r"00000\.train\.idx"):
            Reader(path)


def test_dtype_is_the_one_megatron_chooses() -> None:
    assert token_dtype(65_499) == np.uint16
    assert token_dtype(65_500) == np.int32
