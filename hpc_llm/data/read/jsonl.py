"""JSON Lines, plain or compressed: one object a line, its text in ``source.text_field``."""

from __future__ import annotations

import json
from typing import Any

import orjson

from hpc_llm.config.schema import SourceConfig
from hpc_llm.data.read.lines import lines
from hpc_llm.data.read.outcome import Document, Dropped, Outcome, Outcomes
from hpc_llm.data.read.streams import Bad, chunks

_BOM = b"\xef\xbb\xbf"


def read(path: str, source: SourceConfig) -> Outcomes:
    """The documents of one file; blank lines are no records.

    ``source.id_field`` gives the id, else it is ``<path>#<byte offset of the line>``. A string field
    ``url`` becomes the url; all other fields become `meta`.
    """
    for line in lines(chunks(path, source.max_expansion), source.max_record_mb * 1_000_000):
        if isinstance(line, Bad):
            yield line
            continue
        offset, data = line
        if offset == 0:
            data = data.removeprefix(_BOM)
        if data and not data.isspace():
            yield _document(data, path, offset, source)


def _document(line: bytes, path: str, offset: int, source: SourceConfig) -> Outcome:
    try:
        record = _parse(line)
    except ValueError as error:
        return Bad(offset, str(error))
    if not isinstance(record, dict):
        return Bad(offset, f"a JSON {type(record).__name__} where an object should be")
    text = record.pop(source.text_field, None)
    if text is None:
        return Bad(
            offset, f"no text in source.text_field={source.text_field!r}; other fields: {', '.join(record)}"
        )
    if not isinstance(text, str):
        return Bad(
            offset, f"source.text_field={source.text_field!r} holds a {type(text).__name__}, not a string"
        )
    if not text or text.isspace():
        return Dropped("empty_text", offset)
    identity = record.pop(source.id_field, None)
    url = record.pop("url", None) if isinstance(record.get("url"), str) else None
    return Document(
        id=f"{path}#{offset}" if identity is None else str(identity),
        text=text,
        source=path,
        url=url,
        meta=orjson.dumps(record, default=str).decode() if record else None,
    )


def _parse(line: bytes) -> Any:
    """The value of a line. Raises ValueError saying what is wrong with it.

    orjson refuses the NaN and Infinity that Python's own writer produces: those lines are read again with
    the slower parser, as null.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        first = error
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start} of the line") from None
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate, which no UTF-8 text can hold") from None
    except (ValueError, RecursionError):
        raise ValueError(f"invalid JSON: {first.msg} at byte {first.pos} of the line") from None
    return json.loads(text, parse_int=_integer, parse_constant=lambda _: None)


def _integer(digits: str) -> int | float:
    """As orjson has it: beyond 64 bits an integer is the nearest float."""
    value = int(digits)
    return value if -(2**63) <= value < 2**64 else float(value)
