"""The Markdown that models write, as mrkdwn.

Converted here rather than sent as `markdown_text`: mrkdwn says which characters are escaped, so a model can't call
everybody by writing `<!channel>`; mentions have one documented form; and posting, updating, `response_url` and the
comment of a file take it alike.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from .mrkdwn import escape

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^`]*$")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
_RULE = re.compile(r"^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_ITEM = re.compile(r"^([ \t]*)[-*+][ \t]+(?:\[([ xX])\][ \t]+)?(.*)$")
_QUOTE = re.compile(r"^ {0,3}(?:>[ \t]?)+(.*)$")
_DIVIDER = re.compile(r"^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CELL = re.compile(r"(?<!\\)\|")
_LINKABLE = ("http://", "https://", "mailto:", "tel:")
_BOXES = {" ": "☐ ", "x": "☑ ", "X": "☑ "}
_APART = "\u200b"
"""Slack reads a marker only beside a space or a sign; between letters (Chinese, Japanese) this stands for the space."""

_INLINE = re.compile(
    r"(?P<tick>`{1,8})(?!`)(?P<code>[^\n]{1,2000}?)(?<!`)(?P=tick)(?!`)"
    r"|\\(?P<literal>[!-/:-@\[-`{-~])"
    r"|!?\[(?P<label>[^\[\]\n]{0,500})\]\((?P<url>[^\s()<>]{0,1000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,500})?)"
    r"(?:[ \t]+\"[^\"\n]{0,200}\")?\)"
    r"|<(?P<auto>(?:https?://|mailto:)[^\s<>|]{1,2000})>"
    r"|\*\*\*(?=[^\s*])(?P<both>[^\n*]{1,2000}?)(?<=[^\s*])\*\*\*"
    r"|\*\*(?=[^\s*])(?P<bold>[^\n]{1,2000}?)(?<=\S)\*\*(?!\*)"
    r"|(?<!\w)__(?=[^\s_])(?P<bold_>[^\n]{1,2000}?)(?<=\S)__(?!\w)"
    r"|(?<!\d)\*(?=[^\s*])(?P<italic>[^\n*]{1,2000}?)(?<=\S)\*"
    r"|(?<!\w)_(?=[^\s_])(?P<italic_>[^\n_]{1,2000}?)(?<=\S)_(?!\w)"
    r"|~~(?=[^\s~])(?P<strike>[^\n~]{1,2000}?)(?<=\S)~~"
)
_MARKS = {"bold": "*", "bold_": "*", "italic": "_", "italic_": "_", "strike": "~"}


def mrkdwn(text: str) -> str:
    """Return Markdown as mrkdwn.

    Headings become bold lines, lists get bullets, tables become text with columns; what mrkdwn has no sign for stays
    as it is. `&`, `<` and `>` are escaped everywhere.
    """
    lines = text.split("\n")
    made: list[str] = []
    at = 0
    while at < len(lines):
        end = _fenced(lines, at) or _table(lines, at)
        if end:
            made.append(_verbatim(lines[at:end]))
            at = end
        else:
            made.append(_line(lines[at]))
            at += 1
    return "\n".join(made)


def _fenced(lines: Sequence[str], at: int) -> int:
    """Return where the code block that begins at `at` ends; 0 when none does."""
    found = _FENCE.match(lines[at])
    if not found:
        return 0
    closing = re.compile(rf"^ {{0,3}}{re.escape(found[1])}{re.escape(found[1][0])}*[ \t]*$")
    for end in range(at + 1, len(lines)):
        if closing.match(lines[end]):
            return end + 1
    return len(lines)


def _table(lines: Sequence[str], at: int) -> int:
    """Return where the table whose head is at `at` ends; 0 when there is none."""
    if "|" not in lines[at] or at + 1 >= len(lines) or not _DIVIDER.match(lines[at + 1]) or "|" not in lines[at + 1]:
        return 0
    end = at + 2
    while end < len(lines) and "|" in lines[end] and lines[end].strip():
        end += 1
    return end


def _verbatim(lines: Sequence[str]) -> str:
    if not _FENCE.match(lines[0]):
        return f"```\n{escape(_columns(lines))}\n```"
    closed = len(lines) > 1 and re.fullmatch(r"\s*(`{3,}|~{3,})\s*", lines[-1]) is not None
    body = lines[1:-1] if closed else lines[1:]
    return "```\n" + "".join(f"{escape(line)}\n" for line in body).replace("```", "`\u200b``") + "```"


def _columns(lines: Sequence[str]) -> str:
    rows = [[cell.strip().replace("\\|", "|") for cell in _CELL.split(_bare(line))] for line in lines]
    rows.pop(1)
    number = max(map(len, rows))
    rows = [row + [""] * (number - len(row)) for row in rows]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    ruled = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join(_row(row, widths) for row in ruled).replace("```", "`\u200b``")


def _bare(line: str) -> str:
    line = line.strip().removeprefix("|")
    return line[:-1] if line.endswith("|") and not line.endswith("\\|") else line


def _row(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _line(line: str) -> str:
    if _RULE.match(line):
        return "─" * 12
    if heading := _HEADING.match(line):
        return _marked("*", _inline(re.sub(r"\*\*|__", "", heading[1])))
    if quote := _QUOTE.match(line):
        return f">{_inline(quote[1])}"
    if item := _ITEM.match(line):
        return f"{item[1]}{_BOXES.get(item[2] or '', '• ')}{_inline(item[3])}"
    return _inline(line)


def _inline(text: str) -> str:
    pieces: list[tuple[str, bool]] = []
    at = 0
    for found in _INLINE.finditer(text):
        pieces += [(escape(text[at : found.start()]), False), _piece(found)]
        at = found.end()
    pieces.append((escape(text[at:]), False))
    return _joined([piece for piece in pieces if piece[0]])


def _piece(found: re.Match[str]) -> tuple[str, bool]:
    """Return a piece of text, and whether it begins and ends with a marker."""
    kind = found.lastgroup or ""
    if kind == "code":
        return f"`{escape(found['code'].strip() or found['code'])}`", True
    if kind == "literal":
        return escape(found["literal"]), False
    if kind == "url":
        return _link(found["url"], found["label"]), False
    if kind == "auto":
        return f"<{escape(found['auto'])}>", False
    if kind == "both":
        return f"*_{_inline(found['both'])}_*", True
    return _marked(_MARKS[kind], _inline(found[kind])), True


def _marked(mark: str, text: str) -> str:
    """Return `text` between marks; not twice, and not where there is nothing to mark."""
    return text if not text.strip() or (text[0] == text[-1] == mark and len(text) > 1) else f"{mark}{text}{mark}"


def _link(url: str, label: str) -> str:
    if not url.startswith(_LINKABLE):
        return escape(f"{label} ({url})" if label and url else label or url)
    return f"<{escape(url).replace('|', '%7C')}|{escape(label)}>" if label else f"<{escape(url).replace('|', '%7C')}>"


def _joined(pieces: Sequence[tuple[str, bool]]) -> str:
    made = ""
    was_marked = False
    for text, marked in pieces:
        touching = made[-1:].isalnum() if marked else was_marked and text[0].isalnum()
        made += f"{_APART}{text}" if touching or (marked and was_marked) else text
        was_marked = marked
    return made
