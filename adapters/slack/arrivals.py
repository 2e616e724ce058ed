"""What arrives, and what is known beforehand: the types that reading events, commands and clicks share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import mrkdwn

_TS = re.compile(r"\d{1,15}\.\d{1,9}")
Name = Callable[[str], str]
"""Gives the name of a user id, "" as long as nobody knows it."""


def _nameless(id: str) -> str:
    return ""


@dataclass(frozen=True)
class Context:
    """What is known beforehand. account: its name in the configuration. bot: the bot's user id, "" if not known."""

    account: str
    bot: str = ""
    name: Name = _nameless
    time: float = 0.0


@dataclass(frozen=True)
class Talk:
    """A message to accept. raw: what becomes `msg.slack`. response_url: where an answer may be posted, a secret."""

    msg: dict[str, Any]
    raw: dict[str, Any]
    response_url: str = field(default="", repr=False)


@dataclass(frozen=True)
class Told:
    """Something to tell as event `id`. answer_id: the message id under which `response_url` is kept."""

    id: str
    content: dict[str, Any]
    key: str
    dedup: str
    answer_id: str = ""
    response_url: str = field(default="", repr=False)


def is_ts(id: str) -> bool:
    """Tell whether a message id is Slack's, so that a thread can hang on it."""
    return _TS.fullmatch(id) is not None


def chat_of(channel: str, channel_type: str) -> dict[str, str]:
    """Return the chat of a channel; direct messages are private, groups of people are groups."""
    private = channel_type == "im" or channel.startswith("D")
    return {"kind": "private" if private else "group", "id": channel}


def with_names(segments: list[mrkdwn.Segment], name: Name) -> list[mrkdwn.Segment]:
    """Return segments with the names of those they mention, as far as they are known."""
    for segment in segments:
        data = segment["data"]
        if segment["type"] == "mention" and (known := data.get("label") or name(data["id"])):
            data["name"] = known
    return segments


def mentions_in(segments: list[mrkdwn.Segment]) -> list[dict[str, str]]:
    """Return who is mentioned, each once."""
    found = {part["data"]["id"]: part["data"].get("name", "") for part in segments if part["type"] == "mention"}
    return [{"id": id, "name": name} if name else {"id": id} for id, name in found.items()]
