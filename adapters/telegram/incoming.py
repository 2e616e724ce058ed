"""An update as what Lumia makes of it: a message, an event, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lumia

from . import content, outgoing, segments
from .accounts import NAME, UPDATES
from .segments import Me

TALK = ("message", "channel_post")
EDITED = ("edited_message", "edited_channel_post")


@dataclass(frozen=True)
class Talk:
    """Somebody said something: pipeline `msg`."""

    msg: dict[str, Any]


@dataclass(frozen=True)
class Happening:
    """Something else: event `telegram.<what>`. lane: the chat's, or the account's where there is no chat."""

    id: str
    content: dict[str, Any]
    lane: str
    dedup: str


def read(update: Any, account: str, me: Me) -> Talk | Happening | None:
    """Return what an update means to bot `me`; None for what it must not hear (itself, other bots) or doesn't know.

    Raises `lumia.errors.PayloadError` for an update that isn't built as Telegram builds them.
    """
    if not isinstance(update, Mapping) or type(update.get("update_id")) is not int:
        raise lumia.errors.PayloadError("an update is an object with a whole number update_id")
    kind = next((key for key in UPDATES if isinstance(update.get(key), Mapping)), "")
    if not kind:
        return None
    body = update[kind]
    if kind in TALK + EDITED:
        return _message(update, kind, body, account, me)
    return _happening(update, kind, account, chat_in(body), {kind: dict(body)})


def _message(
    update: Mapping[str, Any], kind: str, body: Mapping[str, Any], account: str, me: Me
) -> Talk | Happening | None:
    if not isinstance(body.get("chat"), Mapping) or type(body.get("message_id")) is not int:
        raise lumia.errors.PayloadError(f"{kind}: a message has a chat and a whole number message_id")
    service = content.service_of(body)
    if service and kind in TALK:
        return _happening(update, "service", account, body["chat"], {"service": service, "message": dict(body)})
    if _from_bot(body, me) or not content.says_something(body):
        return None
    msg = message(body, account, me)
    if kind in TALK:
        return Talk(msg)
    return _happening(update, kind, account, body["chat"], {"msg": msg, "message": dict(body)})


def _happening(
    update: Mapping[str, Any], kind: str, account: str, chat: Mapping[str, Any] | None, what: dict[str, Any]
) -> Happening:
    place = _chat(chat) if chat is not None and type(chat.get("id")) is int else None
    lane = lumia.payloads.lane(NAME, account, place["kind"], place["id"]) if place else f"{NAME}:{account}"
    value = {"account": account, "update_id": update["update_id"], **({"chat": place} if place else {}), **what}
    return Happening(f"{NAME}.{kind}", value, lane, f"{NAME}:{account}:update:{update['update_id']}")


def chat_in(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the chat that an update's part is about, None for none."""
    holder = body.get("message") if isinstance(body.get("message"), Mapping) else body
    chat = holder.get("chat") if isinstance(holder, Mapping) else None
    return chat if isinstance(chat, Mapping) else None


def _from_bot(body: Mapping[str, Any], me: Me) -> bool:
    """Tell whether a bot wrote it; who writes as a chat has a stand-in user that is a bot."""
    sender = body.get("from")
    if not isinstance(sender, Mapping):
        return False
    return str(sender.get("id")) == me.id or (bool(sender.get("is_bot")) and not body.get("sender_chat"))


def message(body: Mapping[str, Any], account: str, me: Me) -> dict[str, Any]:
    """Return the `msg` payload of a Message; raises `lumia.errors.PayloadError`."""
    chat, answered = _chat(body["chat"]), _answered(body)
    text, entities = _text(body)
    media = content.media_of(body)
    said = segments.read(lumia.payloads.clean_text(text), entities, me)
    files = [{"type": item["kind"], "data": {"media": index}} for index, item in enumerate(media)]
    found = [*_forwarded(body), *_reply(body, answered), *files, *content.others_of(body), *said]
    for_bot = (
        chat["kind"] == "private"
        or segments.names(said, me)
        or (_sent_by(answered, me) and not segments.commands_another(text, entities, me))
    )
    return lumia.payloads.message(
        platform=NAME,
        account=account,
        chat=chat,
        sender=_sender(body),
        text=content.spoken(found),
        message_id=message_id(body),
        segments=found,
        mentions=segments.mentions(said),
        mentions_bot=for_bot,
        media=media,
        time=float(body["date"]) if type(body.get("date")) is int and body["date"] >= 0 else lumia.system.now(),
        **({"thread": thread} if (thread := thread_of(body)) else {}),
        **({"reply_to": message_id(answered)} if answered else {}),
    )


def message_id(body: Mapping[str, Any]) -> str:
    """Return a message's id, unique in its chat; message_id doesn't identify ephemeral ones."""
    ephemeral = body.get("ephemeral_message_id")
    return str(body["message_id"]) if ephemeral is None else f"ephemeral-{ephemeral}"


def thread_of(body: Mapping[str, Any]) -> str:
    """Return the topic's id, `direct-<id>` for one of a channel's direct messages, or "".

    Plain reply threads have a message_thread_id too, also those in a forum's General topic: nothing can be sent to it.
    """
    direct = body.get("direct_messages_topic")
    if isinstance(direct, Mapping) and type(direct.get("topic_id")) is int:
        return f"{outgoing.DIRECT}{direct['topic_id']}"
    found = body.get("message_thread_id")
    return str(found) if body.get("is_topic_message") and type(found) is int and found > 1 else ""


def _chat(chat: Mapping[str, Any]) -> dict[str, Any]:
    names = [chat.get("title")] if chat.get("title") else [chat.get("first_name"), chat.get("last_name")]
    name = " ".join(str(part) for part in names if part)
    kind = "private" if chat.get("type") == "private" else "group"
    return {"kind": kind, "id": str(chat.get("id")), **({"name": name} if name else {})}


def _sender(body: Mapping[str, Any]) -> dict[str, Any]:
    shown, user = body.get("sender_chat"), body.get("from")
    signed = {"card": body["author_signature"]} if isinstance(body.get("author_signature"), str) else {}
    if isinstance(shown, Mapping):
        anonymous = shown.get("id") == body["chat"].get("id") and body["chat"].get("type") != "channel"
        role = {"role": "admin"} if anonymous else {}
        return {"id": str(shown.get("id")), "name": str(shown.get("title") or shown.get("first_name") or ""),
                **signed, **role}  # fmt: skip
    if not isinstance(user, Mapping):
        place = _chat(body["chat"])  # a channel's post without a name
        return {"id": place["id"], "name": place.get("name", ""), **signed}
    name = " ".join(str(user[key]) for key in ("first_name", "last_name") if user.get(key))
    return {"id": str(user.get("id")), "name": name or str(user.get("username") or "")}


def _text(body: Mapping[str, Any]) -> tuple[str, list[Any]]:
    key = "text" if isinstance(body.get("text"), str) else "caption"
    entities = body.get("entities" if key == "text" else "caption_entities")
    text = body.get(key)
    return (text if isinstance(text, str) else ""), entities if isinstance(entities, list) else []


def _answered(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the message this one answers. In a topic everything refers to the topic's first message: no answer."""
    found = body.get("reply_to_message")
    if not isinstance(found, Mapping) or "forum_topic_created" in found or type(found.get("message_id")) is not int:
        return None
    return found


def _sent_by(answered: Mapping[str, Any] | None, me: Me) -> bool:
    sender = answered.get("from") if answered else None
    return isinstance(sender, Mapping) and str(sender.get("id")) == me.id


def _reply(body: Mapping[str, Any], answered: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    quote = body.get("quote")
    quoted = {"quote": quote["text"]} if isinstance(quote, Mapping) and isinstance(quote.get("text"), str) else {}
    if answered:
        return [{"type": "reply", "data": {"id": message_id(answered), **quoted}}]
    elsewhere = body.get("external_reply")
    return [{"type": f"{NAME}.external_reply", "data": {**elsewhere, **quoted}}] if isinstance(elsewhere, dict) else []


def _forwarded(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    origin = body.get("forward_origin")
    return [{"type": f"{NAME}.forward_origin", "data": dict(origin)}] if isinstance(origin, Mapping) else []
