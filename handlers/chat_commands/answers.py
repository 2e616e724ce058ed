"""What each command does: it asks the services `response`, `persona` and `memory`, and returns what to say.

Each of them may be absent; then the command says so and the others go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import lumia

from . import explaining
from .asking import ADMIN, OFF, OWNER, Asked, needed
from .parsing import WORDS
from .wording import duration, language_of, listed, say, shown

DEFAULT = ("default", "默认")
MOST_LINES = 5
_TIME = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([a-z分小时钟天秒]*)", re.IGNORECASE)
_UNITS = {
    **dict.fromkeys(("s", "sec", "秒"), 1.0), **dict.fromkeys(("", "m", "min", "分", "分钟"), 60.0),
    **dict.fromkeys(("h", "小时", "时"), 3600.0), **dict.fromkeys(("d", "天"), 86400.0),
}  # fmt: skip
_RECALLED, _LINE_LENGTH = 30, 120


@dataclass(frozen=True)
class Asking:
    """One command to be answered. language: en or zh."""

    asked: Asked
    config: Any
    language: str

    @property
    def prefix(self) -> str:
        """What commands begin with."""
        return str(self.config.prefix).strip() or "/"

    def say(self, key: str, **values: object) -> str:
        """Return a text in the asker's language."""
        return say(self.language, key, prefix=self.prefix, **values)


def service(name: str) -> Any:
    """Return a service by name, None when no plugin provides it."""
    return next(iter(lumia.services.all(name).values()), None)


def choose_language(asked: Asked, config: Any) -> str:
    """Return en or zh: by setting, by the command's name and words, by what the asker, then the chat, last said."""
    if config.language != "auto":
        return str(config.language)
    if asked.command.chinese:
        return "zh"
    if language_of([asked.command.text]) == "zh":  # names of models and personas tell nothing else
        return "zh"
    response = service("response")
    found = response.decisions(asked.scope) if response is not None else ()
    own = [one.text for one in found if one.sender_id == asked.sender_id]
    return language_of(own[-5:]) or language_of(one.text for one in found[-5:]) or "en"


def answer(asking: Asking) -> str:
    """Return what to say to a command that is allowed."""
    return ANSWERS[asking.asked.command.name](asking)


def refusal(asking: Asking, role: str) -> str:
    """Return the line for someone who may not."""
    command = f"{asking.prefix}{asking.asked.command.name}"
    return asking.say("refused", command=command, role=asking.say(f"role.{role}"))


def help_(asking: Asking) -> str:
    """List what the asker may do."""
    lines = [asking.say("help")]
    for name in WORDS:
        role = needed(name, asking.config)
        if role != OFF and asking.asked.may(role):
            lines.append(f"{asking.prefix}{name} – {asking.say(f'help.{name}')}")
    return "\n".join(lines)


def sid(asking: Asking) -> str:
    """Show the ids that settings name people and chats by."""
    asked = asking.asked
    return asking.say(
        "sid", platform=asked.platform, account=shown(asked.account, 256), kind=asked.kind,
        chat=shown(asked.chat_id, 384), sender=shown(asked.sender_id, 256),
    )  # fmt: skip


def status(asking: Asking) -> str:
    """Show version, persona, models, lines, what was spent, and whether the bot is paused."""
    asked, response = asking.asked, service("response")
    lines = [f"{shown(lumia.config.get('lumia').bot.name)}, Lumia {lumia.__version__}"]
    if (persona := service("persona")) is not None:
        name = persona.of(asked.platform, asked.kind, asked.chat_id).name
        lines.append(asking.say("status.persona", name=shown(name)))
    if response is None:
        return "\n".join([*lines, asking.say("no answerer")])
    models = ", ".join(f"{one.role} {shown(one.model)}" for one in response.models(asked.scope))
    lines.append(asking.say("status.models", models=models))
    found = response.status(asked.scope)
    kept = "status.lines" if found.summarised else "status.lines.only"
    lines.append(asking.say(kept, lines=found.lines, summarised=found.summarised))
    if asked.may(ADMIN):
        lines.append(_spent(asking, found))
    lines.append(_paused(asking, found.paused))
    if found.limit and asked.role == OWNER and asked.private:
        lines.append(asking.say("status.limit", why=shown(found.limit, 160)))
    elif found.silent:
        lines.append(asking.say("status.limited"))
    return "\n".join(lines)


def _spent(asking: Asking, found: Any) -> str:
    spent = asking.say("status.spent", day=found.day, tokens=f"{found.tokens:,}", cost=f"{found.cost:,.4f}")
    return spent + (asking.say("status.unpriced", count=found.unpriced) if found.unpriced else "")


def _paused(asking: Asking, paused: Any) -> str:
    if paused is None:
        return asking.say("status.speaking")
    left = duration(asking.language, paused.until - lumia.system.now())
    return asking.say("status.paused", time=left, by=shown(paused.by) or "?")


def reset(asking: Asking) -> str:
    """Forget the talk of the chat."""
    response = service("response")
    if response is None:
        return asking.say("no answerer")
    return asking.say("reset", lines=response.reset(asking.asked.scope))


def stop(asking: Asking) -> str:
    """Keep the bot silent for a while."""
    response = service("response")
    if response is None:
        return asking.say("no answerer")
    seconds = seconds_of(asking.asked.command.text) if asking.asked.command.words else asking.config.pause_minutes * 60
    if seconds is None:
        return asking.say("stop.time")
    paused = response.pause(asking.asked.scope, seconds, asking.asked.sender)
    return asking.say("stop", time=duration(asking.language, paused.until - lumia.system.now()))


def seconds_of(text: str) -> float | None:
    """Return the seconds that `30`, `30m`, `2h`, `1d` or `30分钟` are; a bare number is minutes. None for others."""
    found = _TIME.fullmatch(text.strip())
    unit = _UNITS.get(found[2].lower()) if found else None
    seconds = float(found[1]) * unit if found and unit else 0.0
    return seconds if seconds > 0 else None


def resume(asking: Asking) -> str:
    """Let the bot speak again."""
    response = service("response")
    if response is None:
        return asking.say("no answerer")
    return asking.say("resume" if response.resume(asking.asked.scope) else "resume.not")


def model(asking: Asking) -> str:
    """List roles and models, or choose one for the chat."""
    response, words = service("response"), asking.asked.command.words
    if response is None:
        return asking.say("no answerer")
    models = response.models(asking.asked.scope)
    roles = [one.role for one in models]
    if not words:
        return _models(asking, models)
    if words[0].lower() in roles and len(words) == 1:
        return "\n".join(_model(asking, one) for one in models if one.role == words[0].lower())
    role, name = (words[0].lower(), words[1]) if len(words) > 1 else ("main", words[0])
    if role not in roles or len(words) > 2:
        return asking.say("model.role", name=shown(asking.asked.command.text), names=", ".join(roles))
    choices = {one.casefold(): one for one in _choices(asking, models)}
    if name.casefold() not in choices and name.casefold() not in DEFAULT:
        return asking.say("model.unknown", name=shown(name), names=listed(asking.language, choices.values()))
    try:
        chosen = response.set_model(asking.asked.scope, role, choices.get(name.casefold()))
    except lumia.LumiaError as error:
        return asking.say("model.refused", problem=shown(error, 200))
    return asking.say("model.set", model=shown(chosen.model), role=role)


def _models(asking: Asking, models: tuple[Any, ...]) -> str:
    lines = [asking.say("model.list"), *(_model(asking, one) for one in models)]
    lines.append(asking.say("model.choices", names=listed(asking.language, _choices(asking, models))))
    if asking.asked.may(needed("model", asking.config)):
        lines.append(asking.say("model.how"))
    return "\n".join(lines)


def _model(asking: Asking, one: Any) -> str:
    source = asking.say("model.here") if one.chosen else shown(one.source)
    line = asking.say("model.line", role=one.role, model=shown(one.model), source=source)
    return line + (asking.say("model.problem", problem=shown(one.problem, 120)) if one.problem else "")


def _choices(asking: Asking, models: tuple[Any, ...]) -> list[str]:
    """Return the models that can be chosen: those some role has already, and those the settings add."""
    named = [name for one in models if not one.chosen for name in (one.model, *one.fallback)]
    return sorted({*named, *filter(None, asking.config.models)})


def persona(asking: Asking) -> str:
    """List personas, or choose one for the chat."""
    asked, personas = asking.asked, service("persona")
    if personas is None:
        return asking.say("persona.none")
    chat = asked.platform, asked.kind, asked.chat_id
    name = asked.command.text
    if not name:
        chosen, now = personas.chosen(*chat), personas.of(*chat).name
        here = asking.say("persona.chosen") if chosen == now else ""
        lines = [asking.say("persona.now", name=shown(now), chosen=here)]
        if chosen and not here:
            lines.append(asking.say("persona.lost", name=shown(chosen)))
        lines += [
            asking.say("persona.names", names=listed(asking.language, personas.names())),
            asking.say("persona.how"),
        ]
        return "\n".join(lines)
    try:
        found = personas.choose(*chat, None if name.casefold() in DEFAULT else name)
    except lumia.LumiaError as error:
        return asking.say("persona.refused", problem=shown(error, 200))
    return asking.say("persona.set", name=shown(found.name))


def memory(asking: Asking) -> str:
    """Show what the memory holds of the asker in this chat, or forget it."""
    asked, known = asking.asked, service("memory")
    if known is None:
        return asking.say("memory.none")
    words = asked.command.words
    if words and words[0].casefold() in ("forget", "忘记", "忘掉"):
        return _forget(asking, known)
    profile = known.profile(asked.sender_id, asked.scope)
    query = asked.command.text or profile.name or asked.sender_name or asked.sender_id
    found = known.recall(query, asked.scope, sender_id=asked.sender_id, top_k=_RECALLED)
    if profile.missing or found.missing:
        lumia.annotate(memory_missing=profile.missing or found.missing)
        return asking.say("memory.away")
    own = [one for one in found.instances if one.sender == asked.sender_id and one.kind != "reply"][:MOST_LINES]
    if not profile.messages and not own:
        return asking.say("memory.stranger")
    name = shown(profile.name or asked.sender_name or asked.sender_id)
    lines = [asking.say("memory.who", name=name, messages=profile.messages)]
    if profile.relation_summary:
        lines.append(asking.say("memory.relations", summary=shown(profile.relation_summary, 300)))
    if own:
        lines.append(asking.say("memory.lines"))
        lines += [f"- {_day(one.said_at)} “{shown(one.text, _LINE_LENGTH)}”" for one in own]
    return "\n".join(lines)


def _forget(asking: Asking, known: Any) -> str:
    forget = getattr(known, "forget_person", None)
    if forget is None:
        return asking.say("memory.cant", sender=shown(asking.asked.sender_id, 256))
    found = forget(asking.asked.sender_id, asking.asked.scope)
    if found.missing:
        lumia.annotate(memory_missing=found.missing)
        return asking.say("memory.away")
    return asking.say("memory.forgotten", count=found.records)


def _day(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return "?"


def why(asking: Asking) -> str:
    """Say why the bot spoke or kept silent to the quoted or the last message."""
    asked, response = asking.asked, service("response")
    if response is None:
        return asking.say("no answerer")
    answered = response.answered(asked.scope, asked.reply_to) if asked.reply_to else None
    found = response.decisions(asked.scope)
    return explaining.explain(
        asked, found, asking.language, asking.say, now=lumia.system.now(), answered=answered,
        sent=lambda message_id: response.sent(asked.scope, message_id),
    )  # fmt: skip


ANSWERS: Mapping[str, Callable[[Asking], str]] = {
    "help": help_, "status": status, "reset": reset, "stop": stop, "resume": resume, "model": model,
    "persona": persona, "memory": memory, "why": why, "sid": sid,
}  # fmt: skip
