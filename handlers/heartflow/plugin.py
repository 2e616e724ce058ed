"""Heartflow, the plugin that answers (spec §12): it decides when to speak, what to say, and what that may cost.

    msg           priv 200  filter_message  L0  rules, no tokens
                  priv 100  perceive        L1  is the bot meant? similarity, then a small model
                  priv  50  plan            L2  context, memory, tools, deeper thought
                  priv  10  think           L3  what to make of it
                  priv -1000 settle             the attention moves
    reply.polish            polish              the words, and off they go
    msg.send                hear_own            the bot hears itself

Everything each of them keeps in `lumia.store` is scoped to the chat and commits with its step; the lane of the chat
puts them in order. Each step notes its layer, its decision and what it cost, so `lumia trace` and `/why` can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import lumia

from . import (
    asking,
    budget,
    budget_commands,
    compression,
    decisions,
    joining,
    lab_commands,
    lines,
    package,
    personas,
    planning,
    remembering,
    sending,
    state,
    thinking,
)
from . import polish as polishing
from .filter import Facts, Limits, Verdict, decide
from .lines import Line
from .message import Message, read
from .outputs import ReplyBias
from .perception import Perceived, Tuning
from .perception import perceive as perceived
from .scopes import place_of
from .service import Response
from .settings import LastGood, Settings, parse, resolve

NAME = "heartflow"
PASSED = lumia.mcp.PASSED_L1
"""Key in a Box's meta that perception sets: from there on tools may be called (DESIGN §11)."""

LINE = "line"
"""Key in a Box's meta: [number, time] of the last line that belongs to the turn."""
HEARD = "heartflow.heard"

_overrides = LastGood()

__all__ = ["budget_commands", "compression", "lab_commands", "on_load"]


def on_load() -> None:
    """Offer the service `response`; refuse overrides or a budget that would be ignored (raises `ConfigValueError`)."""
    config = lumia.config.get(NAME)
    parse(config.overrides)
    budget.check(config)
    lumia.services.provide("response", Response())


def settings_for(message: Message) -> Settings:
    """Return the settings that hold for `message` now."""
    config = lumia.config.get(NAME)
    return resolve(config, _overrides.of(config.overrides), message)


@lumia.pipe.on("msg", priv=200)
def filter_message(content: lumia.Box[Any]) -> None:
    """L0: drop what no model needs to see, each drop with its reason; mark what must be answered (spec §12.2)."""
    message = read(content.into(), content.meta)
    lumia.annotate(layer="L0")
    if joining.joined_to(message) is None:  # else the rules have let it pass with the turn that took it up
        verdict = ruled(message)
        if verdict.stop:
            decisions.note(message, "L0", False, verdict.stop)
            lumia.utils.stop(verdict.stop)
            return
        if verdict.force_engage:
            content.meta["force_engage"] = True
    lumia.utils.next()


@lumia.pipe.on("msg", priv=100, timeout=90)
def perceive(content: lumia.Box[Any]) -> None:
    """L1: is this for the bot? What isn't goes to the chat's lines and ends here, silently (spec §12.3)."""
    message, config = read(content.into(), content.meta), lumia.config.get(NAME)
    if (into := joining.joined_to(message)) is not None:
        lumia.annotate(layer="L1", joined=into)
        joining.over(message)
        reason = f"joined: taken up together with message {into}"
        decisions.note(message, "L1", False, reason)
        lumia.utils.stop(reason)
        return
    force = bool(content.meta.get("force_engage"))
    late = _late(message, content.meta, config)
    engage, reason = (False, late) if late else _judged(message, settings_for(message), config, force=force)
    line = lines.line_of(message, lumia.system.now(), config.max_text_chars, c=not engage)
    kept = lines.push(message.scope, line, k=config.context_lines, cap=config.context_cap)
    decisions.note(message, "L1", engage, reason)
    if not engage:
        lumia.utils.stop(reason)
        return
    content.meta.update({PASSED: True, LINE: [kept.n, kept.at]})
    lumia.utils.next(delay=_pause(message, config))


@lumia.pipe.on("msg", priv=50, timeout=240)
def plan(content: lumia.Box[Any]) -> None:
    """L2: gather what an answer needs and pack it for layer 3 (spec §12.4)."""
    payload, config = content.into(), lumia.config.get(NAME)
    message, name = read(payload, content.meta), sending.bot_name()
    sending.destination(message)  # what can't be answered costs no further model call
    said, added = own_line(message, content.meta, config), joining.join(message, config, admits)
    last = added[-1][0] if added else said
    asked, allowed = asking.Asking("L2", message, config), budget.allowance(message.scope, config)
    known, burst = lines.upto(message.scope, config.context_lines, last), joining.whole(said, added)
    asked.seen = last.n
    recalled = remembering.recall(message, burst, known, name, config)
    found = planning.plan(message, burst.text, known, name, config, asked, thinker=allowed.thinker)
    kept = remembering.keep_hints(message, found.hints)
    summary = compression.render(lines.summary(message.scope))
    force = bool(content.meta.get("force_engage")) or any(one.addressed for _, one in added)
    packed = package.pack(message, known, summary, recalled, found.results, force_engage=force)
    more = {"new_hints": kept} if kept else {}
    asked.note(**recalled.notes, **found.notes, **more, **_budgeted(allowed))
    meta = {**content.meta, "msg": payload, LINE: [last.n, last.at]}
    lumia.utils.next(lumia.Box.any(dict(packed), meta=meta))


@lumia.pipe.on("msg", priv=10, timeout=240)
def think(content: lumia.Box[Any]) -> None:
    """L3: what the bot makes of the message; what it wants to say goes on to polish (spec §12.5)."""
    payload, config = content.meta["msg"], lumia.config.get(NAME)
    message = read(payload, content.meta)
    asked, allowed = asking.Asking("L3", message, config), budget.allowance(message.scope, config)
    persona = personas.prompt_for(message, settings_for(message))
    packed = thinking.newest(joining.join(message, config, admits), content.into())
    answered, notes = _thought(message, packed, persona, allowed.main_role, asked, config)
    if said_meanwhile := joining.join(message, config, admits):
        packed = thinking.newest(said_meanwhile, packed)
        answered, notes = _thought(message, packed, persona, allowed.main_role, asked, config)
        notes["interrupted"] = len(said_meanwhile)
    thought = answered.thought
    counted = thinking.remember(message, payload, thought, bias=config.remember_bias)
    degraded = {"degraded": answered.degraded} if answered.degraded else {}
    asked.note(**notes, **counted, **_budgeted(allowed), **degraded)
    content.meta[thinking.SHIFT] = thinking.shift(thought, message)
    if thought.reply_bias is None or not thinking.has_words(thought.reply_bias):
        decisions.note(message, "L3", False, "not worth a reply: the model chose silence")
        lumia.utils.stop("not worth a reply: the model chose silence")
        return
    meta = {name: content.meta[name] for name in ("pid", PASSED) if name in content.meta}
    meta[LINE] = [asked.seen, lumia.system.now()]
    draft = {"reply_bias": thought.reply_bias.model_dump(), "msg": payload}
    lumia.pipe.start("reply.polish", lumia.Box.any(draft, meta=meta))
    lumia.utils.next()


@lumia.pipe.on("msg", priv=-1000)
def settle(content: lumia.Box[Any]) -> None:
    """Move the attention to where layer 3 has seen it go; it commits with the end of the chain (DESIGN §11)."""
    moved = content.meta.get(thinking.SHIFT) or {}
    lumia.utils.next()
    if moved and "msg" in content.meta:
        message = read(content.meta["msg"], content.meta)
        state.shift(message.scope, state.unpacked(moved["vector"]), moved["model"])


@lumia.pipe.on("reply.polish", timeout=150)
def polish(content: lumia.Box[Any]) -> None:
    """Find the words for what the bot wants to say, and send them (spec §12.6)."""
    given, config = content.into(), lumia.config.get(NAME)
    message = read(given["msg"], content.meta)
    to = sending.destination(message)
    asked, allowed = asking.Asking("polish", message, config), budget.allowance(message.scope, config)
    last = int((content.meta.get(LINE) or [0])[0])
    known = [line for line in lines.recent(message.scope, polishing.SEEN + lines.TAIL) if line.n <= last]
    persona = personas.prompt_for(message, settings_for(message))
    role = "polish" if allowed.main_role == "main" else allowed.main_role
    bias = ReplyBias.model_validate(given["reply_bias"])
    text = polishing.words(message, bias, known[-polishing.SEEN :], persona, sending.bot_name(), role, asked, config)
    if not text:
        decisions.note(message, "polish", False, "not worth a reply: no words were found")
        lumia.utils.stop("no words were found")
        return
    lumia.annotate(parts=sending.send(to, message, text, config))
    lumia.utils.next()


@lumia.event.consumer_re("msg.send, dest=*", priv=-50)
def hear_own(src: str, content: lumia.Box[Any]) -> None:
    """Keep what the bot says, whoever lets it say so: its line, its cooldown, and the window of its attention.

    Answers to commands are no part of the talk.
    """
    if content.meta.get("command"):
        return
    config, now = lumia.config.get(NAME), lumia.system.now()
    heard = sending.own_line(src, content.into(), content.meta, sending.bot_name(), now)
    if heard is None:
        return
    scope, line = heard
    decisions.note_sent(scope, line.reply_to)
    place = place_of(scope)
    if place is not None and place.lane not in ("", lumia.context.lane()):
        said = {"scope": scope, "text": line.text, "reply_to": line.reply_to, "at": now}
        lumia.event.start(HEARD, lumia.Box.any(said), key=place.lane, detach=True)  # lines are numbered in one lane
    else:
        keep_own(scope, line, config)


@lumia.event.consumer(HEARD)
def hear_apart(content: lumia.Box[dict[str, Any]]) -> None:
    """Keep what somebody let the bot say from outside of the chat's lane, in that lane."""
    said, config = content.into(), lumia.config.get(NAME)
    place = place_of(said["scope"])
    account = place.account if place is not None else ""
    line = Line("bot", account, sending.bot_name(), said["text"], said["at"], reply_to=said["reply_to"])
    keep_own(said["scope"], line, config)


def keep_own(scope: str, line: Line, config: Any) -> None:
    """Keep a line of the bot; its cooldown begins, and so does the window of its attention."""
    lines.push(scope, line, k=config.context_lines, cap=config.context_cap)
    state.opened(scope, line.at, config.attention_window)


def own_line(message: Message, meta: Mapping[str, Any], config: Any) -> Line:
    """Return the line of `message` as perception has kept it."""
    n, at = meta.get(LINE) or (0, lumia.system.now())
    return replace(lines.line_of(message, at, config.max_text_chars), n=n)


def ruled(message: Message) -> Verdict:
    """Return what the rules of L0 say of a message; one that passes counts against its sender's rate."""
    limits = settings_for(message).limits
    facts = facts_of(message, limits)
    verdict = decide(facts, limits)
    if not verdict.stop and limits.rate_limit > 0:
        count(message, facts.arrived, limits.rate_limit, limits.rate_window)
    return verdict


def admits(message: Message) -> bool:
    """Tell whether the rules of L0 let a message be joined to a turn."""
    return ruled(message).stop is None


def facts_of(message: Message, limits: Limits) -> Facts:
    """Gather what the rules may know; reads from the store only what a rule in force looks at."""
    now, scope = lumia.system.now(), message.scope
    last_send = lumia.store.get(state.LAST_SEND, scope=scope) if limits.min_reply_interval > 0 else None
    return Facts(
        now=now,
        arrived=min(message.sent or now, now),
        sender=frozenset(message.keys(message.sender_id)),
        kinds=message.kinds,
        addressed=message.addressed,
        own=message.sender_id == message.account,
        paused_until=float((lumia.store.get(state.PAUSED, scope=scope) or {}).get("until", 0.0)),
        last_send=float(last_send) if last_send is not None else None,
        counted=tuple(lumia.store.items(_rate_key(message), scope=scope)) if limits.rate_limit > 0 else (),
    )


def count(message: Message, arrived: float, keep: int, window: float) -> None:
    """Count a message that passed the rate rule. `keep` + 1 stamps, so that one from the future can't fill the list."""
    lumia.store.append(_rate_key(message), arrived, scope=message.scope, keep=keep + 1, ttl=max(1.0, window))


def _late(message: Message, meta: Mapping[str, Any], config: Any) -> str:
    """Return why a message that was said while the adapter was away is too old to be answered, "" when it isn't."""
    if not meta.get("backfilled") or message.sent is None:
        return ""
    minutes = (lumia.system.now() - message.sent) / 60
    return f"late: said {minutes:.0f} minutes ago, while I was away" if minutes > config.backfill_answer else ""


def _judged(message: Message, settings: Settings, config: Any, *, force: bool) -> tuple[bool, str]:
    """Return (engage, reason): by the budget, by what the settings say of this chat, else by perception."""
    asked, allowed = asking.Asking("L1", message, config), budget.allowance(message.scope, config)
    if (why := parroting(message, settings, lines.newest(message.scope), force=force)) is not None:
        asked.note()
        return False, why
    answers = force or settings.answers(message)
    if allowed.silent or (allowed.mentions_only and not force):
        asked.note(**_budgeted(allowed))
        return False, allowed.reason
    if answers or settings.reply_in_groups == "mention":
        asked.note(forced=answers)
        return answers, ("addressed to the bot" if force else "it answers everything here") if answers else _NOT_MEANT
    now = lumia.system.now()
    known = state.load(message.scope, base_threshold=settings.trigger_threshold, now=now)
    found = perceived(
        message, known.context_buffer, known,
        Tuning(
            base_threshold=settings.trigger_threshold, cosine_floor=config.similarity_floor,
            persona_hint=personas.hint_for(message, settings), bot_name=sending.bot_name(),
            nicknames=tuple(config.nicknames), openness_floor=config.openness_floor,
            plugin_override=asking.chosen(message.scope, "small", config),
        ),
        force=False, now=now,
    )  # fmt: skip
    _note(asked, found)
    return found.engage, found.reason


def parroting(message: Message, settings: Settings, known: Sequence[Line], *, force: bool) -> str | None:
    """Return why a message comes from another bot, or repeats in a group what the bot has said; None for a person's.

    Two bots that answer each other would never end. force: the bot is mentioned; then only the same words are an echo.
    """
    if settings.limits.bots & set(message.keys(message.sender_id)):
        return f"another bot: {message.sender_id}"
    said, own = words(message.text), [words(line.text) for line in known if line.by == "bot"]
    if message.private:
        return None
    bare = said.removeprefix(words(sending.bot_name()))
    alike = (one == bare if force else one in said and 2 * len(one) > len(said) for one in own if len(one) >= _PARROT)
    return "an echo of what the bot said" if any(alike) else None


def words(text: str) -> str:
    """Return the letters and digits of a text, in one case."""
    return "".join(char for char in text.casefold() if char.isalnum())


_PARROT = 12
"""Letters and digits below which the same words are chance; an echo says little else, too."""


def _thought(
    message: Message, packed: Mapping[str, Any], persona: str, role: str, asked: asking.Asking, config: Any
) -> tuple[thinking.Answered, dict[str, Any]]:
    asked.seen = thinking.last_of(packed)
    known, notes = remembering.knowledge(message, thinking.asked(packed), config)
    return thinking.think(message, packed, known, persona, sending.bot_name(), role, asked), notes


_NOT_MEANT = "not addressed to the bot: here it answers when it is mentioned"


def _note(asked: asking.Asking, found: Perceived) -> None:
    if found.usage is not None:
        asked.charge("small", found, found.model)
    seen = {
        "similarity": found.similarity, "floor": found.floor, "openness": found.openness, "score": found.score,
        "threshold": found.threshold,
    }  # fmt: skip
    asked.note(forced=found.forced, **{name: round(value, 4) for name, value in seen.items() if value is not None})


def _pause(message: Message, config: Any) -> float:
    """Return how long to wait for what the sender may add: counted from when the message was sent."""
    if config.while_thinking != "join" or message.local:
        return 0.0
    now, wait = lumia.system.now(), float(config.burst_wait)
    return max(0.0, min(wait, wait - (now - min(message.sent or now, now))))


def _budgeted(allowed: budget.Allowance) -> dict[str, str]:
    return {"budget": allowed.reason} if allowed.level else {}


def _rate_key(message: Message) -> str:
    return f"rate:{message.sender_id}"
