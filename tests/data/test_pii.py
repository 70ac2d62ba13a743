from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline import DOCUMENTS, Pipeline

from hpc_llm.config.schema import PiiConfig
from hpc_llm.data.pii import anchors, detect, email, ip, phone

EMAILS = [
    "john.doe@company.com",
    "Jane_Doe+tag@mail.company.co.uk",
    "o'brien@irish.ie",
    "müller@web.de",
    "x@y.io",
    "a.b-c.d@sub-domain.university.edu",
    "first%last@relay.net",
    "иван@mail.ru",
    "user@xn--bcher-kva.ch",
    "info@museum.museum",
    "UPPER@CASE.ORG",
    "1234567890@qq.com",
]
IPS = [
    "83.149.9.216",
    "8.8.4.40",
    "172.217.3.110",
    "100.20.30.40",
    "199.7.83.42",
    "2001:4860:4860::8888",
    "2a00:1450:4001:81b::200e",
    "2606:4700:0:0:0:0:6810:85e5",
    "2620:fe::FE:9",
]
PHONES = [
    "+1 212-456-7890",
    "+12124567890",
    "+1 (212) 456-7890",
    "+44 20 7946 0958",
    "+49 (0)30 12345678",
    "+33 6 12 34 56 78",
    "+8613812345678",
    "+91-98765-43210",
    "(415) 867-5309",
    "(415)867-5309",
    "415-867-5309",
    "415.867.5309",
    "415 867 5309",
    "1-800-356-9377",
    "1 (800) 356-9377",
]
AROUND = [
    "{}",
    "Write to {}.",
    "<{}>",
    "({}), or",
    "x: {}; y",
    "“{}”",
    "\n{}\n",
    "地址：{}。",
    "[{}]",
    "{}, {} and {}",
    "'{}'",
]

NOT_PERSONAL = [
    # e-mail lookalikes
    "git@github.com:org/repo.git",
    "ssh://git@github.com/org/repo",
    "https://user@host.com/path",
    "rsync me@host.org:/data",
    "@app.route('/')",
    "@decorator",
    "see @someone on x.com",
    "icon@2x.png",
    "logo@3x.jpg",
    "pkg@1.2.3",
    "react@18.2.0",
    "user@localhost",
    "you@example.com",
    "me@mail.example.org",
    "a@b.test",
    "x = a@b.T",
    "y = a@w.dot(z)",
    "@",
    "a@",
    "@b.com",
    "foo@bar",
    "a @ b.com",
    "foo.@bar.com",
    "foo@-bar.com",
    "foo@bar..com",
    "x" * 65 + "@bar.com",
    # addresses that are not public, or no addresses
    "127.0.0.1",
    "10.1.2.3",
    "192.168.1.1",
    "172.16.254.1",
    "169.254.10.10",
    "0.0.0.0",
    "255.255.255.255",
    "192.0.2.17",
    "198.51.100.7",
    "203.0.113.9",
    "100.64.12.1",
    "224.0.0.251",
    "239.255.255.250",
    "256.300.1.1",
    "1.2.3",
    "12.34.56.78.90",
    "083.149.009.216",
    "::1",
    "fe80::1ff:fe23:4567:890a",
    "fd00:12:34::1",
    "2001:db8:85a3::8a2e:370:7334",
    "std::vector",
    "12:30:45",
    "2021:12:30",
    "a[2001::3]",
    "00:1A:2B:3C:4D:5E",
    "2001:xyz::1",
    # versions, sections, identifiers
    "1.2.3.4",
    "section 4.3.2.1",
    "section 14.3.2.10",
    "version 12.10.0.8",
    "Version: 10.0.19.41",
    "v83.149.9.216",
    "kernel 5.10.0.80",
    'AssemblyVersion("12.0.10.0")',
    "OID 1.3.6.1.4.1.311",
    "1.3.6.1.4.1.311.21.20",
    "Chrome/91.0.44.124",
    "package-83.1.10.2.tar.gz",
    "pkg==20.1.10.2",
    "pkg>=20.1.10.2",
    "~20.1.10.2",
    "83.149.9.216-beta",
    "83.149.9.216rc1",
    "Guile 83.149.9.216-5a1e7",
    "§ 14.3.2.10",
    "build 20.10.11.12",
    # digits that are no phone numbers
    "2023-01-15",
    "+1",
    "+10 000 000",
    "+0530",
    "2024-05-01T10:00:00+05:30",
    "x+4912345678901",
    "1e+1000000000",
    "123-456-7890",
    "911-456-7890",
    "415-911-5309",
    "415-555-0123",
    "(415) 555-0199",
    "+1-415-555-0100",
    "415-867.5309",
    "4158675309",
    "415-867-53091",
    "$415.867.5309",
    "550e8400-e29b-415-867-5309",
    "1 415 867 5309 22",
    "12 415 867 5309",
    "415 867 5309 12 14",
    "3.415.867.5309",
    "+200 000 000 000",
    "978-3-16-148410-0",
    "4111 1111 1111 1111",
    "+4915123456789012345",
    "555-1234",
    "0415-867-5309",
    "10,415-867-5309",
]


def replaced(text: str, **config: bool) -> tuple[str, dict[str, int]]:
    out, counts = detect.replace(text.encode(), PiiConfig(**config))
    return out.decode(), dict(counts)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    ("kind", "value"),
    [*(("email", v) for v in EMAILS), *(("ip", v) for v in IPS), *(("phone", v) for v in PHONES)],
)
def test_found_whole_and_nothing_else_changed(around: str, kind: str, value: str) -> None:
    if value == "415 867 5309" and around.count("{}") > 1:
        around = around.replace(", {} and", " and")
    out, counts = replaced(around.replace("{}", value))
    assert counts == {kind: around.count("{}")}
    pattern = re.escape(around).replace(re.escape("{}"), "(.+?)")
    match = re.fullmatch(pattern, out, re.DOTALL)
    assert match
    assert len(set(match.groups())) == 1  # the same value, the same placeholder
    form = {
        "email": r"user-[0-9a-f]{6}@example\.com",
        "ip": r"192\.0\.2\.\d{1,3}|2001:db8::[0-9a-f]{1,4}",
        "phone": r"\+1-[2-9]\d\d-555-01\d\d",
    }[kind]
    assert re.fullmatch(form, match.group(1))


@pytest.mark.parametrize("text", NOT_PERSONAL)
@pytest.mark.parametrize("around", ["{}", "See {}.", "({})", "\n{}\n"])
def test_left_alone(text: str, around: str) -> None:
    whole = around.replace("{}", text)
    assert replaced(whole) == (whole, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://83.149.9.216:8080/x", {"ip": 1}),
        ("83.149.9.216/24", {"ip": 1}),
        ("83.149.9.216-83.149.9.230", {"ip": 2}),
        ("root@83.149.9.216", {"ip": 1}),
        ("http://5.9.3.7/x", {"ip": 1}),
        ("IP address: 5.9.3.7", {"ip": 1}),
        ("5.9.3.7:8080 and 5.9.3.7/24", {"ip": 2}),
        ("8.8.8.8, 1.1.1.1", {"ip": 2}),
        ("upgrade from 5.9.3.7 to 5.9.3.8", {}),
        ("mailto:a@b.com?subject=x", {"email": 1}),
        ("a@b.com,c@d.org;e@f.net", {"email": 3}),
        ("name=a@b.com", {"email": 1}),
        ("a@b.com\u3001tel:+8613812345678", {"email": 1, "phone": 1}),
        ("::ffff:83.149.9.216", {"ip": 1}),
        ("[2001:4860:4860::8888]:443", {"ip": 1}),
        ("john@company.com:25", {"email": 1}),
        ("Phone: 415-867-5309, fax: 415-867-5310", {"phone": 2}),
    ],
)
def test_in_context(text: str, expected: dict[str, int]) -> None:
    assert replaced(text)[1] == expected


def test_equal_values_share_a_placeholder_and_others_do_not() -> None:
    assert replaced("John@Company.com")[0] == replaced("john@company.com")[0]
    assert replaced("+1 (212) 456-7890")[0] == replaced("212.456.7890")[0]
    assert replaced("2620:fe::FE:9")[0] == replaced("2620:00fe:0::fe:9")[0]
    assert len({replaced(f"user{i}@company.com")[0] for i in range(1000)}) > 990


def test_kinds_can_be_switched_off() -> None:
    text = "a@b.com 83.149.9.216 (415) 867-5309"
    assert replaced(text, emails=False, ips=False, phones=False) == (text, {})
    assert replaced(text, emails=False)[1] == {"ip": 1, "phone": 1}
    assert replaced(text, ips=False)[1] == {"email": 1, "phone": 1}
    assert replaced(text, phones=False)[1] == {"email": 1, "ip": 1}


PIECES = st.sampled_from(
    [
        *EMAILS,
        *IPS,
        *PHONES,
        *NOT_PERSONAL,
        *"@.+-:() /é日a1",
        "version",
        " ",
        "::",
        "..",
        "192.0.2.1",
        "555-0123",
        "+1-",
        "user-0a0a0a@example.com",
    ]
)


@settings(deadline=None, max_examples=400)
@given(st.lists(PIECES, max_size=12).map("".join) | st.text("@.+-:() 0123456789abé日"))
def test_idempotent_and_valid_utf8(text: str) -> None:
    once, counts = replaced(text)
    assert replaced(once) == (once, {})
    assert bool(counts) == (once != text)


@pytest.mark.parametrize(
    "pattern", [email.DOMAIN, ip.QUAD, ip.IPV6, phone.PLUS_ONE, phone.INTERNATIONAL, phone.NANP]
)
def test_patterns_match_a_bounded_number_of_bytes(pattern: re.Pattern[bytes]) -> None:
    # Each runs once at an anchor, so bounded matches make the whole pass linear in the text.
    assert re._parser.parse(pattern.pattern).getwidth()[1] < 1000  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "unit",
    [
        "a-",
        ".",
        "a/b+",
        "1",
        "1.",
        "12.",
        "a@",
        "@a.",
        "a@a.",
        "+1 ",
        "+49(",
        "2001:",
        "2:",
        "212-",
        "212 ",
        "(212) ",
        "a" * 60 + ".",
    ],
)
def test_adversarial_text_has_no_more_anchors_than_bytes_and_ends(unit: str) -> None:
    # 400 kB: the quadratic and cubic expressions that this replaces need hours for it.
    text = (unit * 400_000)[:400_000]
    found = anchors.find(np.frombuffer(text.encode(), np.uint8), np.array([0, len(text)]))
    assert len(found) <= len(text)
    once, _ = replaced(text)
    assert replaced(once) == (once, {})


def test_stage(tmp_path: Path) -> None:
    texts = [
        "",
        "nothing",
        "mail john@company.com or JOHN@company.com",
        "no",
        "83.149.9.216 (415) 867-5309",
        "日本 x@y.io",
    ]
    pipeline = Pipeline(tmp_path, [texts, []])
    account, empty = pipeline.run("pii.pii", DOCUMENTS, shards=2)
    assert account.extra == {"pii_emails": 3, "pii_ips": 1, "pii_phones": 1}
    assert empty.extra == {"pii_emails": 0, "pii_ips": 0, "pii_phones": 0}
    assert pipeline.texts("pii") == [replaced(t)[0] for t in texts]
    assert [r["id"] for r in pipeline.documents("pii")[0]] == [f"doc-0-{i}" for i in range(len(texts))]
    assert account.documents_in == account.documents_out == len(texts)
    before = pipeline.bytes_of("pii")
    pipeline.run("pii.pii", DOCUMENTS, shards=2)
    assert pipeline.bytes_of("pii") == before


@pytest.mark.parametrize("texts", [[], ["no trace of anything"], ["", ""], ["a", "write to x@y.io", "b"]])
def test_batches_with_few_or_no_anchors(texts):
    import pyarrow as pa

    from hpc_llm.data.pii.pii import replace_column

    column, counts = replace_column(pa.array(texts, pa.large_string()), PiiConfig())
    assert len(column) == len(texts)
    assert counts["email"] == sum("@" in text for text in texts)
    kept = [i for i, text in enumerate(texts) if "@" not in text]
    assert [column[i].as_py() for i in kept] == [texts[i] for i in kept]
