"""Events as `msg` payloads (DESIGN §10), as events of Lumia's, or as nothing. Source: satori.chat, Events, Message."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import lumia

from . import markup, segments
from .accounts import NAME, Login, Server

CREATED = "message-created"
LOGINS = ("login-added", "login-removed", "login-updated")
DIRECT = 1
_TYPE = re.compile(r"[a-z0-9_.]{1,64}")
_MOST_ADDRESS = 4000
_TOLD = ("kind", "name", "blob", "size", "media_type", "error")
Json = Mapping[str, Any]


def part(value: Json, key: str) -> Json:
    """Return an object inside of another, {} where there is none: most fields of Satori are optional or null."""
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def identifier(value: Any) -> str:
    """Return an id as text; ids are strings, and numbers with some servers."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def login_of(event: Json) -> Login | None:
    """Return whose event it is, None where it doesn't say; servers before `login` said `platform` and `self_id`."""
    login = part(event, "login")
    platform = login.get("platform") or event.get("platform")
    self_id = part(login, "user").get("id") or login.get("self_id") or event.get("self_id")
    if isinstance(platform, str) and platform and identifier(self_id):
        return Login(platform, identifier(self_id))
    return None


def ignored(event: Json, login: Login, others: Collection[Login] = ()) -> str:
    """Return why a created message is no talk of a person's, "" when it is. others: logins that are bots of ours."""
    user = author(event)
    id = identifier(user.get("id"))
    if id == login.self_id or Login(login.platform, id) in others:
        return "from the bot itself"
    return "from a bot" if user.get("is_bot") is True else ""


def author(event: Json) -> Json:
    """Return the user who wrote a message."""
    message = part(event, "message")
    for origin in (part(event, "user"), part(part(event, "member"), "user"), part(message, "user")):
        if origin:
            return origin
    return {}


def chat_of(event: Json) -> dict[str, Any] | None:
    """Return the chat: a channel of type 1 is private. None where the event names no channel."""
    channel = part(event, "channel") or part(part(event, "message"), "channel")
    id = identifier(channel.get("id"))
    if not id:
        return None
    name = channel.get("name") or part(event, "guild").get("name")
    named = {"name": name} if isinstance(name, str) and name else {}
    return {"kind": "private" if channel.get("type") == DIRECT else "group", "id": id, **named}


def message_id(event: Json) -> str:
    """Return a message's id; one that has none is told by its content."""
    return identifier(part(event, "message").get("id")) or f"x{_digest(event)}"


def reading(event: Json) -> segments.Reading:
    """Return what the message of an event says."""
    content = part(event, "message").get("content")
    return segments.read(content if isinstance(content, str) else "")


def quoted_author(event: Json, found: segments.Reading) -> str:
    """Return who wrote the message that this one answers, "" where the server doesn't say."""
    quote = part(part(event, "message"), "quote")
    told = identifier((part(quote, "user") or part(part(quote, "member"), "user")).get("id"))
    if told or found.quoted is None:
        return told
    inside = (one for one in markup.walk(found.quoted.children) if one.name in ("author", "user"))
    return next((one.get("id") for one in inside if one.get("id")), "")


def replied(event: Json, found: segments.Reading) -> str:
    """Return the id of the message that this one answers, "" for none."""
    inline = found.quoted.get("id") if found.quoted is not None else ""
    return inline or identifier(part(part(event, "message"), "quote").get("id"))


def message(
    event: Json, server: Server, login: Login, found: segments.Reading, media: Sequence[Json], *, answers_bot: bool
) -> dict[str, Any]:
    """Return the `msg` payload of a created message; raises `lumia.errors.PayloadError` when it can't be one.

    found: what `reading` gave. media: its files as `msg` has them. answers_bot: it answers one of the bot's own.
    """
    chat = chat_of(event)
    if chat is None:
        raise lumia.errors.PayloadError("a message of Satori names no channel that it was said in")
    answered = replied(event, found)
    parts = found.segments
    if answered and found.quoted is None:
        parts = [{"type": "reply", "data": {"id": answered}}, *parts]
    mentions = list(segments.mentions(parts))
    named = any(one["id"] == login.self_id for one in mentions)
    return lumia.payloads.message(
        platform=NAME,
        account=server.account(login),
        chat=chat,
        sender=_sender(event),
        message_id=message_id(event),
        text=segments.text_of(parts),
        segments=parts,
        mentions=mentions,
        mentions_bot=chat["kind"] == "private" or named or answers_bot,
        media=list(media),
        time=moment(event),
        **({"reply_to": answered} if answered else {}),
    )


def _sender(event: Json) -> dict[str, str]:
    user, member = author(event), part(event, "member")
    name, card = user.get("nick") or user.get("name") or member.get("name"), member.get("nick")
    named = {"name": name, "card": card}
    return {
        "id": identifier(user.get("id")),
        **{key: one for key, one in named.items() if isinstance(one, str) and one},
    }


def moment(event: Json) -> float:
    """Return when it happened, in seconds since 1970; Satori's timestamps are milliseconds."""
    for told in (part(event, "message").get("created_at"), event.get("timestamp")):
        if isinstance(told, int | float) and not isinstance(told, bool) and 0 < told < 10**14:
            return told / 1000 if told > 10**11 else float(told)
    return lumia.system.now()


def meta(event: Json, login: Login) -> dict[str, Any]:
    """Return what of an event has no place in `msg`, for the Box's meta under "satori"."""
    guild = part(event, "guild")
    about = {"platform": login.platform, "self_id": login.self_id, "guild": identifier(guild.get("id"))}
    return {NAME: {key: value for key, value in about.items() if value}}


def file(item: Json, proxied: Sequence[str]) -> dict[str, Any]:
    """Return a file of a message as `msg` has it. proxied: beginnings of addresses that only the server can fetch.

    `ref` is what the server is asked for: an internal address, or `proxy:` and an ordinary one.
    """
    source = str(item["source"])
    made = {key: value for key, value in item.items() if key in _TOLD}
    if "blob" in made or "error" in made:
        return made
    if len(source) > _MOST_ADDRESS:
        return {**made, "error": "its address is too long"}
    if source.startswith(("internal:", "upload:")):
        return {**made, "ref": source}
    if source.startswith(("https://", "http://")):
        behind = any(prefix and source.startswith(prefix) for prefix in proxied)
        return {**made, "url": source, "ref": f"proxy:{source}" if behind else source}
    return {**made, "error": "the Satori server gave an address that only it can read"}


def event_id(event: Json) -> str:
    """Return the id under which an event is one of Lumia's, "" for none: `satori.guild_member_added`."""
    type = str(event.get("type", "")).replace("-", "_").replace("/", ".")
    return f"{NAME}.{type}" if _TYPE.fullmatch(type) else ""


def fingerprint(event: Json) -> str:
    """Return by what an event that is no message is known when it comes again."""
    return f"{event.get('type')}:{_digest({key: value for key, value in event.items() if key not in ('sn', 'id')})}"


def _digest(value: Json) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:31]
