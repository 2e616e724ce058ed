"""Heartflow, the plugin that answers: L0 of spec §12.2, then one plain responder on the role `main`.

Two stages of the pipeline `msg`: `filter_message` (priv 200) decides with rules, `respond` (priv 10) asks the model and
sends. Everything each of them keeps in `lumia.store` is scoped to the chat and commits with its step.
"""

from __future__ import annotations

from typing import Any

import lumia

from . import responder
from .filter import Facts, Limits, decide
from .message import Message, read
from .settings import LastGood, Settings, parse, resolve

NAME = "heartflow"

_overrides = LastGood()


def on_load() -> None:
    """Refuse to start with override tables that would be ignored (raises `ConfigValueError`)."""
    parse(lumia.config.get(NAME).overrides)


def settings_for(message: Message) -> Settings:
    """Return the settings that hold for `message` now."""
    config = lumia.config.get(NAME)
    return resolve(config, _overrides.of(config.overrides), message)


@lumia.pipe.on("msg", priv=200)
def filter_message(content: lumia.Box[dict[str, Any]]) -> None:
    """L0: drop what no model needs to see, each drop with its reason; mark what must be answered (spec §12.2)."""
    message = read(content.into(), content.meta)
    limits = settings_for(message).limits
    facts = facts_of(message, limits)
    verdict = decide(facts, limits)
    if verdict.stop:
        lumia.utils.stop(verdict.stop)
        return
    if limits.rate_limit > 0:
        count(message, facts.arrived, limits.rate_limit, limits.rate_window)
    if verdict.force_engage:
        content.meta["force_engage"] = True
    lumia.utils.next()


@lumia.pipe.on("msg", priv=10)
def respond(content: lumia.Box[dict[str, Any]]) -> None:
    """Answer with the role `main`, or note the line and stay silent when the bot isn't meant."""
    message = read(content.into(), content.meta)
    settings = settings_for(message)
    if settings.answers(message, engaged=bool(content.meta.get("force_engage"))):
        responder.answer(message, settings, lumia.config.get(NAME))
    else:
        responder.listen(message, lumia.config.get(NAME))
        lumia.utils.stop("not addressed to the bot")


def facts_of(message: Message, limits: Limits) -> Facts:
    """Gather what the rules may know; reads from the store only what a rule in force looks at."""
    now, scope = lumia.system.now(), message.scope
    last_send = lumia.store.get(responder.LAST_SEND, scope=scope) if limits.min_reply_interval > 0 else None
    return Facts(
        now=now,
        arrived=min(message.sent or now, now),
        sender=frozenset(message.keys(message.sender_id)),
        kinds=message.kinds,
        addressed=message.addressed,
        last_send=float(last_send) if last_send is not None else None,
        counted=tuple(lumia.store.items(_rate_key(message), scope=scope)) if limits.rate_limit > 0 else (),
    )


def count(message: Message, arrived: float, keep: int, window: float) -> None:
    """Count a message that passed against its sender's rate; forgotten by itself after the window."""
    lumia.store.append(_rate_key(message), arrived, scope=message.scope, keep=keep, ttl=window)


def _rate_key(message: Message) -> str:
    return f"rate:{message.sender_id}"
