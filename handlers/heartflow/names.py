"""What people are called in a prompt: names that neither hide anything nor look like another's.

Two names look the same when they differ in case, width or invisible characters only; whoever has one of them is told
apart by their id. The name of the bot is taken.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

# What has no glyph of its own beside the category Cf: joiners, fillers, variation selectors.
_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
)


class Spoken(Protocol):
    """A line as names need it (`lines.Line`); by: `user` or `bot`."""

    @property
    def by(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


def visible(name: str) -> str:
    """Return a name without characters that nobody sees: Unicode's formats (category Cf), fillers, selectors."""
    if name.isascii():
        return name
    return "".join(char for char in _UNSEEN.sub("", name) if unicodedata.category(char) != "Cf").strip()


def look(name: str) -> str:
    """Return what names that look the same have in common: NFKC, one case, nothing invisible, single spaces."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible(name)).casefold())
    return " ".join(visible(folded).split())


def speakers(lines: Iterable[Spoken], bot_name: str, taken: Iterable[str] = ()) -> dict[str, str]:
    """Return the label of each sender id: the latest name, with the id behind it where two would look the same.

    The bot's own name counts as taken. taken: labels of others beside them.
    """
    people = {line.id: visible(line.name) or line.id for line in lines if line.by == "user"}
    others = [look(label) for label in taken]
    plain = Counter([look(bot_name), *others, *(look(name) for name in people.values())])
    labels = {id: name if plain[look(name)] == 1 else _with_id(name, id) for id, name in people.items()}
    shown = Counter([*others, *(look(label) for label in labels.values())])
    return {id: label if shown[look(label)] == 1 else _with_id(people[id], id) for id, label in labels.items()}


def _with_id(name: str, id: str) -> str:
    return f"{name} ({id[-20:]})"
