from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.slurm import template

SHIPPED = Path(__file__).parents[2] / "sbatch_templates"
SOUND = """\
#!/bin/bash
# A comment
# @launcher: options
#SBATCH --account=physics -t 10

module() { :; }
# @launcher: values
echo done
"""


def filled(text: str, **options: str | None) -> tuple[str, list[str]]:
    return template.fill(template.parse(text, "t"), options, {}, {})


@pytest.mark.parametrize("name", ["array.sbatch", "train.sbatch"])
def test_the_shipped_templates_are_sound_and_set_nothing(name: str) -> None:
    assert template.read(SHIPPED / name).options == {}


def test_signals_and_restarts_are_the_same_in_both_templates() -> None:
    array, train = ((SHIPPED / name).read_text() for name in ("array.sbatch", "train.sbatch"))
    mark = "# --- Signals and restarts"
    assert array.count(mark) == 1
    assert array.partition(mark)[2] == train.partition(mark)[2]


def test_shellcheck_passes() -> None:
    try:
        checked = subprocess.run(
            ["shellcheck", *SHIPPED.glob("*.sbatch")], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("shellcheck is not installed")
    assert checked.returncode == 0, checked.stdout


def test_options_go_where_slurm_reads_them() -> None:
    text, overridden = filled(SOUND, array="0-3", requeue=None)
    lines = text.splitlines()
    assert lines[2:5] == ["#SBATCH --array=0-3", "#SBATCH --requeue", "#SBATCH --account=physics -t 10"]
    assert overridden == []
    assert "@launcher" not in text


def test_the_template_wins_in_either_form_of_an_option() -> None:
    text, overridden = filled(SOUND, account="other", time="20", partition="p")
    assert overridden == ["account", "time"]
    assert "other" not in text
    assert "#SBATCH --partition=p" in text


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("--mem-per-cpu=1G", "mem"),
        ("--gres=gpu:2", "gpus-per-node"),
        ("-p fast", "partition"),
        ("-pfast", "partition"),
        ("--exclusive --qos=high", "qos"),
        ("--part=x", "partition"),
    ],
)
def test_what_counts_as_the_same_option(line: str, name: str) -> None:
    text = SOUND.replace("--account=physics -t 10", line)
    assert filled(text, **{name: "1"})[1] == [name]


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("# @launcher: options\n", "", 7, "missing"),
        ("# @launcher: values", "# @launcher:values", 7, "looks like it"),
        ("# A comment", "# @launcher: options", 3, "line 2"),
        ("# A comment", "echo first", 3, "first command"),
        ("echo done", "#SBATCH --qos=x", 8, "after the first command"),
        ("--account=physics -t 10", "--array=0-3", 4, "belongs to the launcher"),
        ("--account=physics -t 10", "-N 2", 4, "--nodes"),
        ("--account=physics -t 10", "--account=physics -N2", 4, "--nodes"),
        ("--account=physics -t 10", "--depend=1", 4, "in full"),
        ("--account=physics -t 10", "--reservation=a b", 4, "stop reading at 'b'"),
        ("--account=physics -t 10", "--reservation='a", 4, "open quote"),
        ("--account=physics -t 10", "", 4, "sets nothing"),
        ("#SBATCH --account", "#SBATCH--account", 4, "space after #SBATCH"),
        ("#!/bin/bash\n", "", 1, "#!/bin/bash"),
        ("\n# A comment", "\r\n# A comment", 1, "line ends"),
    ],
)
def test_a_broken_template_is_refused_with_its_line(old: str, new: str, line: int, says: str) -> None:
    text = SOUND.replace(old, new, 1)
    with pytest.raises(ValueError, match=rf"^t:{line}: ") as refused:
        template.parse(text, "t")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "line", ["--reservation='a b'", '--reservation="a b" # why', "--exclusive", "-s", "-w n1"]
)
def test_lines_that_sbatch_reads_are_accepted(line: str) -> None:
    template.parse(SOUND.replace("--account=physics -t 10", line), "t")


def test_windows_line_ends_and_other_encodings_are_refused_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "array.sbatch"
    path.write_bytes(SOUND.replace("\n", "\r\n").encode())
    with pytest.raises(ValueError, match=r"array.sbatch:1: .*Windows"):
        template.read(path)
    path.write_bytes(b"#!/bin/bash\n# \xff\n")
    with pytest.raises(ValueError, match=r"array.sbatch:1: .*UTF-8"):
        template.read(path)


def test_what_could_not_be_passed_on_is_refused() -> None:
    sound = template.parse(SOUND, "t")
    with pytest.raises(ValueError, match="line break"):
        template.fill(sound, {"comment": "a\nb"}, {}, {})
    with pytest.raises(ValueError, match="sbatch option"):
        template.fill(sound, {"wrap; rm": "x"}, {}, {})
    with pytest.raises(ValueError, match="shell variable"):
        template.fill(sound, {}, {"A B": "x"}, {})
    with pytest.raises(ValueError, match="NUL"):
        template.fill(sound, {}, {}, {"A": "x\0"})


_values = st.text(
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30
) | st.sampled_from(
    [
        "$(touch x)",
        "`id`",
        "a'b\"c",
        "# no",
        "a\nb",
        "\\",
        "'",
        "!x",
        "~",
        "*",
        "-n",
        "\r",
        "\x1b[0m",
        "a  b ",
    ]
)


@settings(max_examples=30, deadline=None)
@given(value=_values, exported=_values)
def test_bash_gets_every_value_as_it_was(value: str, exported: str) -> None:
    show = 'printf "%s\\0" "$VALUE"; printenv -0 EXPORTED\nexit'
    form = template.parse(SOUND.replace("echo done", show), "t")
    script, _ = template.fill(form, {}, {"VALUE": value}, {"EXPORTED": exported})
    shown = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    assert shown.split(b"\0")[:2] == [value.encode(), exported.encode()]
