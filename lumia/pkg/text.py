"""Text of strangers made fit to be shown: descriptions, READMEs, what git says, what a registry answers."""

from __future__ import annotations

import re
import unicodedata

LINE = 300
"""Characters of one shown line."""
PAGE = 20_000
"""Characters of a shown page."""
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor; also one that is cut off
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC up to their end
    r"|\x9b[0-?]*[ -/]*[@-~]?|[\x9d\x90\x98\x9e\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # the same in C1
    r"|\x1b[ -/]*[0-~]?"
)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_JOINERS = frozenset("\u200c\u200d")  # between letters of scripts that need them, and inside emoji
_MARKS_IN_A_ROW = 4  # more of them climb over the lines around


def plain(text: str, limit: int = LINE) -> str:
    """Return `text` as one line without anything that acts on a terminal or turns the reading direction.

    Escape sequences go as a whole; control, format (bidirectional marks among them), private and unassigned characters
    one by one; white space and line ends become one space. Longer than `limit` characters it ends in `…`.
    """
    return _cut(" ".join(_visible(text[: _raw(limit)]).split()), limit)


def plain_lines(text: str, limit: int = PAGE) -> str:
    """Return `text` like `plain`, but with its line ends, and tabs as four spaces: for READMEs and changelogs."""
    lines = text[: _raw(limit)].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return _cut("\n".join(_visible(line.replace("\t", "    ")).rstrip() for line in lines).strip("\n"), limit)


def odd_character(text: str) -> str | None:
    """Return the first character of `text` that `plain` takes away, None when all of it can be seen."""
    return next((char for char in text if unicodedata.category(char) in _INVISIBLE or char in "\u2028\u2029"), None)


def named(char: str) -> str:
    """Return how a message speaks of a character nobody can see: `U+202E (RIGHT-TO-LEFT OVERRIDE)`."""
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X}" + (f" ({name})" if name else "")


def _raw(limit: int) -> int:
    return limit * 8 + 64  # what is looked at of a text that is much longer than what is shown


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"


def _visible(text: str) -> str:
    shown: list[str] = []
    marks = 0
    for char in _ESCAPES.sub("", text):
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if char.isspace():
            shown.append(" ")
        elif (category not in _INVISIBLE or char in _JOINERS) and marks <= _MARKS_IN_A_ROW:
            shown.append(char)
    return "".join(shown)
