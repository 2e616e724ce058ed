"""A chat of the console: its names in the bot, how a message enters it and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lumia

from . import files

NAME = "console"
PLATFORM = "console"
ACCOUNT = "console"
_CHAT, _CHATS, _RUNS = "chat", "chats", "runs"


@dataclass(frozen=True)
class Chat:
    """A group, or the private chat of one person. kind: group or private."""

    kind: str
    id: str

    @property
    def scope(self) -> str:
        """The chat's scope in the store."""
        return f"{self.kind}-{lumia.payloads.escape_id(self.id)}"

    @property
    def lane(self) -> str:
        """The key under which the chat's messages are served in order."""
        return lumia.payloads.lane(PLATFORM, ACCOUNT, self.kind, self.id)

    def as_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"kind": self.kind, "id": self.id}


def chat_of_lane(key: str) -> Chat | None:
    """Return the chat whose lane `key` is, or None when it is no chat of the console."""
    prefix = f"{PLATFORM}:{ACCOUNT}:"
    kind, _, escaped = key.removeprefix(prefix).partition("-")
    return Chat(kind, lumia.payloads.unescape_id(escaped)) if key.startswith(prefix) and escaped else None


def submit(chat: Chat, sender: str, text: str, message_id: str, media: Sequence[dict[str, Any]] = ()) -> str:
    """Accept a message and return its run id; the same message id again gives the same run.

    media: items of the `msg` payload, with their blobs. Raises `lumia.errors.PayloadError` for what is no message,
    `BackendUnavailableError` when the broker is away.
    """
    msg = compose(chat, sender, text, message_id, media)
    run_id = lumia.adapters.accept(NAME, msg, raw=msg)
    store().append(_RUNS, [message_id, run_id], scope=chat.scope, keep=settings().history)
    return run_id


def compose(
    chat: Chat, sender: str, text: str, message_id: str, media: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the `msg` payload of a typed message."""
    limit = settings().max_text
    if not text.strip() and not media:
        raise lumia.errors.PayloadError("text: a message has at least one character that is not a space")
    if len(text) > limit:
        raise lumia.errors.PayloadError(f"text: {len(text)} characters, the console accepts {limit}; send it in parts")
    name = bot_name()
    mentioned = lumia.payloads.names_bot(text, name)
    return lumia.payloads.message(
        platform=PLATFORM,
        account=ACCOUNT,
        chat=chat.as_dict(),
        sender={"id": sender, "name": sender, "role": "owner"},
        text=text,
        message_id=message_id,
        segments=_segments(text, media),
        media=list(media),
        mentions=[{"id": ACCOUNT, "name": name}] if mentioned else [],
        mentions_bot=mentioned or chat.kind == "private",
    )


def _segments(text: str, media: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    said = [{"type": "text", "data": {"text": lumia.payloads.clean_text(text)}}] if text.strip() else []
    return [*said, *({"type": item["kind"], "data": {"media": n}} for n, item in enumerate(media))]


def keep_question(msg: dict[str, Any]) -> None:
    """Keep an accepted message in its chat's history; called by a handler, so it happens once."""
    chat = Chat(msg["chat"]["kind"], msg["chat"]["id"])
    item = {"id": msg["message_id"], "from": "user", "sender": msg["sender"]["name"]}
    told = {**item, "text": msg["text"], "time": msg["time"], **_files(files.of_question(msg))}
    lumia.store.append(_CHAT, told, scope=chat.scope, keep=settings().history)
    if chat.scope not in lumia.store.fields(_CHATS):
        lumia.store.put(_CHATS, chat.scope, chat.as_dict())


def keep_reply(chat: Chat, content: Any, run_id: str) -> None:
    """Keep what the bot said; run_id: the root of the run tree that said it."""
    media, text = files.of_reply(content)
    item = {
        "id": lumia.system.new_id(),
        "from": "bot",
        "sender": bot_name(),
        "text": text,
        "time": lumia.system.now(),
        "run_id": run_id,
        **_files(media),
    }
    reply_to = content.get("reply_to") if isinstance(content, dict) else None
    if isinstance(reply_to, str):
        item["reply_to"] = reply_to
    lumia.store.append(_CHAT, item, scope=chat.scope, keep=settings().history)


def _files(media: list[dict[str, Any]]) -> dict[str, Any]:
    return {"media": media} if media else {}


def history(chat: Chat, last: int | None = None) -> list[dict[str, Any]]:
    """Return what was said, oldest first; each item has the run that it started or came from, where it is known."""
    started = dict(store().items(_RUNS, scope=chat.scope))
    items = store().items(_CHAT, scope=chat.scope, last=last)
    told = [{**item, "run_id": item.get("run_id") or started.get(item["id"], "")} for item in items]
    return sorted(told, key=lambda item: float(item["time"]))


def chats() -> list[Chat]:
    """Return every chat in which something was said."""
    return [Chat(item["kind"], item["id"]) for _, item in sorted(store().fields(_CHATS).items())]


def stages() -> list[str]:
    """Return the handlers a message will pass, in order."""
    return [step.handler for step in lumia.runtime.current().routes.plan("pipe", "msg").steps]


def store() -> Any:
    """Return the console's store, also outside of handlers."""
    return lumia.store.of(NAME)


def settings() -> Any:
    """Return the console's configuration."""
    return lumia.config.get(NAME)


def bot_name() -> str:
    """Return what the bot is called in config/lumia.toml."""
    return str(lumia.config.get("lumia").bot.name)
