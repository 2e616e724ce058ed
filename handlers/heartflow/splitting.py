"""Long replies as several messages, cut where a person would press enter, and how long a person would type each (D§11).

Sizes are in characters. Whitespace at a cut is dropped; nothing else is, and the order stays.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

SMALLEST = 32
"""The smallest `most`: a code fence has to fit with a line of code in it."""

_OPENERS = "([{<\"'“‘「『（［｛《〈【〔"
_CLOSERS = ")]}>\"'”’」』）］｝》〉】〕*_"
_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_NO_START = frozenset(_CLOSERS + "。！？，、；：…—～·.!?,;:%℃ー々」』")

_FENCE = re.compile(r"^[ \t]*(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$", re.MULTILINE)
_GLUED = re.compile(r"(?<=[^\s`])(?=```[\w+-]*\n)")  # models put an opening fence behind the words before it
_KEPT = re.compile(r"https?://[^\s<>\"'，。！？；：、（）《》「」『』【】]+|`[^`\n]+`", re.IGNORECASE)
_TURN = re.compile(
    rf"(?P<space>\s+)|(?P<stop>[。！？!?]+[{re.escape(_CLOSERS)}]*)|(?P<clause>[，、；：]|[…—]+)|(?P<wide>[{_WIDE}])"
)
_ENDED = re.compile(rf"(?P<stop>[.!?。！？…]+)(?P<closed>[{re.escape(_CLOSERS)}]*)$")
_INK = re.compile(r"\S")
_WIDE_CHARACTER = re.compile(rf"[{_WIDE}]")
_DOTTED = re.compile(r"(?:[^\W\d_]\.){2,}|[A-Z]\.")

# What ends with a full stop and goes on, by when: always, unless a capital follows, only before a number.
_ALWAYS = frozenset(
    {"mr", "mrs", "ms", "dr", "prof", "st", "vs", "cf", "approx", "ca", "bzw", "resp", "dept", "est", "e.g", "i.e"}
)
_USUALLY = frozenset({"etc", "inc", "ltd", "corp", "co", "jr", "sr", "usw", "al"})
_NUMBERED = frozenset({"no", "nr", "fig", "figs", "p", "pp", "vol", "ch", "sec", "eq", "art", "abs"})


class _Rank(IntEnum):
    WORD = 1
    CLAUSE = 2
    SENTENCE = 3
    LINE = 4
    PARAGRAPH = 5


@dataclass(frozen=True, slots=True)
class _Fence:
    """A fenced code block: its lines are text[body:tail], `end` is where its closing line ends."""

    start: int
    body: int
    tail: int
    end: int
    opening: str
    closing: str


def parts(text: str, *, most: int, limit: int) -> list[str]:
    """Split a reply into at most `limit` messages of at most `most` characters each, in order, none of them blank.

    A cut is made between paragraphs and around code fences, else between lines, else between sentences (Chinese or
    Latin), and inside a sentence only when that sentence alone is longer than `most`: there after a clause, between
    words, or, if one word alone is longer, in the word. Addresses and inline code are words. A fence that alone is
    longer than `most` is closed at the end of a line and opened again in the next message, so that every message can be
    shown by itself; a fence left open over some lines is closed. Fences whose own lines hardly fit are plain text.

    `limit` goes before `most`: the last message takes the whole rest, and it alone may be longer.
    Raises ValueError when `most` is under 32 or `limit` under 1.
    """
    if most < SMALLEST:
        raise ValueError(f"most is {most}: a part holds at least {SMALLEST} characters")
    if limit < 1:
        raise ValueError(f"limit is {limit}: a reply has at least one part")
    text, fences = _prepared(text, most)
    found: list[str] = []
    at, again = 0, ""  # `again`: the line that opens the fence again in which the last part ended
    while at < len(text):
        room = most - len(again)
        if len(found) + 1 == limit or len(text) - at <= room:
            found.append(again + text[at:])
            break
        end = _boundary(text, at, room, fences)
        fence = next((one for one in fences if one.start <= at < one.end), None)
        if end is None and fence is not None:
            part, at, again = _through(text, at, most, fence)
        else:
            end = end or _forced(text, at, at + room)
            part, at, again = again + text[at:end], _resumed(text, end, fences), ""
        found.append(part)
    return found


def pause(part: str, *, rate: float = 30.0, most: float = 5.0) -> float:
    """Return how many seconds a person would let pass before sending `part`, the next one: the longer, the longer.

    `rate` is in Latin characters a second; a Chinese, Japanese or Korean character counts as two. At most `most`.
    """
    keys = len(part) + len(_WIDE_CHARACTER.findall(part))
    return min(most, 0.6 + keys / rate)


def _prepared(text: str, most: int) -> tuple[str, list[_Fence]]:
    """Return the text with its last fence closed, and its fences, without those too wide for `most`."""
    text = text.replace("\r\n", "\n").strip()
    fences, left_open = _scan(text)
    if left_open is not None:
        apart = _GLUED.sub("\n", text)
        again, still_open = _scan(apart)
        if still_open is None:
            text, fences = apart, again
        elif left_open[1].startswith("`") and left_open.end() < len(text):
            text += "\n" + _marker(left_open)
            fences, _ = _scan(text)
    return text, [one for one in fences if len(one.opening) + one.end - one.tail + 8 <= most]


def _scan(text: str) -> tuple[list[_Fence], re.Match[str] | None]:
    """Return the closed fences of a text and the line that opens one that is never closed (CommonMark §4.5)."""
    fences: list[_Fence] = []
    opened: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opened is None:
            opened = line
        elif line[1].startswith(opened[1]) and not line[2].strip():
            body = min(opened.end() + 1, line.start())
            fences.append(_Fence(opened.start(), body, line.start(), line.end(), opened[0], _marker(opened)))
            opened = None
    return fences, opened


def _marker(line: re.Match[str]) -> str:
    return line[0][: line.end(1) - line.start()]


def _boundary(text: str, at: int, room: int, fences: Sequence[_Fence]) -> int | None:
    """Return where the part that starts at `at` best ends, outside fences and after at most `room` characters."""
    edge = at + room
    kept = [one.span() for one in _KEPT.finditer(text, at, edge + room) if len(one[0]) <= room]
    best: dict[_Rank, int] = {}
    spare: dict[_Rank, int] = {}  # ends inside what should be kept whole
    for end, rank in _ends(text, at, edge, fences):
        if at < end <= edge:
            whole = not any(low < end < high for low, high in kept)
            into = best if whole else spare
            into[rank] = max(end, into.get(rank, 0))
    return _chosen(best or spare, at, room)


def _chosen(ends: dict[_Rank, int], at: int, room: int) -> int | None:
    """Of the last end of each rank: the highest rank's that fills a third of the room, whole sentences first."""
    for ranks in ((_Rank.PARAGRAPH, _Rank.LINE, _Rank.SENTENCE), (_Rank.CLAUSE, _Rank.WORD)):
        there = [ends[rank] for rank in ranks if rank in ends]
        if there:
            return next((end for end in there if 3 * (end - at) >= room), max(there))
    return None


def _ends(text: str, at: int, edge: int, fences: Sequence[_Fence]) -> Iterator[tuple[int, _Rank]]:
    """Every place where a part may end, from `at` to somewhat past `edge`, fences taken whole."""
    low = at
    for fence in fences:
        if fence.end <= at:
            continue
        if fence.start > edge + 1:
            break
        if fence.start > at:
            yield from _prose_ends(text, low, fence.start, edge)
            yield len(text[at : fence.start].rstrip()) + at, _Rank.PARAGRAPH
        yield fence.end, _Rank.PARAGRAPH
        low = fence.end
    yield from _prose_ends(text, low, len(text), edge)


def _prose_ends(text: str, low: int, high: int, edge: int) -> Iterator[tuple[int, _Rank]]:
    for turn in _TURN.finditer(text, low, min(high, edge + SMALLEST)):
        before, after = turn.start(), turn.end()
        following = text[after : after + 1]
        if turn["space"]:
            yield before, _rank_of_space(text[max(low, before - SMALLEST) : before], turn[0], following)
        elif turn["stop"]:
            if turn["stop"].strip("!?" + _CLOSERS) or _WIDE_CHARACTER.match(following):
                yield after, _Rank.SENTENCE
        elif following not in _NO_START:
            yield after, _Rank.CLAUSE if turn["clause"] else _Rank.WORD
        if turn["wide"] and before > low and text[before - 1] not in _OPENERS and not text[before - 1].isspace():
            yield before, _Rank.WORD


def _rank_of_space(before: str, space: str, following: str) -> _Rank:
    lines = space.count("\n")
    if lines:
        return _Rank.PARAGRAPH if lines > 1 else _Rank.LINE
    ended = _ENDED.search(before)
    if ended is not None and _sentence_ended(before, ended, following):
        return _Rank.SENTENCE
    return _Rank.CLAUSE if before.endswith((",", ";", ":", "，", "；", "：", "、", "—", "–", "…")) else _Rank.WORD


def _sentence_ended(before: str, ended: re.Match[str], following: str) -> bool:
    """Whether the punctuation before a space ends a sentence: not after "e.g.", "3." of a list, "Dr." or "J."."""
    if following.islower() and (ended["closed"] or ended["stop"].endswith(("..", "…"))):
        return False
    if ended["stop"] != ".":
        return True
    line = before[: ended.end("stop")].rpartition("\n")[2]
    token = line.split()[-1].lstrip(_OPENERS)
    word = token[:-1].lower()
    if word in _ALWAYS or (word in _NUMBERED and following.isdigit()):
        return False
    if word in _USUALLY or _DOTTED.fullmatch(token):
        return len(word) > 1 and following.isupper() and word not in _ALWAYS
    return not (word.isdigit() and line.strip() == token)


def _through(text: str, at: int, most: int, fence: _Fence) -> tuple[str, int, str]:
    """Return a part that ends inside the fence, where to go on, and the line that opens the fence again there."""
    again = fence.opening + "\n"
    first = _line_with_ink(text, max(at, fence.body))
    if first >= fence.tail:  # nothing but blank lines
        return again + fence.closing, _next_ink(text, fence.end), ""
    edge = first + most - len(again) - len(fence.closing) - 1
    end = text.rfind("\n", first, edge + 1)
    end, after = (end, end + 1) if end > first else (_forced(text, first, edge),) * 2
    part = f"{again}{text[first:end]}\n{fence.closing}"
    if not text[after : fence.tail].strip():
        return part, _next_ink(text, fence.end), ""
    return part, after, again


def _forced(text: str, at: int, edge: int) -> int:
    """Return an end at `edge`, or a little earlier where `edge` would part an accent or an emoji from its bearer."""
    end = edge
    while end > at + 1 and _joined(text[end - 1], text[end : end + 1]):
        end -= 1
    return end if end > at + 1 else edge


def _joined(left: str, right: str) -> bool:
    if not right:
        return False
    return (
        left == "\u200d"
        or right in "\u200d\ufe0f\u20e3"
        or "\U0001f3fb" <= right <= "\U0001f3ff"
        or unicodedata.combining(right) > 0
    )


def _resumed(text: str, end: int, fences: Sequence[_Fence]) -> int:
    """Return where the next part starts: after the whitespace, but not inside the indentation of a fence."""
    after = _next_ink(text, end)
    return min([after, *(one.start for one in fences if end <= one.start <= after)])


def _next_ink(text: str, at: int) -> int:
    found = _INK.search(text, at)
    return len(text) if found is None else found.start()


def _line_with_ink(text: str, at: int) -> int:
    """Return where the first line that is not blank starts, from the line at `at` on."""
    return max(at, text.rfind("\n", at, _next_ink(text, at)) + 1)
