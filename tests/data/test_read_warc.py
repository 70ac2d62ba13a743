from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.config.schema import SourceConfig
from hpc_llm.data.read import warc
from hpc_llm.data.read.frames import frames
from hpc_llm.data.read.outcome import Document, Dropped
from hpc_llm.data.read.streams import Bad

PAGE = "<html><head><meta charset='latin-1'></head><body><main><p>{}</p></main></body></html>"


def record(content: bytes, kind: str = "conversion", length: int | None = None, number: int = 0) -> bytes:
    header = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{number}>\r\n"
        f"WARC-Target-URI: http://a.org/{number}\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(content) if length is None else length}\r\n\r\n"
    )
    return header.encode() + content + b"\r\n\r\n"


def page(text: str, headers: str = "Content-Type: text/html", body: bytes | None = None) -> bytes:
    return f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n".encode() + (
        PAGE.format(text).encode() if body is None else body
    )


def read(tmp_path: Path, data: bytes, **source: int) -> list[Document | Dropped | Bad]:
    path = tmp_path / "a.warc"
    path.write_bytes(data)
    return list(warc.read(str(path), SourceConfig(kind="warc", **source)))


def texts(outcomes: list[Document | Dropped | Bad]) -> list[str]:
    return [o.text for o in outcomes if isinstance(o, Document)]


contents = st.lists(st.binary(max_size=80).filter(lambda b: b"WARC/" not in b), min_size=1, max_size=6)


@given(contents, st.integers(1, 50))
def test_frames_are_the_records_however_the_stream_is_cut(bodies: list[bytes], step: int) -> None:
    records = [record(body, number=i) for i, body in enumerate(bodies)]
    data = b"".join(records)
    out = list(frames((data[i : i + step] for i in range(0, len(data), step)), 1000))
    assert [(data.index(r), r.removesuffix(b"\r\n\r\n")) for r in records] == out


@given(contents, st.integers(1, 10**6))
def test_a_cut_file_gives_a_prefix_of_its_records_and_a_bad_one(bodies: list[bytes], cut: int) -> None:
    records = [record(body, number=i) for i, body in enumerate(bodies)]
    data = b"".join(records)
    cut = 1 + cut % (len(data) - 1)
    out = list(frames([data[:cut]], 1000))
    whole = [r.removesuffix(b"\r\n\r\n") for r in records]
    good = [frame[1] for frame in out if not isinstance(frame, Bad)]
    ends = [sum(map(len, records[: i + 1])) for i in range(len(records))]
    assert good == whole[: sum(cut >= end - 4 for end in ends)]
    assert any(isinstance(frame, Bad) for frame in out) == (not any(end - 4 <= cut <= end for end in ends))


@pytest.mark.parametrize("lie", [0, 3, 40, 150, 10**6, 10**12])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_lying_content_length_costs_its_record_only(
    tmp_path: Path, lie: int, pack: Callable[[bytes], bytes]
) -> None:
    """Too short, past the next record, past the end, past the limit."""
    records = [record(b"first"), record(b"second record", length=lie), record(b"third"), record(b"fourth")]
    out = read(tmp_path, b"".join(map(pack, records)))
    assert texts(out) == ["first", "third", "fourth"]
    bad = [o for o in out if isinstance(o, Bad)]
    assert [b.offset for b in bad] == [len(records[0])]
    assert "Content-Length" in bad[0].reason or "max_record_mb" in bad[0].reason


@pytest.mark.parametrize(
    ("junk", "reason"),
    [
        (b"no header at all\r\n\r\n", "no WARC header"),
        (b"WARC/1.0\r\nWARC-Type: response\r\n\r\n", "Content-Length"),
        (b"WARC/1.0\r\nContent-Length: -4\r\n\r\n", "Content-Length"),
        (b"WARC/1.0\r\n" + b"X" * 70_000 + b"\r\n", "without an end"),
    ],
)
def test_a_bad_header_costs_its_record_only(tmp_path: Path, junk: bytes, reason: str) -> None:
    first = record(b"first")
    out = read(tmp_path, first + junk + record(b"last"))
    assert texts(out) == ["first", "last"]
    (bad,) = (o for o in out if isinstance(o, Bad))
    assert bad.offset == len(first) and reason in bad.reason


def test_a_record_over_the_limit_is_set_aside(tmp_path: Path) -> None:
    out = read(tmp_path, record(b"a") + record(b"x" * 3_000_000) + record(b"b"), max_record_mb=1)
    assert texts(out) == ["a", "b"]
    assert [o.reason.partition(" (")[0] for o in out if isinstance(o, Bad)] == [
        "record of 3000000 bytes exceeds source.max_record_mb"
    ]


@settings(deadline=None)
@given(st.integers(1, 10**6))
def test_truncated_gzip_gives_a_prefix_and_is_never_silent(tmp_path_factory, cut: int) -> None:
    members = [gzip.compress(record(b"text %d" % i, number=i)) for i in range(6)]
    data = b"".join(members)
    cut = 1 + cut % (len(data) - 1)
    out = read(tmp_path_factory.mktemp("cut"), data[:cut])
    assert texts(out) == [f"text {i}" for i in range(6)][: len(texts(out))]
    ends = [sum(map(len, members[: i + 1])) for i in range(6)]
    assert len(texts(out)) >= sum(cut >= end for end in ends)
    assert sum(isinstance(o, Bad) for o in out) == (cut not in ends)


def test_every_other_kind_of_record_is_dropped_with_its_reason(tmp_path: Path) -> None:
    out = read(
        tmp_path,
        record(b"software: x", "warcinfo")
        + record(b"GET / HTTP/1.1\r\n\r\n", "request")
        + record(b"{}", "metadata")
        + record(page("x", "Content-Type: image/png"), "response")
        + record(page("x").replace(b"200 OK", b"404 Not Found"), "response")
        + record(page(""), "response")
        + record(b" \n ", "conversion"),
    )
    assert [o.reason for o in out] == [
        "warc_warcinfo",
        "warc_request",
        "warc_metadata",
        "warc_not_html",
        "warc_http_status",
        "empty_text",
        "empty_text",
    ]


def test_charsets_and_encodings_of_a_page(tmp_path: Path) -> None:
    html = PAGE.format("Grüße aus Köln")
    zipped = "Content-Type: text/html; charset=utf-8\r\nContent-Encoding: gzip"
    cases = [
        ("Content-Type: text/html; charset=utf-8", html.encode()),
        ("Content-Type: text/html", html.encode("latin-1")),  # told by the page's own meta tag
        ("Content-Type: text/html; charset=no-such-charset", html.encode("latin-1")),
        ("Server: x", html.encode("latin-1")),  # no type: it looks like a page
        (zipped, gzip.compress(html.encode())),
        (zipped, html.encode()),  # the crawler decoded it, the header stayed
    ]
    data = b"".join(record(page("", head, body), "response") for head, body in cases)
    assert texts(read(tmp_path, data)) == ["Grüße aus Köln"] * len(cases)


def test_a_body_that_does_not_decode_is_set_aside(tmp_path: Path) -> None:
    broken = page("", "Content-Type: text/html\r\nContent-Encoding: gzip", b"\x1f\x8bnot gzip")
    out = read(tmp_path, record(broken, "response") + record(b"next"))
    assert [type(o) for o in out] == [Bad, Document]


@pytest.mark.parametrize(
    ("name", "documents", "bad"),
    [
        ("whirlwind.warc.gz", 1, 0),
        ("whirlwind.warc.wet.gz", 1, 0),
        ("whirlwind.warc.wat.gz", 0, 0),
        ("resiliparse-warcfile.warc.gz", 16, 0),
        ("resiliparse-warcfile.warc.lz4", 16, 0),
        ("warcio-example.warc.gz", 1, 0),
        ("warcio-bad-non-chunked.warc.gz", 1, 0),  # one gzip member over all records
        ("warcio-iana-chunked.warc", 1, 0),
        ("warcio-trunc.warc", 0, 1),  # its response is cut short: its Content-Length leads nowhere
    ],
)
def test_real_captures(shared_data: Path, name: str, documents: int, bad: int) -> None:
    out = list(warc.read(str(shared_data / name), SourceConfig(kind="warc")))
    kinds = Counter(type(o) for o in out)
    assert (kinds[Document], kinds[Bad]) == (documents, bad)
    for outcome in out:
        if isinstance(outcome, Document):
            assert outcome.url and outcome.id.startswith("<urn:uuid:") and "\ufffd" not in outcome.text


def test_the_cut_response_of_a_real_capture_is_named_and_the_record_behind_it_read(shared_data: Path) -> None:
    out = list(warc.read(str(shared_data / "warcio-trunc.warc"), SourceConfig(kind="warc")))
    assert [o.offset for o in out if isinstance(o, Bad)] == [1197]
    assert [o.reason for o in out if isinstance(o, Dropped)] == [
        "warc_warcinfo",
        "warc_warcinfo",
        "warc_request",
    ]
