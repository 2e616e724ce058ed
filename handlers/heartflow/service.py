"""The service `response`: what others may ask of the plugin that answers, and what a chat may change of it.

    response = lumia.services.get("response")
    response.pause("qq:10001:group:42", 3600, "qq:7")

`chat` is the scope text of a chat, `platform:account:kind:id`. In a step what is changed commits with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import lumia

from . import asking, budget, decisions, lines, state
from .decisions import Decision
from .message import read
from .settings import LastGood, resolve
from .summaries import Summary

STORE = lumia.store.of("heartflow")
CHAT_ROLES = tuple(role for role in lumia.models.ROLES if role != "embedding")
LONGEST_PAUSE = 366 * 86400.0
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,127}")


class ChoiceError(lumia.LumiaError):
    """A model can't be chosen for a chat; the message says why."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The bot keeps silent in a chat. until: seconds since 1970; by: who asked for it, `platform:id`."""

    until: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """How a chat stands. lines: kept word for word; summarised: lines that summaries stand for; day: `YYYY-MM-DD`;
    tokens and cost (US dollars): spent on that day, `unpriced` calls not in the cost; limit: what the budget makes the
    bot do without, as the trace says it, "" for nothing; silent: only mentions are answered, or nothing is."""

    lines: int
    summarised: int
    paused: Paused | None
    day: str
    tokens: int
    cost: float
    unpriced: int
    limit: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True)
class ChatModel:
    """What answers for a role in a chat. source: who says so; chosen: in the chat itself; problem: why it can't."""

    role: str
    model: str
    source: str
    chosen: bool = False
    problem: str | None = None
    fallback: tuple[str, ...] = ()


class Response:
    """Heartflow as other plugins see it; safe in threads."""

    def __init__(self) -> None:
        self._overrides = LastGood()

    def hears(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the sender of a `msg` payload is on no blacklist and no other bot.

        Raises `lumia.errors.PayloadError`.
        """
        message, config = read(payload), lumia.config.get("heartflow")
        limits = resolve(config, self._overrides.of(config.overrides), message).limits
        return not (limits.blacklist | limits.bots).intersection(message.keys(message.sender_id))

    def owners(self) -> tuple[str, ...]:
        """Return whom heartflow tells of its budget, as `platform:id`: the bot's owners."""
        return tuple(map(str, getattr(lumia.config.get("heartflow"), "owners", ())))

    def decisions(self, chat: str, last: int = decisions.KEEP) -> tuple[Decision, ...]:
        """Return why the bot spoke or kept silent in a chat, oldest first."""
        return tuple(decisions.of(chat, last))

    def answered(self, chat: str, message_id: str) -> str | None:
        """Return which message the bot's message `message_id` answers, None when that isn't known any more."""
        for own, to in reversed(_answers(chat)):
            if message_id in (own, f"bot:{to}"):
                return to
        return None

    def sent(self, chat: str, message_id: str) -> bool:
        """Tell whether the bot has lately said something in a chat in answer to the message `message_id`."""
        return message_id in decisions.sent(chat) or any(to == message_id for _, to in _answers(chat))

    def status(self, chat: str) -> Status:
        """Return how a chat stands now."""
        config = lumia.config.get("heartflow")
        day, allowed = budget.today(config), budget.allowance(chat, config)
        spent = budget.spent(chat, day).total
        summary = STORE.get(lines.SUMMARY, scope=chat)
        to = summary.get("to", 0) if isinstance(summary, Mapping) and _has_parts(summary) else 0
        return Status(
            len(STORE.items(lines.LINES, scope=chat)), int(to), self.paused(chat), day, spent.tokens,
            spent.cost, spent.unpriced, allowed.reason, allowed.mentions_only,
        )  # fmt: skip

    def reset(self, chat: str) -> int:
        """Forget the talk of a chat (lines, summaries, attention) and return how many lines went.

        The count of lines goes on, so that a summary of what went, made meanwhile, is behind and harms nothing. The
        chosen models, the pause, what was spent and the long-term memory stay.
        """
        gone = len(STORE.items(lines.LINES, scope=chat))
        counted = int(STORE.get(lines.COUNTED, 0, scope=chat) or 0)
        for key in (lines.LINES, state.PLANNER, state.WINDOW_END):
            STORE.delete(key, scope=chat)
        if counted:
            STORE.set(lines.SUMMARY, Summary(counted).as_json(), scope=chat, ttl=lines.SUMMARY_SECONDS)
            STORE.set(lines.SUMMARISED, counted, scope=chat, ttl=lines.SUMMARY_SECONDS)
        return gone

    def pause(self, chat: str, seconds: float, by: str = "") -> Paused:
        """Keep the bot silent in a chat, mentions included, for so many seconds (at most a year)."""
        wanted = min(max(1.0, float(seconds)), LONGEST_PAUSE)
        paused = Paused(round(lumia.system.now() + wanted, 3), by)
        STORE.set(state.PAUSED, asdict(paused), scope=chat, ttl=wanted)
        return paused

    def paused(self, chat: str) -> Paused | None:
        """Return the pause that is in force in a chat, None when there is none."""
        found = STORE.get(state.PAUSED, scope=chat)
        try:
            paused = Paused(float(found["until"]), str(found.get("by", "")))
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        return paused if paused.until > lumia.system.now() else None

    def resume(self, chat: str) -> bool:
        """End a pause; tell whether there was one."""
        was = self.paused(chat) is not None
        STORE.delete(state.PAUSED, scope=chat)
        return was

    def models(self, chat: str) -> tuple[ChatModel, ...]:
        """Return what answers for each role that chats, in a chat: chosen there, by heartflow's settings, or the role's
        own."""
        picked, settings = _picked(chat), _configured()
        overrides = {**settings, **picked}
        found = lumia.recorded("models", f"of {chat}", _described, overrides)
        sources = {**dict.fromkeys(settings, "config/heartflow.toml"), **dict.fromkeys(picked, "this chat")}
        return tuple(
            ChatModel(
                one["role"], one["model"], sources.get(one["role"], one["source"]), one["role"] in picked,
                one["problem"], tuple(one["fallback"]),
            )
            for one in found
        )  # fmt: skip

    def set_model(self, chat: str, role: str, model: str | None) -> ChatModel:
        """Let `model` answer for a role in a chat, None for the role's own again; return what answers from now on.

        Raises `ChoiceError` for an unknown role, for what is no model's name, and for a model that can't work.
        """
        if role not in CHAT_ROLES:
            raise ChoiceError(f"there is no role {role[:40]!r}; there are {', '.join(CHAT_ROLES)}")
        picked = _picked(chat)
        picked.pop(role, None)
        if model is not None:
            _check(role, model)
            picked[role] = model
        if picked:
            STORE.set(asking.MODELS, picked, scope=chat)
        else:
            STORE.delete(asking.MODELS, scope=chat)
        return next(one for one in self.models(chat) if one.role == role)


def _check(role: str, model: str) -> None:
    if not _MODEL.fullmatch(model):
        raise ChoiceError(f"{model[:40]!r} is no model's name; it is written like openai-chat:gpt-4o-mini")
    own, other = (lumia.recorded("models", f"of {role}: {name}", _problem, role, name) for name in ("", model))
    if other and other != own:  # the same problem is one of the role's fallbacks, which was there before
        raise ChoiceError(other)


def _problem(role: str, model: str) -> str:
    return next(one["problem"] or "" for one in _described({role: model}) if one["role"] == role)


def _described(overrides: Mapping[str, str]) -> list[dict[str, Any]]:
    return [asdict(one) for one in lumia.models.describe(overrides) if one.role in CHAT_ROLES]


def _picked(chat: str) -> dict[str, str]:
    found = STORE.get(asking.MODELS, scope=chat)
    if not isinstance(found, Mapping):
        return {}
    return {role: str(model) for role, model in found.items() if role in CHAT_ROLES and model}


def _configured() -> dict[str, str]:
    config = lumia.config.get("heartflow")
    return {role: str(value) for role, key in asking.SETTINGS.items() if (value := getattr(config, key))}


def _answers(chat: str) -> list[tuple[str | None, str]]:
    """Return message id, if known, and the message that is answered, of the bot's lines in a chat, oldest first."""
    found = (entry for entry in STORE.items(lines.LINES, scope=chat) if isinstance(entry, Mapping))
    return [
        (entry.get("message_id"), str(entry["reply_to"]))
        for entry in found
        if entry.get("by") == "bot" and entry.get("reply_to")
    ]


def _has_parts(summary: Mapping[str, Any]) -> bool:
    return bool(summary.get("paragraphs") or summary.get("topics"))
