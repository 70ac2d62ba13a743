"""Is there a phone number at this ``+`` or area code?"""

from __future__ import annotations

import re

_NATIONAL = rb"\(?[2-9]\d{2}\)?[ .-]?[2-9]\d{2}[ .-]?\d{4}"  # NANP: NPA-NXX-XXXX, N = 2 .. 9
_END = rb"(?![\w@]|[.\-/:]\d)"
PLUS_ONE = re.compile(rb"\+1[ .-]?" + _NATIONAL + _END)
# Country code 2 to 9, then groups of digits, each behind one separator or in brackets.
_SEPARATOR = rb"(?:[ .-]|[ .-]?\(\d{1,5}\)[ .-]?)"
INTERNATIONAL = re.compile(
    rb"\+[2-9]\d{0,14}(?:" + _SEPARATOR + rb"\d{1,14}(?:" + _SEPARATOR + rb"\d{2,14}){0,5})?" + _END
)
NANP = re.compile(rb"(?:\([2-9]\d{2}\)[ .-]?[2-9]\d{2}([ .-])|[2-9]\d{2}([ .-])[2-9]\d{2}\2)\d{4}" + _END)

_MIN_DIGITS, _MAX_DIGITS = 9, 15  # of country code and number; the maximum is E.164's
_NOT_BEFORE = frozenset(b".-+/$#,_%*") | frozenset(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)
_NOT_DIGIT = re.compile(rb"\D")
_TABLE_BEFORE, _TABLE_AFTER = re.compile(rb"\d \Z"), re.compile(rb" \d")


def find_international(text: bytes, at: int) -> tuple[int, int, bytes] | None:
    """Start, end and digits of the number in international form at ``text[at] == b"+"``, or None."""
    if not _may_start(text, at):
        return None
    match = (PLUS_ONE if text[at + 1 : at + 2] == b"1" else INTERNATIONAL).match(text, at)
    if not match:
        return None
    digits = _NOT_DIGIT.sub(b"", match.group())
    if not _MIN_DIGITS <= len(digits) <= _MAX_DIGITS or digits.endswith(b"000000"):
        return None
    return None if _fictional(digits) else (at, match.end(), digits)


def find_nanp(text: bytes, at: int) -> tuple[int, int, bytes] | None:
    """Start, end and digits (with country code 1) of the NANP number with its area code at `at`, or None.

    It needs separators, equal ones unless the area code is in brackets. With blanks for separators it must
    not stand among other numbers, as a row of a table does. Area codes and exchanges N11 do not exist.
    """
    match = (NANP.match(text, at - 1) if text[max(0, at - 1) : at] == b"(" else None) or NANP.match(text, at)
    if not match:
        return None
    start = match.start()
    digits = _NOT_DIGIT.sub(b"", match.group())
    if b"11" in (digits[1:3], digits[4:6]) or _fictional(b"1" + digits):
        return None
    if text[max(0, start - 2) : start] in (b"1-", b"1.", b"1 ") and _may_start(text, start - 2):
        start -= 2
    if not _may_start(text, start):
        return None
    if match.group(2) == b" " and (
        _TABLE_BEFORE.search(text[max(0, start - 2) : start]) or _TABLE_AFTER.match(text, match.end())
    ):
        return None
    return start, match.end(), b"1" + digits


def _may_start(text: bytes, start: int) -> bool:
    return start == 0 or text[start - 1] not in _NOT_BEFORE


def _fictional(digits: bytes) -> bool:
    """555-0100 to 555-0199, set aside for fiction in every area code (ATIS-0300115)."""
    return len(digits) == 11 and digits.startswith(b"1") and digits[4:9] == b"55501"
