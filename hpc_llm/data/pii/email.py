"""Is there an e-mail address around this ``@``?"""

from __future__ import annotations

import re

# The local part as people write it; RFC 5322 atoms with / = { | and the like are URLs and code in web text.
# Two-byte letters (Latin, Greek, Cyrillic ...) belong to it, three-byte ones (CJK, punctuation) end it.
_LOCAL = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-'"
_CONTINUATION = bytes(range(0x80, 0xC0))
_LOCAL_BYTES = _LOCAL + _CONTINUATION + bytes(range(0xC3, 0xE0))
_MAX_LOCAL = 64  # octets; RFC 5321, 4.5.3.1.1

DOMAIN = re.compile(
    rb"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}"
    rb"(?:xn--[A-Za-z0-9-]{2,59}|[A-Za-z]{2,24})"
    rb"(?![A-Za-z0-9_(]|[.-][A-Za-z0-9])"
)
_RESERVED = re.compile(
    rb"(?:.{0,255}\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost)", re.DOTALL
)  # RFC 2606
_PATH_FOLLOWS = re.compile(rb":[A-Za-z~/_.]")  # git@host:path, rsync user@host:path
_IMAGE = re.compile(rb"\d{1,2}x\.(?:png|jpe?g|gif|svg|webp|avif)")  # icon@2x.png


def find(text: bytes, at: int) -> tuple[int, int, bytes] | None:
    """Start, end and canonical form of the address around ``text[at] == b"@"``, or None.

    Reads at most 65 bytes before and 600 behind. Not personal, so None: domains reserved by RFC 2606,
    ``git@``, ``user@host:path``, ``scheme://user@host``, file names with a resolution.
    """
    window = text[max(0, at - _MAX_LOCAL - 1) : at]
    local = window[len(window.rstrip(_LOCAL_BYTES)) :]
    if len(local) > _MAX_LOCAL or local.endswith(b"."):
        return None
    local = local.lstrip(_CONTINUATION).rpartition(b"..")[2].lstrip(b".%+-'")
    match = DOMAIN.match(text, at + 1)
    if not local or not match:
        return None
    start, end = at - len(local), match.end()
    domain = match.group().lower()
    if _RESERVED.fullmatch(domain) or _IMAGE.fullmatch(domain) or _PATH_FOLLOWS.match(text, end):
        return None
    if local == b"git" or text[max(0, start - 2) : start] == b"//":
        return None
    return start, end, local.lower() + b"@" + domain
