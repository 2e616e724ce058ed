"""What several commands ask for in the same words: a run by its id, a stretch of time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from lumia.cli.when import parse_when
from lumia.errors import WhenError
from lumia.ids import is_beginning
from lumia.lookup import Lookup

if TYPE_CHECKING:
    from lumia.runtime import Runtime

AHEAD = 60.0
"""Seconds by which a moment may be in the future: clocks differ."""


def run_named(bot: Runtime, text: str) -> str:
    """Return the id of the run that `text` names: its id, or a beginning of it that fits one tree only.

    Raises a usage error for a text that begins no id, `UnknownRunError` for none that fits, and for several trees.
    """
    if not is_beginning(text):
        raise typer.BadParameter(
            f"{text!r} is no run id and no beginning of one, such as 01m7zv0k3q8r2s5t6v7w8x or 01m7zv0k3q; "
            "`lumia runs` lists them",
            param_hint="RUN",
        )
    if bot.transport.run(text) is not None:
        return text
    return Lookup(bot.transport.history(), bot.transport, now=time.time()).one(text).run_id


def period(since: str, until: str) -> tuple[float, float]:
    """Return the bounds that --since and --until name, in seconds since 1970, 0 for none.

    Raises a usage error that names the option for what is no time, and for a stretch in which nothing can be.
    """
    now = time.time()
    begin, end = _moment(since, "--since", now), _moment(until, "--until", now)
    if begin > now + AHEAD:
        raise typer.BadParameter(
            f"{since!r} is in the future, nothing is that young; e.g. --since 2h", param_hint="--since"
        )
    if end and begin > end:
        raise typer.BadParameter(
            f"{since!r} is later than --until {until!r}, nothing lies between; e.g. --since 2h --until 1h",
            param_hint="--since",
        )
    return begin, end


def _moment(text: str, option: str, now: float) -> float:
    try:
        return parse_when(text, now) if text else 0.0
    except WhenError as error:
        raise typer.BadParameter(f"{error}; e.g. {option} 2h", param_hint=option) from None
