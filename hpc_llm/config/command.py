"""Hydra's command line: what describes the configuration goes to Hydra, what runs comes back composed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from hydra import main as hydra_main
from hydra import version
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from hpc_llm.config.check import ConfigError
from hpc_llm.config.compose import compose, packaged
from hpc_llm.config.schema import Config


def parse(arguments: list[str]) -> list[Config]:
    """One checked config, or one for each point of a ``-m`` sweep; none after ``--help``, ``--cfg`` and the like.

    Raises ConfigError with all problems of all points, before any of them was run.
    """
    version.setbase("1.3")
    options = get_args_parser().parse_intermixed_args(arguments)
    if options.help or options.hydra_help or options.cfg or options.shell_completion or options.info:
        _describe(arguments)
        return []
    overrides, name = options.overrides, options.config_name or "config"
    config_dir = options.config_dir or options.config_path
    if not options.multirun:
        return [compose(overrides, config_dir, name)]
    configs, found = [], []
    for point in _points(overrides):
        try:
            configs.append(compose(point, config_dir, name))
        except ConfigError as error:
            found += [problem for problem in error.problems if problem not in found]
    if found:
        raise ConfigError(found)
    return configs


def _points(overrides: list[str]) -> list[list[str]]:
    """The overrides of each run of a sweep, by Hydra's own expansion; each run is named after its point."""
    try:
        parsed = OverridesParser.create().parse_overrides(overrides)
        swept = [override.get_key_element() for override in parsed if override.is_sweep_override()]
        [batch] = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    except HydraException as error:
        raise ConfigError([str(error)]) from error
    name = next(
        (o.value() for o in parsed if o.get_key_element() == "run.name" and not o.is_sweep_override()),
        "sweep",
    )
    points = []
    for point in batch:
        varying = [
            text for text in point if text.split("=", 1)[0] in swept and not text.startswith("run.name=")
        ]
        suffix = "".join("-" + re.sub(r"[^A-Za-z0-9._-]", "_", text.lstrip("+~")) for text in varying)
        fixed = [text for text in point if not text.startswith("run.name=")]
        own = next((text for text in point if text.startswith("run.name=") and "run.name" in swept), None)
        points.append([*fixed, own or f"run.name={name}{suffix}"])
    return points


# Hydra's own script knows `python app.py` and installed commands, not `python -m`.
_BASH_COMPLETION = """\
_hpc_llm_launch() {
    local words=($COMP_LINE)
    [ "${words[1]} ${words[2]}" = "-m hpc_llm.launch" ] || return
    local choices  # bash does not export the line to a completion function
    choices=$(COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" "${words[0]}" -m hpc_llm.launch -sc query=bash)
    COMPREPLY=($(compgen -o default -W "$choices" -- "${words[COMP_CWORD]}"))
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}
complete -o nospace -o default -F _hpc_llm_launch python python3"""


def _describe(arguments: list[str]) -> None:
    """Help, composed config, information and completion as Hydra prints them."""
    if "install=bash" in arguments:
        print(_BASH_COMPLETION)
        return
    line = os.environ.get("COMP_LINE", "")
    if line:
        os.environ["COMP_LINE"] = re.sub(r"^.*?-m\s+hpc_llm\.launch\b", "launch", line)
    ConfigStore.instance().store(name="schema", node=Config)

    @hydra_main(config_path=str(packaged("conf")), config_name="config", version_base="1.3")
    def launch(_: Config) -> None: ...

    before = sys.argv
    sys.argv = [str(Path(before[0])), *arguments]
    try:
        launch()
    except SystemExit as ended:  # Hydra's way out of --help
        if ended.code:
            raise
    finally:
        sys.argv = before
