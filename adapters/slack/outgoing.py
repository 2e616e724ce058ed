"""A send as the messages it becomes: texts of mrkdwn, short enough, and files. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lumia

from . import mrkdwn
from .accounts import ALWAYS, NEVER
from .arrivals import is_ts
from .markdown import mrkdwn as from_markdown

LIMIT = 4000
"""Characters of one message (docs.slack.dev, chat.postMessage: longer texts are to be split)."""
MEDIA = frozenset({"image", "audio", "video", "file"})
_FIRST, _LAST = 0x100000, 0x10FFFD


@dataclass(frozen=True)
class Text:
    """One message. text: mrkdwn, ready to be sent."""

    text: str


@dataclass(frozen=True)
class File:
    """One file to be shared in the chat. n: the place of its segment in the send."""

    n: int
    segment: Mapping[str, Any]


Piece = Text | File


def compose(segments: Iterable[Mapping[str, Any]], *, markdown: bool = True) -> list[Piece]:
    """Return the messages that segments become, in order.

    markdown: the texts are Markdown; otherwise what they hold is shown as it stands. A file that is neither in the
    blob store nor at an https address becomes a link; what has no form in Slack is left out.
    """
    pieces: list[Piece] = []
    line = _Line(markdown)
    for n, segment in enumerate(segments):
        if _is_file(segment):
            pieces += [*line.texts(), File(n, segment)]
            line = _Line(markdown)
        else:
            line.add(segment)
    return [*pieces, *line.texts()]


def thread_of(thread: str | None, reply_to: str | None, how: str) -> str | None:
    """Return the `thread_ts` of a message: the thread of the one it answers, or with "always" a new one below it.

    thread: the answered message's thread, None when it stands in the channel itself, so that `reply_to` is never the
    id of a reply.
    """
    if how == NEVER:
        return None
    if thread is not None and is_ts(thread):
        return thread
    return reply_to if how == ALWAYS and reply_to is not None and is_ts(reply_to) else None


def quoted(segments: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id that a `reply` segment names, if there is one."""
    found = (segment["data"].get("id") for segment in segments if segment["type"] == "reply")
    return next((str(id) for id in found if id), None)


def _is_file(segment: Mapping[str, Any]) -> bool:
    blob, url = segment["data"].get("blob"), segment["data"].get("url")
    kept = isinstance(blob, Mapping) or (isinstance(url, str) and url.startswith("https://"))
    return segment["type"] in MEDIA and kept


class _Line:
    """Text with named things in it, each held by one character, so that splitting never cuts through one."""

    def __init__(self, markdown: bool) -> None:
        self._markdown = markdown
        self._text = ""
        self._named: dict[int, str] = {}

    def add(self, segment: Mapping[str, Any]) -> None:
        kind, data = segment["type"], segment["data"]
        if kind == "text":
            self._text += _without_holders(str(data.get("text", "")))
            return
        linked = kind in MEDIA and isinstance(data.get("url"), str)
        shown = {"type": "slack.link", "data": {"url": data["url"], "label": data.get("name")}} if linked else segment
        form = mrkdwn.name_of(shown)
        if form and _FIRST + len(self._named) <= _LAST:
            holder = _FIRST + len(self._named)
            self._named[holder] = form
            self._text += chr(holder)

    def texts(self) -> list[Text]:
        if not self._text.strip():
            return []
        made = map(self._shown, lumia.adapters.parts(self._text, LIMIT, measure=self._length))
        return [Text(text) for text in made if text.strip()]

    def _length(self, text: str) -> int:
        return len(self._shown(text))

    def _shown(self, text: str) -> str:
        return (from_markdown(text) if self._markdown else mrkdwn.escape(text)).translate(self._named)


def _without_holders(text: str) -> str:
    if all(ord(char) < _FIRST for char in text):
        return text
    return "".join(char if ord(char) < _FIRST else "\ufffd" for char in text)


def only_text(pieces: Sequence[Piece]) -> str:
    """Return the one text that an edit may hold; raises `lumia.errors.RejectedError` when there is more."""
    if len(pieces) == 1 and isinstance(pieces[0], Text):
        return pieces[0].text
    raise lumia.errors.RejectedError(
        f"an edit is one text of at most {LIMIT} characters; send the rest as a new message"
    )
