"""Discord's text markup (<@id>, <#id>, <:name:id>, …) and segments, both ways.

Sources: developers/reference.mdx (message formatting), resources/message.mdx (mentions, allowed mentions).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lumia

Segment = dict[str, Any]

_ID = r"[0-9]{1,20}"
_MARK = re.compile(
    rf"<@!?(?P<user>{_ID})>|<@&(?P<role>{_ID})>|<#(?P<channel>{_ID})>"
    rf"|<(?P<animated>a?):(?P<emoji>[A-Za-z0-9_~]{{1,32}}):(?P<emoji_id>{_ID})>"
    r"|<t:(?P<time>-?[0-9]{1,13})(?::(?P<style>[tTdDfFRsS]))?>"
    rf"|</(?P<command>[^:<>/\n]{{1,100}}):(?P<command_id>{_ID})>"
    r"|@(?P<all>everyone|here)"
)
_IS_ID = re.compile(_ID)


@dataclass(frozen=True)
class Names:
    """Who and what a message names, by id. everyone: Discord says that @everyone or @here did ping.

    users: those that the message mentions, and no others; roles, channels: all that are known.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    everyone: bool = False


def segments(content: str, names: Names) -> list[Segment]:
    """Return a message's content as segments; what looks like a mention but mentions nobody stays text."""
    found: list[Segment] = []
    at = 0
    for match in _MARK.finditer(content):
        segment = _segment(match, names)
        if segment is not None:
            _add_text(found, content[at : match.start()])
            found.append(segment)
            at = match.end()
    _add_text(found, content[at:])
    return found


def _add_text(found: list[Segment], text: str) -> None:
    if text:
        found.append({"type": "text", "data": {"text": text}})


def _segment(match: re.Match[str], names: Names) -> Segment | None:
    kind = match.lastgroup
    if kind == "user":
        return _named("mention", match["user"], names.users)
    if kind == "role":
        return _named("discord.role", match["role"], names.roles)
    if kind == "channel":
        data = {"id": match["channel"]}
        name = names.channels.get(match["channel"])
        return {"type": "discord.channel", "data": {**data, "name": name} if name else data}
    if kind == "emoji_id":
        moving = {"animated": True} if match["animated"] else {}
        return {"type": "emoji", "data": {"id": match["emoji_id"], "name": match["emoji"], **moving}}
    if kind == "command_id":
        return {"type": "discord.command", "data": {"id": match["command_id"], "name": match["command"]}}
    if kind == "all":
        here = {"name": "here"} if match["all"] == "here" else {}
        return {"type": "mention_all", "data": here} if names.everyone else None
    style = {"style": match["style"]} if match["style"] else {}
    return {"type": "discord.time", "data": {"unix": match["time"], **style}}


def _named(type: str, id: str, known: Mapping[str, str]) -> Segment | None:
    if id not in known:
        return None
    return {"type": type, "data": {"id": id, "name": known[id]} if known[id] else {"id": id}}


def text_of(parts: Sequence[Segment]) -> str:
    """Return segments as a person reads them: @names, #channels, :emoji:, [image]."""
    text = ""
    for part in parts:
        read = _read(part["type"], part["data"], part)
        apart = read.startswith("[") and part["type"] != "text" and text and not text[-1].isspace()
        text += f" {read}" if apart else read
    return text


def _read(type: str, data: Mapping[str, Any], whole: Segment) -> str:
    if type == "mention_all":
        return f"@{data.get('name', 'everyone')}"
    if type == "discord.role":
        return f"@{data.get('name') or data['id']}"
    if type == "discord.channel":
        return f"#{data.get('name') or data['id']}"
    if type == "emoji":
        return f":{data.get('name') or data.get('id', '')}:" if _is_id(data.get("id")) else str(data.get("id", ""))
    if type == "discord.command":
        return f"/{data['name']}"
    if type == "discord.time":
        return _moment(data["unix"])
    if type == "discord.sticker":
        return f"[sticker: {data.get('name', '')}]"
    if type == "discord.poll":
        return f"[poll: {data.get('question', '')}]"
    if type == "discord.forward":
        return "[forwarded] "
    return lumia.payloads.text_of({"segments": [whole]})


def _moment(unix: str) -> str:
    try:
        return dt.datetime.fromtimestamp(int(unix), dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return f"<t:{unix}>"


def _is_id(value: object) -> bool:
    return isinstance(value, str) and _IS_ID.fullmatch(value) is not None


@dataclass
class Allowed:
    """Who may be pinged by a message: those its segments name, never those a model's text happens to name."""

    users: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    everyone: bool = False

    def as_dict(self, *, replied_user: bool = False) -> dict[str, Any]:
        """Return Discord's `allowed_mentions`."""
        named = {key: ids[:100] for key, ids in (("users", self.users), ("roles", self.roles)) if ids}
        return {"parse": ["everyone"] if self.everyone else [], **named, "replied_user": replied_user}


def content(part: Mapping[str, Any], allowed: Allowed) -> str | None:
    """Return one segment as markup and note whom it pings; None for what is no text (media, replies)."""
    type, data = str(part.get("type", "")), part.get("data") or {}
    id = str(data.get("id", ""))
    if type == "text":
        return str(data.get("text", ""))
    if type == "mention":
        if not _is_id(id):
            return f"@{data.get('name') or id}"
        _once(allowed.users, id)
        return f"<@{id}>"
    if type == "mention_all":
        allowed.everyone = True
        return f"@{data.get('name') or 'everyone'}"
    if type == "discord.role" and _is_id(id):
        _once(allowed.roles, id)
        return f"<@&{id}>"
    if type == "discord.channel" and _is_id(id):
        return f"<#{id}>"
    if type == "emoji":
        return f"<{'a' if data.get('animated') else ''}:{data.get('name') or '_'}:{id}>" if _is_id(id) else id
    if type == "discord.command" and _is_id(id):
        return f"</{data.get('name', '')}:{id}>"
    if type == "discord.time":
        return f"<t:{data.get('unix')}{':' + data['style'] if data.get('style') else ''}>"
    return None


def _once(known: list[str], id: str) -> None:
    if id not in known:
        known.append(id)
