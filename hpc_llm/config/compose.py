"""From command-line overrides to a typed, checked `Config`, by Hydra's compose API.

Hydra stops at the first thing it dislikes. Here everything that is wrong is refused together: a
failing composition is taken apart override by override, and `check.problems` adds the combinations.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hpc_llm.config import check
from hpc_llm.config.check import ConfigError
from hpc_llm.config.schema import Config


def packaged(folder: str) -> Path:
    """A folder that is installed inside the package and stands beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    return next(path for path in (package / folder, package.parent / folder) if path.is_dir())


def search_path(config_dir: str | None = None) -> ConfigSearchPath:
    """Where Hydra looks: `config_dir` of a site first, then the files that ship with the package."""
    ConfigStore.instance().store(name="schema", node=Config)
    path = create_config_search_path(str(packaged("conf")))
    if config_dir is not None:
        if not os.path.isdir(config_dir):
            raise ConfigError([f"--config-dir={config_dir}: no such folder"])
        path.prepend(
            provider="command-line",
            path=f"file://{os.path.abspath(config_dir)}",
            anchor=SearchPathQuery(provider="main"),
        )
    return path


def compose(overrides: list[str], config_dir: str | None = None, config_name: str = "config") -> Config:
    """The checked configuration for `overrides`.

    Raises ConfigError with every problem: unknown keys, wrong types, impossible combinations.
    """
    version.setbase("1.3")
    GlobalHydra.instance().clear()
    Hydra.create_main_hydra2(task_name="launch", config_search_path=search_path(config_dir))
    try:
        composed, found = _compose_all(overrides, config_name)
    finally:
        GlobalHydra.instance().clear()
    if composed is not None:
        config = _as_object(composed, found)
        if config is not None:
            found += [str(problem) for problem in check.problems(config)]
            if not found:
                return config
    raise ConfigError(found)


_FREE_FORM = "cluster.environment"


def _as_object(composed: DictConfig, found: list[str]) -> Config | None:
    known = set(_keys(asdict(Config())))
    tree = OmegaConf.to_container(composed)
    assert isinstance(tree, dict)
    # Hydra's + adds a key to any node, so that a misspelt +cluster=... would be kept and mean nothing.
    unknown = [key for key in _keys(tree) if key not in known and not key.startswith(_FREE_FORM)]
    if unknown:
        found += [f"{key}: not a key{_meant(key)}" for key in unknown]
        return None
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        found.append(_one_line(error))
        return None
    assert isinstance(config, Config)
    return config


def _compose_all(overrides: list[str], config_name: str) -> tuple[DictConfig | None, list[str]]:
    try:
        return hydra_compose(config_name, overrides), []
    except (HydraException, OmegaConfBaseException) as error:
        whole = _one_line(error)
    # Group choices first: a key may exist only because of the file that a choice names.
    good: list[str] = []
    found: list[str] = []
    for override in sorted(overrides, key=lambda text: "." in text.split("=", 1)[0]):
        try:
            hydra_compose(config_name, [*good, override])
            good.append(override)
        except (HydraException, OmegaConfBaseException) as error:
            found.append(f"{override}: {_one_line(error)}{_meant(override)}")
    if not found:
        found = [whole]
    try:
        return hydra_compose(config_name, good), found
    except (HydraException, OmegaConfBaseException):
        return None, found


def _meant(override: str) -> str:
    """The keys that an unknown key may have been meant for."""
    key, _, value = override.lstrip("+~").partition("=")
    known = list(_keys(asdict(Config())))
    if override.startswith("cluster="):
        return f" (a cluster is added with a plus: +{override})"
    if key == "source.paths" and not value.startswith("["):
        return f" (paths are a list: 'source.paths=[{value}]')"
    if key in known:
        return ""
    close = difflib.get_close_matches(key, known, n=3)
    return (
        f" (did you mean {' or '.join(close)}?)"
        if close
        else f" ({', '.join(_siblings(key, known))} are known)"
    )


def _siblings(key: str, known: list[str]) -> list[str]:
    parent = key.rpartition(".")[0]
    return [name for name in known if name.rpartition(".")[0] == parent] or [n for n in known if "." not in n]


def _keys(tree: dict[Any, Any], prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def _one_line(error: BaseException) -> str:
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(cause) if str(cause) else str(error)
    # OmegaConf appends where it stood in its own objects; the key is all that helps a person.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    key = next((line.removeprefix("full_key:").strip() for line in lines if line.startswith("full_key:")), "")
    kept = [line for line in lines if not line.startswith(("full_key:", "object_type=", "reference_type="))]
    message = " ".join(kept).partition(" Config search path:")[0]
    return f"{key}: {message}" if key and key not in message else message
