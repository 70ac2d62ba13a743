from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.config.schema import SourceConfig
from hpc_llm.data.read import jsonl, parquet
from hpc_llm.data.read.outcome import Document, Dropped
from hpc_llm.data.read.streams import Bad

CODECS = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
records = st.lists(
    st.fixed_dictionaries(
        {"text": st.text(min_size=1).filter(lambda t: not t.isspace())}, optional={"x": values}
    ),
    min_size=1,
    max_size=8,
)


def read(path: Path, data: bytes, **source: object) -> list[Document | Dropped | Bad]:
    path.write_bytes(data)
    return list(jsonl.read(str(path), SourceConfig(kind="jsonl", **source)))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jsonl") / "a.jsonl"


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(rows=records, split=st.integers(0, 10**6))
def test_any_records_come_back_from_any_codec_in_any_members(
    path: Path, codec: str, rows: list[dict], split: int
) -> None:
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    split %= len(data)
    out = read(path, CODECS[codec](data[:split]) + CODECS[codec](data[split:]))
    assert [o.text for o in out] == [row["text"] for row in rows]
    assert len({o.id for o in out}) == len(rows)
    assert [json.loads(o.meta).keys() if o.meta else set() for o in out] == [
        row.keys() - {"text"} for row in rows
    ]


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(rows=records, cut=st.integers(0, 10**6))
def test_a_cut_file_gives_a_prefix_of_its_records_and_a_bad_one(
    path: Path, codec: str, rows: list[dict], cut: int
) -> None:
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    data = CODECS[codec](b"".join(lines))
    cut = 4 + cut % (len(data) - 4)
    out = read(path, data[:cut])
    documents = [o.text for o in out if isinstance(o, Document)]
    assert documents == [row["text"] for row in rows][: len(documents)]
    ends = [sum(map(len, lines[: i + 1])) for i in range(len(lines))]
    undetectable = codec == "plain" and any(end - 1 <= cut <= end for end in ends)
    assert sum(isinstance(o, Bad) for o in out) == (not undetectable)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a\xffb"}', "invalid UTF-8 at byte 11"),
        (b'{"text": "a"', "invalid JSON"),
        (b'{"text": "\\ud800"}', "lone surrogate"),
        (b'{"body": "a"}', "no text in source.text_field='text'; other fields: body"),
        (b'{"text": null}', "no text"),
        (b'{"text": ["a"]}', "holds a list"),
        (b'["a"]', "a JSON list"),
        (b"[" * 100_000, "invalid JSON"),
        (b'{"text": "' + b"x" * 2_000_000 + b'"}', "exceeds source.max_record_mb"),
    ],
)
def test_a_bad_line_costs_itself_and_is_named(path: Path, line: bytes, reason: str) -> None:
    out = read(path, b'{"text": "first"}\n' + line + b'\n{"text": "last"}', max_record_mb=1)
    assert [type(o) for o in out] == [Document, Bad, Document]
    assert out[1].offset == 18
    assert reason in out[1].reason


def test_what_is_not_strict_json_but_common_is_read(path: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"text": "bom", "id": 7, "url": "http://x"}\r',
        b"",
        b'{"text": "nan", "score": NaN}',
        b'{"text": "big", "n": 123456789012345678901234567890}',
        b'{"text": " \\n"}',
    ]
    bom, nan, big, empty = read(path, b"\n".join(lines))
    offset = len(b"\n".join(lines[:-1])) + 1
    assert (bom.id, bom.url, bom.meta) == ("7", "http://x", None)
    assert json.loads(nan.meta) == {"score": None}
    assert json.loads(big.meta) == {"n": 123456789012345678901234567890.0}
    assert empty == Dropped("empty_text", offset)


@pytest.mark.parametrize("data", [b"", gzip.compress(b""), zstandard.ZstdCompressor().compress(b"")])
def test_an_empty_file_has_no_records(path: Path, data: bytes) -> None:
    assert read(path, data) == []


@pytest.mark.parametrize(
    ("name", "count"),
    [("dclm-majority_data.jsonl", 499), ("dolma-cc_en_head-0091.jsonl.gz", 10), ("dj-demo-dedup.jsonl", 14)],
)
def test_real_files(shared_data: Path, name: str, count: int) -> None:
    out = list(jsonl.read(str(shared_data / name), SourceConfig(kind="jsonl")))
    assert [type(o) for o in out] == [Document] * count


def test_parquet_rows_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "body": ["a", None, " ", "d"],
            "id": [1, 2, 3, None],
            "url": ["u", None, None, None],
            "n": [[1], [], None, []],
        }
    )
    pq.write_table(table, path, row_group_size=2)
    first, null, empty, last = parquet.read(str(path), SourceConfig(kind="parquet", text_field="body"))
    assert (first.id, first.text, first.url, json.loads(first.meta)) == ("1", "a", "u", {"n": [1]})
    assert isinstance(null, Bad) and null.offset == 1
    assert empty == Dropped("empty_text", 2)
    assert last.id == f"{path}#3"


def test_a_missing_or_wrong_parquet_column_lists_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["a"], "n": [1]}), path)
    with pytest.raises(
        ValueError, match=r"no column 'text' \(source.text_field\); columns: body: string, n: int64"
    ):
        list(parquet.read(str(path), SourceConfig(kind="parquet")))
    with pytest.raises(ValueError, match=r"'n' .* is no string"):
        list(parquet.read(str(path), SourceConfig(kind="parquet", text_field="n")))


@given(cut=st.integers(0, 10**6), damage=st.booleans())
@settings(deadline=None)
def test_a_damaged_parquet_file_gives_a_prefix_and_a_bad_one(
    tmp_path_factory, cut: int, damage: bool
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    texts = [f"text {i} " * 20 for i in range(100)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=25, compression="zstd")
    data = bytearray(path.read_bytes())
    cut %= len(data)
    path.write_bytes(data[:cut] if not damage else data[:-4] + b"XXXX")
    out = list(parquet.read(str(path), SourceConfig(kind="parquet")))
    assert [type(o) for o in out] == [Bad]


def test_a_parquet_row_that_is_no_utf8_costs_itself(tmp_path: Path) -> None:
    texts = pa.array([b"first", b"a\xffb", b"last"], type=pa.binary())
    pq.write_table(pa.table({"text": texts.view(pa.string())}), tmp_path / "a.parquet")
    out = list(parquet.read(str(tmp_path / "a.parquet"), SourceConfig(kind="parquet")))
    assert [type(o) for o in out] == [Document, Bad, Document]
    assert out[1].offset == 1 and "UTF-8" in out[1].reason


def test_a_real_parquet_file(shared_data: Path) -> None:
    out = list(parquet.read(str(shared_data / "dj-demo.parquet"), SourceConfig(kind="parquet")))
    assert [type(o) for o in out] == [Document] * 6
