"""L0, the logic filter of spec §12.2: pure rules in the order the spec gives them; no tokens, no side effects.

A rule looks at `Facts` and `Limits` and returns the reason to stop, or None. `decide` runs them in order; the first
reason wins. So a cooldown outranks a mention (DESIGN §11), and one tuple, `RULES`, shows the whole policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What the operator allows in one chat for one sender; durations in seconds, 0 switches a limit off."""

    min_reply_interval: float = 0.0
    rate_limit: int = 0
    rate_window: float = 60.0
    handled_types: frozenset[str] = frozenset({"text", "mention"})
    blacklist: frozenset[str] = frozenset()
    bots: frozenset[str] = frozenset()
    """Other bots, by id or by `platform:id`: heard, never answered."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules may know about one message; times in seconds since the epoch."""

    now: float
    arrived: float
    """When the sender sent it; a backlog worked off after a pause is not a flood."""
    sender: frozenset[str]
    """The sender's id, bare and as `platform:id`."""
    kinds: frozenset[str]
    """What the message holds: `text`, `mention`, `image`, `file`, …; empty for an empty message."""
    addressed: bool = False
    """It mentions the bot or was written in a private chat."""
    own: bool = False
    """The account of the bot itself is the sender: some platforms tell a bot what it has said."""
    paused_until: float = 0.0
    """Until when somebody told the bot to be quiet in this chat."""
    last_send: float | None = None
    """When the bot last sent something in this lane."""
    counted: tuple[float, ...] = ()
    """Arrival times of the sender's earlier messages that count against the rate."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of the filter: `stop` is the reason to end the chain, None lets the message pass."""

    stop: str | None = None
    force_engage: bool = False


Rule = Callable[[Facts, Limits], str | None]


def echoed(facts: Facts, limits: Limits) -> str | None:
    """Before the rules of the specification: the bot never answers itself."""
    return "own message: the bot's account has sent it" if facts.own else None


def paused(facts: Facts, limits: Limits) -> str | None:
    """Before the rules of the specification: somebody who may do so told the bot to be quiet in this chat."""
    left = facts.paused_until - facts.now
    return f"paused: {left:.0f} s left" if left > 0 else None


def cooldown(facts: Facts, limits: Limits) -> str | None:
    """Rule 1: the bot spoke in this lane less than `min_reply_interval` seconds ago."""
    interval = limits.min_reply_interval
    if facts.last_send is None or interval <= 0:
        return None
    # A stamp far in the future comes from a clock that jumped back: it must not silence the bot until then.
    if abs(facts.now - facts.last_send) >= interval:
        return None
    left = min(facts.last_send + interval - facts.now, interval)
    return f"cooldown: {left:.1f} s of {interval:g} s left"


def blacklisted(facts: Facts, limits: Limits) -> str | None:
    """Rule 2: the sender is on the blacklist, by id or by `platform:id`."""
    hit = sorted(facts.sender & limits.blacklist)
    return f"blacklist: sender {hit[0]}" if hit else None


def unhandled(facts: Facts, limits: Limits) -> str | None:
    """Rule 3: the message holds nothing the bot handles, such as a raw file without a word."""
    if not facts.kinds:
        return "message type not handled: empty message"
    if facts.kinds & limits.handled_types:
        return None
    return f"message type not handled: {', '.join(sorted(facts.kinds))}"


def too_fast(facts: Facts, limits: Limits) -> str | None:
    """Rule 4: this message would be the sender's `rate_limit` + 1st within `rate_window` seconds in this chat."""
    if limits.rate_limit <= 0:
        return None
    used = len(in_window(facts.counted, facts.arrived, limits.rate_window))
    if used < limits.rate_limit:
        return None
    return f"rate limit: {used} messages in {limits.rate_window:g} s, {limits.rate_limit} allowed"


RULES: tuple[Rule, ...] = (echoed, paused, cooldown, blacklisted, unhandled, too_fast)


def decide(facts: Facts, limits: Limits) -> Verdict:
    """Run the rules in the order of spec §12.2; the first that objects ends the chain."""
    for rule in RULES:
        reason = rule(facts, limits)
        if reason:
            return Verdict(stop=reason)
    return Verdict(force_engage=facts.addressed)


def in_window(stamps: Iterable[float], at: float, window: float) -> tuple[float, ...]:
    """Return the stamps less than `window` seconds from `at`, either side: platforms deliver out of order."""
    return tuple(stamp for stamp in stamps if abs(at - stamp) < window)
