"""The plain responder: the chat's recent lines, one model call, one reply.

The model call goes through the effect ledger, so a retry of the step costs nothing. History, the time of the send and
the reply itself are buffered and commit together; a step that fails for good leaves the chat as it was and tells it
nothing.
"""

from __future__ import annotations

import hashlib
from typing import Any

import lumia

from . import history, prompt, remembering
from .history import Line
from .message import Message, clean, cut
from .settings import Settings

LAST_SEND = "last_send"
"""Store key, scoped to the chat: when the bot last sent something there (seconds since the epoch)."""
_LAST_SEND_KEPT = 86400.0


def listen(message: Message, config: Any) -> None:
    """Add a line that is not answered to the chat's history."""
    line = history.line_of(message, lumia.system.now(), config.max_text_chars)
    history.remember(message.scope, line, keep=config.history_lines)


def answer(message: Message, settings: Settings, config: Any) -> None:
    """Ask the model, send its reply to where the message came from, and pass the message on.

    Raises `lumia.errors.ModelError` when no model of the role answers: the step is tried again, later a dead letter.
    """
    to, now = destination(message), lumia.system.now()
    said = history.line_of(message, now, config.max_text_chars)
    text = reply_to(message, said, settings, config)
    if not text:
        history.remember(message.scope, said, keep=config.history_lines)
        lumia.utils.stop("the model returned no text")
        return
    spoken = Line("bot", message.account, bot_name(), text, now)
    history.remember(message.scope, said, spoken, keep=config.history_lines)
    send(to, message, text)
    lumia.store.set(LAST_SEND, now, scope=message.scope, ttl=_LAST_SEND_KEPT)
    lumia.utils.next()


def reply_to(message: Message, said: Line, settings: Settings, config: Any) -> str:
    """Return the model's reply to the line `said` after the chat's recent lines and what the memory gives of older
    ones; notes model, cost and what was recalled."""
    name = bot_name()
    recent = history.recent(message.scope, config.history_lines)
    lines = [*recent, said]
    found = remembering.look_up(message, said, recent, prompt.speakers(lines, name), config)
    if found.notes:
        lumia.annotate(**found.notes)
    reply = lumia.models.chat(
        "main",
        [*prompt.told(found.texts), *prompt.messages(lines, name, private=message.private)],
        system=prompt.system(settings.persona, name, private=message.private),
        key="reply",
        plugin_override=config.main_model,
    )
    tokens = {"tokens_in": reply.usage.input_tokens, "tokens_out": reply.usage.output_tokens}
    lumia.annotate(model=reply.model, cost=reply.cost, **tokens)
    return cut(prompt.presentable(clean(reply.text), name), config.max_reply_chars)


def destination(message: Message) -> str:
    """Return the event id that sends to where `message` came from; raises `lumia.errors.PayloadError`."""
    if not isinstance(message.pid, int):
        raise lumia.errors.PayloadError(
            f"platform {message.platform!r} has no number, so nothing can be sent there; "
            "its adapter sets meta['pid'] (100 or more) on the Box of each message"
        )
    return lumia.payloads.destination(message.pid, message.platform, message.chat_kind, message.chat_id)


def send(to: str, message: Message, text: str) -> None:
    """Emit `text` as a reply to `message`, through the account that received it (DESIGN §10)."""
    content: dict[str, Any] = {"text": text}
    if message.message_id is not None:
        content["reply_to"] = message.message_id
        content["idempotency_key"] = _idempotency_key(message)
    meta = {"account": message.account, **({"thread": message.thread} if message.thread else {})}
    lumia.event.start(id=to, content=lumia.Box.any(content, meta=meta))


def bot_name() -> str:
    """Return what the bot is called in `config/lumia.toml`."""
    return str(lumia.config.get("lumia").bot.name)


def _idempotency_key(message: Message) -> str:
    named = f"{message.scope}:{message.message_id}".encode(errors="replace")
    return f"heartflow:{hashlib.sha256(named).hexdigest()[:32]}"
