from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.slurm import nodelist


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[1-3,5]", ["n1", "n2", "n3", "n5"]),
        ("n[9-10]", ["n9", "n10"]),
        ("n[09-10]", ["n09", "n10"]),
        ("n[008-010]", ["n008", "n009", "n010"]),
        # The output of scontrol show hostnames 22.05.8 for the same text.
        (
            "n[1-3,5],rack[0-1]-n[008-010]",
            ["n1", "n2", "n3", "n5", *(f"rack{r}-n{i}" for r in (0, 1) for i in ("008", "009", "010"))],
        ),
        ("alpha,beta,linux[1,2]", ["alpha", "beta", "linux1", "linux2"]),
        ("b-1,a-1,b-1", ["b-1", "a-1", "b-1"]),
        ("c[1-2]-ib.site.org", ["c1-ib.site.org", "c2-ib.site.org"]),
        ("", []),
        ("(null)", []),
        ("None assigned", []),
    ],
)
def test_expand(text: str, hosts: list[str]) -> None:
    assert nodelist.expand(text) == hosts


@pytest.mark.parametrize(
    "text", ["n[1", "n1]", "n[]", "n[2-1]", "n[a]", "a,,b", ",", "a b", "n[[1]]", "n[1-]"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host list"):
        nodelist.expand(text)


def test_a_range_that_no_cluster_has_is_refused_without_being_made() -> None:
    with pytest.raises(ValueError, match="host list"):
        nodelist.expand("n[0-99999999999]")
    with pytest.raises(ValueError, match="1000000 hosts"):
        nodelist.expand("n[0-9999]-[0-9999]")


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n10", "n9", "n11"], "n[9-11]"),
        (["n009", "n010", "n008"], "n[008-010]"),
        (["n01", "n1"], "n[01,1]"),
        (["login", "n2", "n1", "n1"], "login,n[1-2]"),
    ],
)
def test_compress(hosts: list[str], text: str) -> None:
    assert set(nodelist.expand(nodelist.compress(hosts))) == set(hosts)
    assert nodelist.compress(hosts).replace("n01,n1", "n[01,1]").replace("n1,n01", "n[01,1]") == text


def test_compress_refuses_what_is_not_a_host() -> None:
    with pytest.raises(ValueError, match="not one host name"):
        nodelist.compress(["n[1-2]"])


_prefix = st.text("abn-", min_size=1, max_size=4)
_host = st.builds(
    lambda prefix, number, width: f"{prefix}{number:0{width}d}",
    _prefix,
    st.integers(0, 1200),
    st.integers(1, 5),
)


@given(st.lists(st.one_of(_prefix, _host), max_size=40))
def test_compress_and_expand_keep_the_set_of_hosts(hosts: list[str]) -> None:
    expanded = nodelist.expand(nodelist.compress(hosts))
    assert sorted(expanded) == sorted(set(hosts))


@given(st.integers(0, 50), st.integers(0, 30), st.integers(1, 4), st.integers(0, 3))
def test_two_brackets(first: int, length: int, width: int, racks: int) -> None:
    text = f"r[0-{racks}]n[{first:0{width}d}-{first + length:0{width}d}]"
    expected = [f"r{r}n{i:0{width}d}" for r in range(racks + 1) for i in range(first, first + length + 1)]
    assert nodelist.expand(text) == expected
