"""Plain-text tables and human numbers for a terminal. Standard library only: commands must start fast."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = "  "


def printable(text: str) -> str:
    """`text` on one line without control characters: file names and error texts come from outside and
    must not move the cursor or recolour a person's terminal."""
    kinds = ((c, unicodedata.category(c)) for c in text)
    return "".join(
        " " if c in "\n\r\t" or kind in ("Zl", "Zp") else "\ufffd" if kind in ("Cc", "Cs") else c
        for c, kind in kinds
    )


def display_width(text: str) -> int:
    """Terminal columns `text` takes: two for East Asian wide and full-width characters (Unicode UAX 11),
    none for combining marks and format characters."""
    return sum(
        0
        if unicodedata.category(c) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(c) in ("W", "F")
        else 1
        for c in text
    )


def pad(text: str, width: int, align: str = "l") -> str:
    """`text` filled with spaces to `width` columns, ``l`` left or ``r`` right; longer text is left whole."""
    space = " " * (width - display_width(text))
    return space + text if align == "r" else text + space


def render(headers: Sequence[str], rows: Sequence[Sequence[object]], align: str = "") -> str:
    """A table of `rows` under `headers`, without a newline at its end and without trailing spaces.

    `align` has a letter a column, ``l`` or ``r``; the columns it does not name are aligned left. None is
    an empty cell. Raises ValueError for a row whose length is not that of `headers`.
    """
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(
                f"a row has {len(row)} cells, the table has {len(headers)} columns: {list(row)!r}"
            )
    if len(align) > len(headers) or set(align) - {"l", "r"}:
        raise ValueError(f"align={align!r}: at most {len(headers)} letters here, each l or r")
    align = align.ljust(len(headers), "l")
    body = [["" if cell is None else printable(str(cell)) for cell in row] for row in (headers, *rows)]
    widths = [max(display_width(row[i]) for row in body) for i in range(len(headers))]
    body.insert(1, ["─" * width for width in widths])
    return "\n".join(GAP.join(map(pad, row, widths, align)).rstrip() for row in body)


def pairs(items: Sequence[tuple[str, object]]) -> str:
    """Two columns without a heading: a label and its value, one a line."""
    width = max((display_width(label) for label, _ in items), default=0)
    return "\n".join(f"{pad(label, width)}{GAP}{printable(str(value))}".rstrip() for label, value in items)


def _scaled(value: float, units: Sequence[str]) -> str:
    """Three significant digits by powers of 1,000, with the unit that leaves fewer than 1,000 of it."""
    last = len(units) - 1
    power = 0
    while power < last and abs(value) >= 999.5:
        value /= 1000
        power += 1
    # 9.995 and 99.95 are where rounding would carry into a further digit
    decimals = 0 if power == 0 or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}{units[power]}"


def count(value: int) -> str:
    """Every digit, grouped: ``1,234,567``."""
    return f"{value:,}"


def short(value: float) -> str:
    """Three digits and a power of 1,000: ``1.23M``. Below 1,000 the nearest whole number."""
    return _scaled(value, ("", "k", "M", "G", "T", "P", "E"))


def size(value: float) -> str:
    """Bytes in decimal units, 1 MB = 10**6 bytes: ``1.23 MB``."""
    return _scaled(value, (" B", " kB", " MB", " GB", " TB", " PB", " EB"))


def percent(part: float, whole: float) -> str:
    """``12.3 %``; a dash when `whole` is zero."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def duration(seconds: float) -> str:
    """Two largest units: ``0.42 s``, ``12.3 s``, ``2 min 05 s``, ``3 h 07 min``, ``2 d 04 h``."""
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours:02d} h"
