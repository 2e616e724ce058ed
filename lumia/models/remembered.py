"""How a memory is shown to a model: one line for each thing remembered, which the offline model can read as well.

::

    - [2026-11-03 09:12, the one who asks] Ann: my sister moved to Lisbon
    - [2026-11-04 18:30] Bob: the printer is out of paper
    - [2026-11-04 18:31, you] I have ordered some.
    - [2026-11-05 07:00, noted] Ann is allergic to peanuts

What stands in the brackets is written by the plugin and never by people, so nobody can speak in another's name; a line
has no line break.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from lumia.models.messages import clean

ASKER, BOT, NOTED = "the one who asks", "you", "noted"
_LINE = re.compile(
    rf"^- \[(?P<day>\d{{4}}-\d\d-\d\d)(?: \d\d:\d\d)?(?:, (?P<by>{ASKER}|{BOT}|{NOTED}))?\] (?P<rest>.*)$", re.MULTILINE
)
_MORE_THAN_SPACE = re.compile(r"[\s\x00-\x1f\x7f\u2028\u2029]+")
_NOT_IN_NAMES = re.compile(r"[\s:：\[\]]+")


@dataclass(frozen=True)
class Remembered:
    """Something out of the memory. name: who said it, "" when nobody did; day: YYYY-MM-DD."""

    text: str
    name: str = ""
    day: str = ""
    by_asker: bool = False
    by_bot: bool = False


def line(text: str, said_at: float, *, name: str = "", by_asker: bool = False, by_bot: bool = False) -> str:
    """Return one line of the memory; said_at: seconds since 1970, shown in the machine's time zone."""
    by = f", {BOT}" if by_bot else f", {ASKER}" if by_asker else "" if name else f", {NOTED}"
    shown = _NOT_IN_NAMES.sub(" ", clean(name)).strip()
    said = _MORE_THAN_SPACE.sub(" ", clean(text)).strip()
    when = f"{datetime.fromtimestamp(said_at).astimezone():%Y-%m-%d %H:%M}"
    return f"- [{when}{by}] {said}" if by_bot or not shown else f"- [{when}{by}] {shown}: {said}"


def block(header: str, lines: Iterable[str]) -> str:
    """Return the text of a system message, "" without lines."""
    listed = "\n".join(lines)
    return f"{header}\n{listed}" if listed else ""


def lines_of(text: str) -> list[Remembered]:
    """Return the lines of the memory in a system message, as `line` wrote them."""
    return [_read(found) for found in _LINE.finditer(text)]


def _read(found: re.Match[str]) -> Remembered:
    by, rest = found["by"], found["rest"]
    if by in (BOT, NOTED):
        return Remembered(rest, "", found["day"], by_bot=by == BOT)
    name, _, said = rest.partition(": ")
    return Remembered(said, name, found["day"], by_asker=by == ASKER)
