"""The site's sbatch templates: plain bash in which the launcher fills in two marked lines.

``# @launcher: options``
    replaced by ``#SBATCH`` lines. An option that the template sets itself wins over the launcher's.
``# @launcher: values``
    replaced by quoted assignments and exports.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MARKERS = {"options": "# @launcher: options", "values": "# @launcher: values"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options that restarts and the job graph rest on.
OWNED = _words(
    "array dependency job-name output error open-mode nodes ntasks ntasks-per-node ntasks-per-core "
    "ntasks-per-socket ntasks-per-gpu cpus-per-task signal requeue no-requeue kill-on-invalid-dep"
)
# Options that say the same thing in different ways: setting one sets them all.
FAMILIES = (
    _words("mem mem-per-cpu mem-per-gpu"),
    _words("gres gpus gpus-per-node gpus-per-task gpus-per-socket"),
)
# sbatch(1). Only those with a short form, and those that never take a value as a separate word.
SHORT = {
    **{"A": "account", "a": "array", "b": "begin", "C": "constraint", "c": "cpus-per-task", "D": "chdir"},
    **{"d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "i": "input"},
    **{
        "I": "immediate",
        "J": "job-name",
        "k": "no-kill",
        "L": "licenses",
        "M": "clusters",
        "m": "distribution",
    },
    **{"N": "nodes", "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet"},
    **{"q": "qos", "S": "core-spec", "s": "oversubscribe", "t": "time", "v": "verbose", "W": "wait"},
    **{"w": "nodelist", "x": "exclude"},
}
FLAGS = _words(
    "contiguous exclusive get-user-env hold ignore-pbs immediate nice no-kill no-requeue overcommit "
    "oversubscribe parsable propagate quiet reboot requeue spread-job test-only use-min-nodes verbose wait"
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTION = re.compile(r"[a-z][a-z-]*")


@dataclass(frozen=True)
class Template:
    """A template that has been found sound."""

    path: str
    lines: tuple[str, ...]
    options: Mapping[str, int]  # long name of every option that it sets -> line number, from 1


def read(path: Path) -> Template:
    """The template at `path`. Raises ValueError naming file and line, or the OSError of reading it."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:1: is not UTF-8 text ({error.reason} at byte {error.start})") from None
    return parse(text, str(path))


def parse(text: str, path: str) -> Template:
    """A sound template, or ValueError: ``path:line: what is wrong with it``."""
    if "\r" in text or "\0" in text:
        raise ValueError(f"{path}:1: has Windows line ends or NUL bytes, which bash cannot read")
    lines = text.removesuffix("\n").split("\n")
    if not lines[0].startswith("#!"):
        raise ValueError(
            f"{path}:1: the first line must name the shell, as in #!/bin/bash, or sbatch refuses it"
        )
    at = {name: _marker(lines, name, path) for name in MARKERS}
    command = next(
        (i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines)
    )
    if at["options"] > command:
        raise ValueError(
            f"{path}:{at['options'] + 1}: {MARKERS['options']!r} stands after the first command "
            f"(line {command + 1}), where Slurm no longer reads options"
        )
    if at["values"] < at["options"]:
        raise ValueError(
            f"{path}:{at['values'] + 1}: {MARKERS['values']!r} must come after {MARKERS['options']!r}"
        )
    last = min(command, at["values"])
    options: dict[str, int] = {}
    for index, line in enumerate(lines):
        if not line.startswith("#SBATCH"):
            continue
        where = f"{path}:{index + 1}"
        if index > last:
            raise ValueError(
                f"{where}: {line!r} stands after the first command, where Slurm no longer reads options"
            )
        for name in _options(line, where):
            if name in OWNED:
                raise ValueError(
                    f"{where}: {line!r} sets --{name}, which belongs to the launcher: restarts and the job "
                    "graph rest on it. Remove the line; the configuration sets what can be chosen"
                )
            options[name] = index + 1
    return Template(path, tuple(lines), options)


def fill(
    template: Template,
    options: Mapping[str, str | None],
    values: Mapping[str, str],
    environment: Mapping[str, str],
) -> tuple[str, list[str]]:
    """The script, and the names of `options` that were left out because the template sets them.

    Parameters
    ----------
    options
        Long names of sbatch's options; None for those without a value.
    values
        Shell variables that the template reads.
    environment
        Variables that the job exports.

    Raises
    ------
    ValueError
        A name that sbatch or bash could not take, or a line break in an option.
    """
    chosen: list[str] = []
    overridden: list[str] = []
    for name, value in options.items():
        # sbatch takes a beginning of a long option for the whole.
        if any(relative.startswith(own) for relative in _family(name) for own in template.options):
            overridden.append(name)
        else:
            chosen.append(_option_line(name, value))
    assignments = [_assignment(name, value) for name, value in values.items()]
    exports = [f"export {_assignment(name, value)}" for name, value in environment.items()]
    replaced = {MARKERS["options"]: chosen, MARKERS["values"]: [*assignments, *exports]}
    lines: list[str] = []
    for line in template.lines:
        lines += replaced.get(line.rstrip(), [line])
    return "\n".join(lines) + "\n", overridden


def _marker(lines: list[str], name: str, path: str) -> int:
    marker = MARKERS[name]
    found = [index for index, line in enumerate(lines) if line.rstrip() == marker]
    if not found:
        near = next((i + 1 for i, line in enumerate(lines) if "@launcher" in line and name in line), None)
        hint = f"; line {near} looks like it, but is not the same" if near else ""
        raise ValueError(f"{path}:{near or len(lines)}: the line {marker!r} is missing{hint}")
    if len(found) > 1:
        raise ValueError(
            f"{path}:{found[1] + 1}: {marker!r} stands here and on line {found[0] + 1}; keep one"
        )
    return found[0]


def _options(line: str, where: str) -> list[str]:
    """Long names of the options that one #SBATCH line sets, as sbatch reads it."""
    rest = line.removeprefix("#SBATCH")
    if rest and not rest[0].isspace():
        raise ValueError(f"{where}: {line!r} needs a space after #SBATCH, or sbatch does not read it")
    try:
        words = shlex.split(rest, comments=True)
    except ValueError as error:
        raise ValueError(f"{where}: {line!r} has an open quote ({error})") from None
    names: list[str] = []
    takes_word = False
    for word in words:
        long = re.fullmatch(r"--([A-Za-z][A-Za-z-]*)(=.*)?", word, flags=re.DOTALL)
        short = re.fullmatch(r"-([A-Za-z])(.*)", word, flags=re.DOTALL)
        if long:
            name, takes_word = long.group(1), long.group(2) is None
        elif short and short.group(1) in SHORT:
            name, takes_word = SHORT[short.group(1)], not short.group(2)
        elif takes_word:
            takes_word = False
            continue
        else:
            raise ValueError(
                f"{where}: {line!r}: sbatch would stop reading at {word!r} and ignore every option below; "
                "quote a value that has spaces"
            )
        takes_word = takes_word and name not in FLAGS
        if name not in OWNED and any(owned.startswith(name) for owned in OWNED):
            raise ValueError(f"{where}: {line!r}: write --{name} in full")
        names.append(name)
    if not names:
        raise ValueError(f"{where}: {line!r} sets nothing")
    return names


def _family(name: str) -> frozenset[str]:
    return next((family for family in FAMILIES if name in family), frozenset({name}))


def _option_line(name: str, value: str | None) -> str:
    if not _OPTION.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of an sbatch option")
    if value is None:
        return f"#SBATCH --{name}"
    if any(character in value for character in "\n\r\0"):
        raise ValueError(f"--{name}={value!r}: an sbatch option cannot hold a line break")
    return f"#SBATCH --{name}={shlex.quote(value)}"


def _assignment(name: str, value: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a shell variable")
    if "\0" in value:
        raise ValueError(f"{name}={value!r}: a shell variable cannot hold a NUL byte")
    return f"{name}={shlex.quote(value)}"
