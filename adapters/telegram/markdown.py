"""The Markdown that models write, as text with entities.

Nothing here can fail: what is no markup stays text as it is. Entities are computed instead of sending a parse_mode,
whose strict rules refuse whole messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .rich import Rich, Writer

_FENCE = re.compile(r"[ ]{0,3}(?P<mark>`{3,}|~{3,})[ ]*(?P<language>[\w+#.-]{0,32})[^`\n]*")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+(?P<title>.*?)(?:[ \t]+#+)?[ \t]*")
_QUOTE = re.compile(r"[ ]{0,3}>[ ]?")
_REACH = 1024
"""How far apart two marks may be, so that a text full of single marks costs no time."""
_INLINE = re.compile(
    rf"""
    \\(?P<literal>[\\`*_{{}}\[\]()\#+\-.!~>|])
    | (?P<run>\*{{4,}}|_{{4,}}|~{{3,}})
    | (?P<ticks>`+)(?!`)(?P<code>.{{1,{_REACH}}}?)(?<!`)(?P=ticks)(?!`)
    | !?\[(?P<label>[^\[\]\n]{{1,512}})\]
      \((?P<url>(?:https?|tg|mailto):[^\s()<>]{{1,1024}}(?:\([^\s()<>]{{0,256}}\)[^\s()<>]{{0,512}})?)\)
    | \*\*(?=\S)(?P<strong>.{{1,{_REACH}}}?)(?<=\S)\*\*(?!\*)
    | (?P<dunder>(?<!\w)__[A-Za-z0-9_]{{1,64}}__(?!\w))
    | (?<!\w)__(?=\S)(?P<strong2>.{{1,{_REACH}}}?)(?<=\S)__(?!\w)
    | ~~(?=\S)(?P<strike>.{{1,{_REACH}}}?)(?<=\S)~~
    | (?<![A-Za-z0-9*])\*(?=[^\s*])(?P<em>.{{1,{_REACH}}}?)(?<=[^\s*])\*(?![A-Za-z0-9*])
    | (?<![\w])_(?=[^\s_])(?P<em2>.{{1,{_REACH}}}?)(?<=[^\s_])_(?![\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_STYLES = {"strong": "bold", "strong2": "bold", "strike": "strikethrough", "em": "italic", "em2": "italic"}
_DEEPEST = 8


def render(text: str) -> Rich:
    """Return Markdown as text with entities: bold, italic, strikethrough, code, links, headings, quotes."""
    writer = Writer()
    write(writer, text)
    return writer.rich()


def write(writer: Writer, text: str) -> None:
    """Write Markdown to a writer."""
    for kind, body, language in _blocks(text):
        if kind == "pre":
            with writer.styled("pre", **({"language": language} if language else {})):
                writer.write(body)
        elif kind in ("bold", "blockquote"):
            with writer.styled(kind):
                _inline(writer, body, 0)
        elif kind == "plain":
            for paragraph in re.split(r"(\n[ \t]*\n)", body):
                _inline(writer, paragraph, 0)
        else:
            writer.write(body)


def _blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, text, language); what separates two blocks is a block of kind "gap"."""
    lines = text.split("\n")
    plain: list[str] = []
    at, first = 0, True
    while at < len(lines):
        kind, body, language, after = _block(lines, at)
        if kind == "plain":
            plain.append(lines[at])
        else:
            if plain:
                yield "plain", ("" if first else "\n") + "\n".join(plain), ""
                plain, first = [], False
            if not first:
                yield "gap", "\n", ""
            yield kind, body, language
            first = False
        at = after
    if plain:
        yield "plain", ("" if first else "\n") + "\n".join(plain), ""


def _block(lines: list[str], at: int) -> tuple[str, str, str, int]:
    line = lines[at]
    if fence := _FENCE.fullmatch(line):
        end = _closing(lines, at + 1, fence["mark"])
        return "pre", "\n".join(lines[at + 1 : end]), fence["language"], end + 1
    if (heading := _HEADING.fullmatch(line)) and heading["title"]:
        return "bold", heading["title"], "", at + 1
    if _QUOTE.match(line):
        end = at
        while end < len(lines) and _QUOTE.match(lines[end]):
            end += 1
        return "blockquote", "\n".join(_QUOTE.sub("", quoted, count=1) for quoted in lines[at:end]), "", end
    return "plain", line, "", at + 1


def _closing(lines: list[str], at: int, mark: str) -> int:
    """Return where a fence ends; one that nobody closed goes to the end, as when a model was cut short."""
    for number in range(at, len(lines)):
        found = lines[number].strip()
        if len(found) >= len(mark) and found == mark[0] * len(found):
            return number
    return len(lines)


def _inline(writer: Writer, text: str, depth: int) -> None:
    at = 0
    for found in _INLINE.finditer(text) if depth < _DEEPEST else ():
        writer.write(text[at : found.start()])
        at = found.end()
        _span(writer, found, depth)
    writer.write(text[at:])


def _span(writer: Writer, found: re.Match[str], depth: int) -> None:
    if plain := found["literal"] or found["run"] or found["dunder"]:  # __init__ is a name, not emphasis
        writer.write(plain)
    elif found["code"]:
        with writer.styled("code"):
            writer.write(found["code"].strip(" ") or found["code"])
    elif found["url"]:
        with writer.styled("text_link", url=found["url"]):
            _inline(writer, found["label"], depth + 1)
    else:
        kind = next(name for name in _STYLES if found[name])
        with writer.styled(_STYLES[kind]):
            _inline(writer, found[kind], depth + 1)
