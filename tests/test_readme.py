"""Every launch command that the README shows is one that the checks accept."""

import re
import shlex
from pathlib import Path

import pytest

from hpc_llm.config import command

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
BLOCKS = "\n".join(re.findall(r"^```\n(.*?)^```", README, flags=re.M | re.S)).replace("\\\n", " ")
LAUNCHES = [line for line in BLOCKS.splitlines() if line.startswith("python -m hpc_llm.launch")]


def test_there_are_commands_to_check():
    assert len(LAUNCHES) >= 2


@pytest.mark.parametrize("line", LAUNCHES)
def test_launch_command_is_accepted(line):
    assert command.parse(shlex.split(line, comments=True)[3:])
