"""Web archives: WET text as it stands, the main content of HTML responses; all else is dropped by reason."""

from __future__ import annotations

import orjson
from fastwarc.warc import WarcRecord, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from hpc_llm.config.schema import SourceConfig
from hpc_llm.data.read.frames import frames
from hpc_llm.data.read.outcome import Document, Dropped, Outcome, Outcomes
from hpc_llm.data.read.streams import Bad, chunks

HTML_TYPES = ("text/html", "application/xhtml+xml")


def read(path: str, source: SourceConfig) -> Outcomes:
    """The documents of one WARC, WET or WAT file; the id is WARC-Record-ID, else ``<path>#<offset>``."""
    limit = source.max_record_mb * 1_000_000
    for frame in frames(chunks(path, source.max_expansion), limit):
        if isinstance(frame, Bad):
            yield frame
            continue
        offset, data = frame
        try:
            yield _document(data, path, offset, limit)
        except (OSError, ValueError) as error:  # what fastwarc raises for bad headers and bad encodings
            yield Bad(offset, f"unreadable record: {error}")


def _document(data: bytes, path: str, offset: int, limit: int) -> Outcome:
    record = WarcRecord.from_bytes(data)
    if record.record_type == WarcRecordType.conversion:
        text = record.reader.read().decode("utf-8", errors="replace")
    elif record.record_type == WarcRecordType.response:
        if not record.is_http:
            return Dropped("warc_not_http", offset)
        record, html = _decoded(record, data, limit)
        status = record.http_headers.status_code
        if status is None or not 200 <= status < 300:
            return Dropped("warc_http_status", offset)
        if len(html) > limit:
            return Bad(offset, f"the decoded page exceeds source.max_record_mb ({limit / 1e6:g} MB)")
        kind = (record.http_content_type or "").lower()
        if kind not in HTML_TYPES and (kind or not _looks_like_html(html)):
            return Dropped("warc_not_html", offset)
        text = main_text(html, record.http_charset)
    else:
        return Dropped(f"warc_{record.record_type}", offset)
    if not text or text.isspace():
        return Dropped("empty_text", offset)
    headers = record.headers
    return Document(
        id=headers.get("WARC-Record-ID") or f"{path}#{offset}",
        text=text,
        source=path,
        url=headers.get("WARC-Target-URI"),
        meta=orjson.dumps({"warc_date": headers.get("WARC-Date"), "offset": offset}).decode(),
    )


def _decoded(record: WarcRecord, data: bytes, limit: int) -> tuple[WarcRecord, bytes]:
    """The HTTP record and its body, at most `limit` + 1 bytes, without transfer and content encoding.

    Some crawlers store the decoded body below the headers of the encoded one: where decoding fails and
    the bytes are a page as they stand, they are taken so. Raises OSError otherwise.
    """
    try:
        record.parse_http(auto_decode="all")
        return record, record.reader.read(limit + 1)
    except OSError:
        plain = WarcRecord.from_bytes(data)
        plain.parse_http()
        body = plain.reader.read(limit + 1)
        if not _looks_like_html(body[:1024].lstrip()[:64]):
            raise
        return plain, body


def main_text(html: bytes, charset: str | None) -> str:
    """The main content of a page as text.

    The charset of the HTTP header counts first, then that of the page's own meta tag, then detection
    (the order of the WHATWG encoding sniffing algorithm). Bytes that do not decode become U+FFFD.
    """
    try:
        page = bytes_to_str(html, charset or _detected(html))
    except LookupError:  # a charset that does not exist
        page = bytes_to_str(html, _detected(html))
    return extract_plain_text(page, main_content=True)


def _detected(html: bytes) -> str:
    return detect_encoding(html, from_html_meta=True) or "utf-8"


def _looks_like_html(page: bytes) -> bool:
    head = page[:1024].lower()
    return b"<html" in head or b"<!doctype html" in head
