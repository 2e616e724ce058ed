"""Chat commands: `/help /status /reset /stop /resume /model /persona /memory /why /sid`, permitted by role.

One stage of `msg` before heartflow's filter, so they work while the bot is paused, and cost no token. A command ends
the chain: neither it nor its answer goes into a prompt or the memory (`meta["command"]` marks the answer).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import lumia

from . import answers
from .asking import OFF, Asked, needed, read
from .wording import say

NAME = "chat-commands"
MINUTE = 60.0
MOST_CHARACTERS = 3000


class Commands:
    """The service `commands`: tells what this plugin answers, for those who take messages out of their turn."""

    def claims(self, payload: Any) -> bool:
        """Tell whether a `msg` payload is a command that gets its answer here, so that nobody else takes it."""
        return _asked(payload, {}, lumia.config.get(NAME)) is not None


def on_load() -> None:
    """Offer the service `commands`."""
    lumia.services.provide("commands", Commands())


@lumia.pipe.on("msg", priv=210)
def answer(content: lumia.Box[Any]) -> None:
    """Answer a command and end the chain; pass everything else on untouched."""
    config = lumia.config.get(NAME)
    asked = _asked(content.into(), content.meta, config)
    if asked is None:
        lumia.utils.next()
        return
    lumia.annotate(command=asked.command.name, role=asked.role)
    lumia.utils.stop(_dropped(asked, content.into(), config) or _answered(asked, config))


def _asked(payload: Any, meta: Mapping[str, Any], config: Any) -> Asked | None:
    """Return the command in a payload, None for anything else and for one that is switched off."""
    asked = read(payload, meta, config)
    return asked if asked is not None and needed(asked.command.name, config) != OFF else None


def _dropped(asked: Asked, payload: Any, config: Any) -> str:
    """Return why a command gets no answer at all, "" when it gets one."""
    response = answers.service("response")
    if response is not None and not response.hears(payload):
        return f"not listened to: sender {asked.sender} is on the blacklist, or a bot"
    for key, limit in ((f"used:{asked.sender_id}", config.rate_limit), ("used", config.chat_rate_limit)):
        if int(lumia.store.get(key, 0, scope=asked.scope)) >= limit:
            return f"rate limit: {limit} commands in {MINUTE:g} s"
    for key in (f"used:{asked.sender_id}", "used"):
        lumia.store.incr(key, scope=asked.scope, ttl=MINUTE)
    return ""


def _answered(asked: Asked, config: Any) -> str:
    """Answer a command, or say once a minute that it isn't allowed; return the reason for the trace."""
    name, role = asked.command.name, needed(asked.command.name, config)
    asking = answers.Asking(asked, config, answers.choose_language(asked, config))
    if asked.may(role):
        _reply(asked, answers.answer(asking))
        return f"answered a command: {name}"
    if lumia.store.get("refused", scope=asked.scope) is None:
        lumia.store.set("refused", 1, scope=asked.scope, ttl=MINUTE)
        _reply(asked, answers.refusal(asking, role))
    return f"command not allowed: {name} needs {role}"


def _reply(asked: Asked, text: str) -> None:
    """Send `text` to where the command came from, through the account that received it."""
    shown = text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
    content: dict[str, Any] = {"text": shown}
    if asked.message_id:
        named = f"{asked.scope}:{asked.message_id}".encode(errors="replace")
        content["reply_to"] = asked.message_id
        content["idempotency_key"] = f"chat-commands:{hashlib.sha256(named).hexdigest()[:32]}"
    meta = {"account": asked.account, "command": asked.command.name}
    if asked.thread:
        meta["thread"] = asked.thread
    chat = {"platform": asked.platform, "chat": {"kind": asked.kind, "id": asked.chat_id}}
    lumia.event.start(lumia.payloads.reply_to(chat, pid=asked.pid), lumia.Box.any(content, meta=meta))


@lumia.checks.check("chat commands")
def check() -> Iterator[lumia.checks.Finding]:
    """Tell `lumia doctor` of owners and admins that can be nobody."""
    config = lumia.config.get(NAME)
    for key in ("owners", "admins"):
        for entry in getattr(config, key):
            platform, colon, id = entry.partition(":")
            if not (platform and colon and id):
                yield lumia.checks.risk(
                    f"config/{NAME}.toml: {key} names {entry!r}, who is nobody",
                    f'write "platform:id", as {say("en", "help.sid")} shows it',
                )
    if not config.owners:
        yield lumia.checks.ok(f"no owners in config/{NAME}.toml; /sid in a chat shows the ids to name")
