"""The prose of this Python environment: read-mes, licences, shipped documentation, docstrings.

Sources are parsed, never imported. Order and ids depend only on the installed versions.
"""

from __future__ import annotations

import ast
import gc
import importlib.metadata
import inspect
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import orjson

from hpc_llm.config.schema import SourceConfig
from hpc_llm.data.read.outcome import Document, Dropped, Outcome, Outcomes
from hpc_llm.data.read.streams import Bad
from hpc_llm.run import inputs

MIN_DOCSTRING = 200  # characters; the shorter docstrings of a module make one document together

_PROSE = (".rst", ".md", ".txt")
_LICENCE = re.compile(r"(licen[cs]e|copying|notice|authors|copyright)", re.IGNORECASE)
# Written by installers and build tools, not by people.
_MACHINE = frozenset(
    {
        "CMakeLists.txt",
        "SOURCES.txt",
        "dependency_links.txt",
        "entry_points.txt",
        "namespace_packages.txt",
        "requires.txt",
        "top_level.txt",
    }
)
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


def read(item: str, source: SourceConfig) -> Outcomes:
    """The documents of one item, ``dist:<name>==<version>`` or ``stdlib:<module>==<version>``.

    Raises ValueError when the environment here is not the one that the run was planned in.
    """
    kind, _, package = item.partition(":")
    files = _distribution_files(package) if kind == "dist" else _stdlib_files(package)
    limit = source.max_record_mb * 1_000_000
    for name, path in files:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            yield Dropped("file_missing")  # recorded by the installer, deleted since
            continue
        if len(data) > limit:
            yield Bad(0, f"{name}: {len(data)} bytes exceed source.max_record_mb ({source.max_record_mb} MB)")
        elif name.endswith(".py"):
            yield from _docstrings(data, package, name)
        else:
            yield _prose(data, package, name)


def _distribution_files(package: str) -> Iterator[tuple[str, Path]]:
    name, _, version = package.partition("==")
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(f"the run was planned with {package}; it is not installed here") from None
    if distribution.version != version:
        raise ValueError(f"the run was planned with {package}; here is {distribution.version}")
    for file in sorted(distribution.files or (), key=str):
        if _wanted(file.name, str(file)):
            yield str(file), Path(str(file.locate()))


def _wanted(name: str, path: str) -> bool:
    in_metadata = ".dist-info/" in path or ".egg-info/" in path
    return name not in _MACHINE and (
        name.endswith((".py", *_PROSE))
        or (
            in_metadata
            and (name in ("METADATA", "PKG-INFO") or bool(_LICENCE.match(name)) or "/licenses/" in path)
        )
    )


def _stdlib_files(package: str) -> Iterator[tuple[str, Path]]:
    name, _, _ = package.partition("==")
    path = inputs.stdlib().get(name)
    if path is None:
        raise ValueError(f"the run was planned with {package}; this Python has no source of it")
    if path.is_file():
        yield path.name, path
        return
    for file in sorted(path.rglob("*")):
        if file.suffix in (".py", *_PROSE) and file.is_file():
            yield str(file.relative_to(path.parent)), file


def _document(text: str, package: str, name: str, kind: str) -> Outcome:
    if not text or text.isspace():
        return Dropped("empty_text")
    return Document(
        id=f"{package}/{name}", text=text, source=package, meta=orjson.dumps({"kind": kind}).decode()
    )


def _prose(data: bytes, package: str, name: str) -> Outcome:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Dropped("not_utf8")
    base = name.rsplit("/", 1)[-1]
    if base in ("METADATA", "PKG-INFO"):
        return _document(_description(text), package, name, "readme")
    return _document(text, package, name, "licence" if _LICENCE.match(base) else "document")


def _description(metadata: str) -> str:
    """The long description: the body below the headers, or the Description header with its indent removed."""
    headers, _, body = metadata.partition("\n\n")
    if body.strip():
        return body
    found = re.search(r"^Description: (.*(?:\n(?: {8}| {7}\|| *$).*)*)", headers, re.MULTILINE)
    return re.sub(r"\n(?: {8}| {7}\|)", "\n", found[1]) if found else ""


def _docstrings(data: bytes, package: str, name: str) -> Outcomes:
    # The parser builds one big tree without cycles: collecting while it does costs a third of its time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = list(_walk(ast.parse(data), ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield Dropped("python_syntax")  # templates, Python 2, tests of the parser itself
        return
    finally:
        if collecting:
            gc.enable()
    short = []
    for qualified, line, text in found:
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate written as an escape
            yield Dropped("not_utf8")
            continue
        if len(text) < MIN_DOCSTRING:
            short.append(text)
        else:
            yield _document(text, package, f"{name}#{qualified}:{line}", "docstring")
    if any(short):
        yield _document("\n\n".join(filter(None, short)), package, name, "docstrings")


def _walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, str]]:
    """``(qualified name, line, docstring)`` of a node and all below it, in source order."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if not isinstance(node, ast.Module):
            prefix = f"{prefix}.{node.name}" if prefix else node.name
        text = ast.get_docstring(node, clean=False)
        if text:
            yield prefix, getattr(node, "lineno", 0), inspect.cleandoc(text).strip()
    for block in _BLOCKS:
        for child in getattr(node, block, ()):
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from _walk(child, prefix)
