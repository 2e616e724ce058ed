"""A message to be sent, as OneBot's array form, and what an answer says about it. Never a string: user text in a
string could hold CQ codes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import lumia

from . import segments
from .errors import UnknownOutcomeError
from .frames import Answer, identifier, whole
from .segments import Segment

ALONE = ("record", "video", "file")
"""What QQ sends only as a message of its own."""
_SENDS = {"group": ("send_group_msg", "group_id"), "private": ("send_private_msg", "user_id")}
_KEPT = ("name", "summary", "sub_type", "type", "magic", "thumb")
Split = Callable[[str, int], Sequence[str]]


def messages(
    parts: Iterable[Mapping[str, Any]], reply_to: str | None, limit: int, split: Split
) -> list[list[dict[str, Any]]]:
    """Return the messages that a send becomes, in array form; files are still references (see `filled`).

    limit: characters of text a message holds at most; split: cuts a text into pieces of at most that many. The first
    message quotes `reply_to`. Raises `lumia.errors.RejectedError` when nothing is left that OneBot can send.
    """
    found = [message for message in _cut(_sendable(parts), limit, split) if _says(message)]
    if not found:
        raise lumia.errors.RejectedError("nothing of this message can be sent by OneBot")
    quoted = identifier(reply_to)
    if whole(quoted) is not None and not any(segment["type"] == "reply" for segment in found[0]):
        found[0].insert(0, {"type": "reply", "data": {"id": quoted}})
    return found


def _says(message: Sequence[Segment]) -> bool:
    said = [segment for segment in message if segment["type"] != "reply"]
    return any(segment["type"] != "text" or segment["data"]["text"] for segment in said)


def _sendable(parts: Iterable[Mapping[str, Any]]) -> Iterator[Segment]:
    for segment in segments.write(parts):
        data = segment["data"]
        if segment["type"] not in segments.MEDIA or any(data.get(key) for key in ("blob", "url", "file")):
            yield segment


def _cut(parts: Iterable[Segment], limit: int, split: Split) -> Iterator[list[Segment]]:
    message: list[Segment] = []
    room = limit
    for segment in parts:
        if segment["type"] in ALONE:
            yield message
            yield [segment]
            message, room = [], limit
            continue
        text = segment["data"]["text"] if segment["type"] == "text" else ""
        if len(text) > room and room < limit:
            yield message
            message, room = [], limit
        pieces = split(text, limit) if len(text) > limit else [text]
        for piece in pieces[:-1]:
            yield [*message, _text(piece)]
            message = []
        room = (limit if len(pieces) > 1 else room) - len(pieces[-1])
        message.append(_text(pieces[-1]) if text else segment)
    yield message


def _text(text: str) -> Segment:
    return {"type": "text", "data": {"text": text}}


def filled(message: Iterable[Segment], read: Callable[[Any], bytes]) -> list[Segment]:
    """Return a message with its files in it as base64: paths would be those of the OneBot side's machine.

    read: gives the bytes of a blob.
    """
    return [_filled(segment, read) if segment["type"] in segments.MEDIA else segment for segment in message]


def _filled(segment: Segment, read: Callable[[Any], bytes]) -> Segment:
    data = segment["data"]
    kept = {key: str(data[key]) for key in _KEPT if data.get(key) not in (None, "")}
    return {"type": segment["type"], "data": {"file": _file(data, read), **kept}}


def _file(data: Mapping[str, Any], read: Callable[[Any], bytes]) -> str:
    if not data.get("blob"):
        return str(data.get("url") or data["file"])
    return "base64://" + base64.b64encode(read(data["blob"])).decode()


def request(kind: str, chat: str, message: list[Segment], group: str = "") -> tuple[str, dict[str, Any]]:
    """Return the action and its parameters; group: where a temporary private chat came from."""
    action, target = _SENDS[kind]
    more = {"group_id": number(group)} if kind == "private" and group else {}
    return action, {target: number(chat), **more, "message": message}


def number(id: str) -> int | str:
    """Return an id as the number the standard wants, or as it is when it is none."""
    found = whole(id)
    return id if found is None else found


def message_id(answer: Answer) -> dict[str, str]:
    """Return the id of a message that was sent; raises what `judged` does."""
    data = judged(answer)
    found = identifier(data.get("message_id")) if isinstance(data, Mapping) else ""
    return {"message_id": found}


def judged(answer: Answer) -> Any:
    """Return the data of an action that was done.

    Raises `UnknownOutcomeError` when the peer only took note, said nothing that OneBot knows (a proxy's error), or gave
    up waiting for QQ (NapCat's 1200 with a time-out: such messages often did go out); `lumia.errors.UnreachableError`
    for a refused token, `RejectedError` for the rest.
    """
    if answer.ok:
        return answer.data
    if answer.deferred:
        raise UnknownOutcomeError("the OneBot side only took note of the action (async) and never tells the result")
    if answer.status not in ("ok", "failed"):
        raise UnknownOutcomeError(f"the answer is none of OneBot's ({answer})")
    if answer.refused_token:
        raise lumia.errors.UnreachableError(f"the OneBot side refuses the access token ({answer})")
    if "timeout" in answer.message.lower():
        raise UnknownOutcomeError(f"the OneBot side gave up waiting for QQ ({answer})")
    raise lumia.errors.RejectedError(f"the OneBot side could not do it ({answer})")


def signature(message: Any) -> list[tuple[str, str]]:
    """Return what two copies of a message have in common, whoever wrote down their segments: kinds, texts, mentions."""
    found: list[tuple[str, str]] = []
    for segment in segments.array(message):
        kind, data = segment["type"], segment["data"]
        said = {"text": data.get("text", ""), "at": identifier(data.get("qq")), "face": identifier(data.get("id"))}
        value = str(said.get(kind, ""))
        if kind == "text" and found and found[-1][0] == "text":
            found[-1] = ("text", found[-1][1] + value)
        elif kind != "reply":
            found.append((kind, value))
    return [(kind, " ".join(value.split())) for kind, value in found if kind != "text" or value.strip()]
