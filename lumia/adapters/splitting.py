"""Cutting a long text into messages that a platform takes, where a reader would cut it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

Measure = Callable[[str], int]

_FENCE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n]*$", re.MULTILINE)
_BREAKS = (
    re.compile(r"\n[ \t]*\n+"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])[”’」』）]*"),
    re.compile(r"(?<=[,;:，；：、])\s*"),
    re.compile(r"\s+"),
)
"""Where a text is best cut, best first: paragraphs, lines, sentences, clauses, words."""
_LEAST = 0.3
"""A cut of a better kind counts only if the piece before it is at least so much of the limit."""
_LONGEST = 64
"""Code points that are looked at for where a character begins; text that stacks more marks than that is cut."""
_JOINER, _KEYCAP = "\u200d", "\u20e3"


def utf16(text: str) -> int:
    """Return the UTF-16 code units of a text, by which Telegram counts."""
    return len(text) + sum(char > "\uffff" for char in text)


def parts(text: str, limit: int, measure: Measure = len) -> list[str]:
    """Return `text` in pieces of at most `limit`, in order; [] for one that is blank.

    measure: what counts, e.g. `lumia.adapters.utf16`. Cuts fall between paragraphs, else lines, sentences, clauses,
    words, else between characters as people see them (never inside an emoji or before an accent). The blanks at a cut
    go away. A fence of code that is cut is closed and opened again, with its language. Raises `ValueError` for a limit
    under 16.
    """
    if limit < 16:
        raise ValueError(f"lumia.adapters.parts: limit is 16 or more, got {limit!r}")
    found, rest, fence = [], text.strip("\n"), ""
    while rest.strip():
        head = f"{fence}\n" if fence else ""
        if measure(head + rest) <= limit:
            found.append(head + rest)
            break
        piece, rest, after = _first(rest, head, fence, limit, measure)
        if piece.strip():
            found.append(piece)
        fence = after
    return found


def _first(rest: str, head: str, fence: str, limit: int, measure: Measure) -> tuple[str, str, str]:
    """Return the first piece, what is left, and the fence that the next piece opens again."""
    room = limit
    while True:
        taken = _cut(rest, max(1, room - measure(head)), measure, inside=bool(fence))
        body, left = rest[: taken[0]], rest[taken[1] :]
        open_now = _open_fence(body, fence)
        tail = f"\n{_marks(open_now)}" if open_now else ""
        piece = head + body.rstrip() + tail
        if measure(piece) <= limit:
            closes = bool(open_now) and _closes_at_once(left, open_now)
            return (piece, _without_fence_line(left), "") if closes else (piece, left, open_now)
        smaller = room - max(1, measure(piece) - limit)
        if smaller - measure(head) < 1:  # a fence longer than the limit: it is text like any other
            taken = _cut(rest, limit, measure, inside=False)
            return rest[: taken[0]], rest[taken[1] :], ""
        room = smaller


def _cut(text: str, room: int, measure: Measure, *, inside: bool) -> tuple[int, int]:
    """Return where the first piece of at most `room` ends, and where the rest begins."""
    most = _fitting(text, room, measure)
    if most >= len(text):
        return len(text), len(text)
    kinds = _BREAKS[1:2] if inside or _open_fence(text[:most], "") else _BREAKS
    for pattern in (*kinds, _BREAKS[-1]) if kinds is not _BREAKS else kinds:
        last = None
        for found in pattern.finditer(text, 0, min(len(text), most + 64)):
            if found.start() > most:
                break
            if found.end() > 0:
                last = found
        if last is not None and last.start() >= max(1, int(most * _LEAST)):
            end = last.end() if not inside else last.start() + 1
            return last.start(), max(end, last.start())
    return most, most


def _fitting(text: str, room: int, measure: Measure) -> int:
    """Return the end of the longest beginning that fits and, if it can be, doesn't break a character; at least 1."""
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    end = low
    while low - end < _LONGEST and 0 < end < len(text) and _sticks(text, end):
        end -= 1
    whole = end > 0 and (end == len(text) or not _sticks(text, end))
    return end if whole else max(1, low)


def _sticks(text: str, at: int) -> bool:
    """Tell whether the characters before and after `at` are seen as one."""
    after, before = text[at], text[at - 1]
    if after in (_JOINER, _KEYCAP) or before == _JOINER or unicodedata.category(after) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":  # skin tones, flags' tags
        return True
    if before == "\r" and after == "\n":
        return True
    return _is_flag(after) and _is_flag(before) and _flags_before(text, at) % 2 == 1


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    count = 0
    while at - count > 0 and _is_flag(text[at - count - 1]):
        count += 1
    return count


def _fences(text: str) -> Iterator[tuple[str, str]]:
    for found in _FENCE.finditer(text):
        yield found[1], found[2]


def _open_fence(body: str, fence: str) -> str:
    """Return the fence that is open at the end of `body`, "" for none; fence: the one open at its beginning."""
    for marks, language in _fences(body):
        if not fence:
            fence = marks + language
        elif marks[0] == fence[0] and len(marks) >= len(_marks(fence)) and not language:
            fence = ""
    return fence


def _marks(fence: str) -> str:
    return fence[: len(fence) - len(fence.lstrip(fence[0]))]


def _closes_at_once(left: str, fence: str) -> bool:
    line = left.lstrip("\n").partition("\n")[0]
    return line.strip() == _marks(fence)


def _without_fence_line(left: str) -> str:
    return left.lstrip("\n").partition("\n")[2]
