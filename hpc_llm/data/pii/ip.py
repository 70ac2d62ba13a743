"""Is there a public IP address at this digit?"""

from __future__ import annotations

import ipaddress
import re

QUAD = re.compile(rb"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\w|\.\w|[+-]\d{0,8}[A-Za-z])")
IPV6 = re.compile(rb"[23][0-9A-Fa-f]{3}:[0-9A-Fa-f:.]{2,41}(?![\w:])")

# What stands before a dotted quad that is a version, section or object identifier.
_NAME = re.compile(rb"(\w{1,24})[\s:=\"'(#]{0,3}\Z")
_NUMBERED = re.compile(
    rb"(?:\w*version|versions?|vers?|v|releases?|rel|rev|revision|build|firmware|kernel|driver|bios|sdk|patch|update"
    rb"|sections?|sec|chapter|clause|paragraph|appendix|figure|fig|table|oid"
    rb"|chrome|chromium|edge|opera|windows|android)",
    re.IGNORECASE,
)
_OPERATOR = re.compile(rb"[=<>~!]=\Z|[~^]\Z|\xc2\xa7\s?\Z")  # the last is the section sign
# What says that four single digits are an address all the same.
_ADDRESS = re.compile(
    rb"ip|ipv4|address|addr|host|dns|server|nameserver|resolver|gateway|ping", re.IGNORECASE
)
_LOCATOR = re.compile(rb"(?://|@)\Z")
_PORT = re.compile(rb":\d{2,5}(?!\w)|/\d{1,2}(?!\w)")
_RESOLVERS = frozenset({b"8.8.8.8", b"8.8.4.4", b"1.1.1.1", b"9.9.9.9"})  # public DNS, everyone's example
_IN_NAME = re.compile(rb"\w[/-]\Z")  # Chrome/91.0.4472.124, package-1.2.3.40


def find_v4(text: bytes, at: int, previous_end: int) -> tuple[int, int, bytes] | None:
    """Start, end and canonical form of the public IPv4 address at `at`, or None.

    `previous_end` is where the address before it ended: in ``a.b.c.d-e.f.g.h`` the hyphen is a range. None
    too for quads behind a word or sign that says version, section or identifier; and for quads of four single
    digits, in text mostly versions and as addresses 1 in 430,000, unless what is around says address.
    """
    match = QUAD.match(text, at)
    if not match or text[max(0, at - 1) : at] == b".":
        return None
    quad = match.group()
    try:
        address = ipaddress.IPv4Address(quad.decode())
    except ValueError:  # an octet above 255 or with a leading zero
        return None
    if not address.is_global or address.is_multicast:
        return None
    before = text[max(0, at - 28) : at]
    if _IN_NAME.search(before) and previous_end != at - 1:
        return None
    name = _NAME.search(before)
    if _OPERATOR.search(before) or (name and _NUMBERED.fullmatch(name.group(1))):
        return None
    if (
        len(quad) == len("1.2.3.4")
        and quad not in _RESOLVERS
        and not (
            _LOCATOR.search(before)
            or _PORT.match(text, match.end())
            or (name and _ADDRESS.fullmatch(name.group(1)))
        )
    ):
        return None
    return at, match.end(), quad


def find_v6(text: bytes, at: int) -> tuple[int, int, bytes] | None:
    """Start, end and canonical form of the global unicast (2000::/3, RFC 4291) address at `at`, or None.

    It needs three groups or more: ``2001::1`` is rarer in text than the slice ``[2001::1]`` of a program.
    """
    match = IPV6.match(text, at)
    if not match or text[max(0, at - 1) : at] in (b":", b"."):
        return None
    written = match.group().rstrip(b".")
    if written.endswith(b":") and not written.endswith(b"::"):
        written = written[:-1]
    try:
        address = ipaddress.IPv6Address(written.decode())
    except ValueError:
        return None
    if not address.is_global or sum(map(bool, written.split(b":"))) < 3:
        return None
    return at, at + len(written), address.compressed.encode()
