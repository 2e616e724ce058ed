"""Who the bot is in a chat: what the service `persona` says, unless the settings of heartflow say otherwise."""

from __future__ import annotations

from typing import Any

import lumia

from .message import Message
from .settings import Settings

SERVICE = "persona"


def prompt_for(message: Message, settings: Settings) -> str:
    """Return the persona's text for a system prompt; `{name}` stands for the bot's name."""
    if settings.persona:
        return settings.persona
    service = _service()
    return str(service.of(message.platform, message.chat_kind, message.chat_id).prompt) if service else DEFAULT


def hint_for(message: Message, settings: Settings) -> str:
    """Return one line on who the bot is, for perception."""
    if settings.persona:
        return settings.persona.strip().split("\n", 1)[0][:200]
    service = _service()
    return str(service.hint(message.platform, message.chat_kind, message.chat_id)) if service is not None else ""


DEFAULT = "You are {name}, a friendly member of this chat. You answer briefly, in the language you are spoken to."


def _service() -> Any:
    return next(iter(lumia.services.all(SERVICE).values()), None)
