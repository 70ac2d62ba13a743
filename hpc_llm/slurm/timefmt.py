"""Slurm's time forms. Source: sbatch(1), option --time; slurm.conf(5), MaxTime.

Accepted are ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours``,
``days-hours:minutes``, ``days-hours:minutes:seconds``, and ``UNLIMITED`` or ``INFINITE``.
"""

from __future__ import annotations

import re

FORMS = "minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]], UNLIMITED"

_FORM = re.compile(r"(?:(?P<days>[0-9]+)-)?(?P<first>[0-9]+)(?::(?P<second>[0-9]+))?(?::(?P<third>[0-9]+))?")


def parse(text: str) -> int | None:
    """Seconds, or None for no limit. Raises ValueError naming the text and the accepted forms.

    Slurm itself rounds a job's limit up to whole minutes; this does not. ``0`` is no limit to sbatch but is
    returned as 0 seconds here, since elsewhere (elapsed times, GraceTime) it is a plain zero.
    """
    stripped = text.strip()
    if stripped.upper() in ("UNLIMITED", "INFINITE"):
        return None
    match = _FORM.fullmatch(stripped)
    if match is None:
        raise ValueError(f"{text!r} is not a Slurm time: allowed are {FORMS}")
    days, *fields = match.group("days", "first", "second", "third")
    numbers = [int(field) for field in fields if field is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return int(days) * 86_400 + hours * 3_600 + minutes * 60 + seconds
    if len(numbers) == 3:
        return numbers[0] * 3_600 + numbers[1] * 60 + numbers[2]
    minutes, seconds = (*numbers, 0)[:2]
    return minutes * 60 + seconds


def render(seconds: int | None) -> str:
    """``D-HH:MM:SS``, the one form that no reader can take for another; ``UNLIMITED`` for None."""
    if seconds is None:
        return "UNLIMITED"
    if seconds < 0:
        raise ValueError(f"a time limit cannot be negative: {seconds} s")
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{day}-{hour:02d}:{minute:02d}:{second:02d}"
