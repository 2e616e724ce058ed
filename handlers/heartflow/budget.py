"""What the models may cost a day, and what the chain does without when that is nearly spent (docs/budgets.md).

Every model call is charged with the usage its provider reported, by layer, to the chat and to the bot as a whole: one
mapping of counters per chat and day in `lumia.store`. Counters commit with the step that made the call, so a step that
is tried again is charged once, and they add up however many lanes write them at once.
"""

from __future__ import annotations

import hashlib
import logging
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import lumia

from .scopes import Place, place_of
from .settings import LastGood, LastValid

log = logging.getLogger(__name__)

STORE = lumia.store.of("heartflow")
BOT = ""
"""The scope of what the whole bot has spent."""
CHAT_DAYS, BOT_DAYS = 15, 100
"""How many days the counters of a chat, and those of the bot, are kept."""
SHARDS = 16
LEVELS = ("", "no thinker", "smaller main", "only mentions", "silence")
"""What each level does without; a level does without all that the lower ones do without."""

_DAY = 86400.0
_NANO = 10**9
_TOLD = "told"
_CONSEQUENCES = (
    "",
    "answers without the thinker",
    "answers with the smaller model",
    "answers only who addresses it",
    "keeps silent",
)


class Paid(Protocol):
    """What a call came to, as `lumia.models.Reply` says it: cost in US dollars, None when the price isn't known."""

    @property
    def usage(self) -> lumia.models.Usage | None:
        """Return the tokens, None when no model was asked."""

    @property
    def cost(self) -> float | None:
        """Return the price."""


@dataclass(frozen=True, slots=True)
class Sum:
    """What some calls came to. nano: billionths of a US dollar; unpriced: calls of unknown price, not in `nano`."""

    tokens: int = 0
    nano: int = 0
    calls: int = 0
    unpriced: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.tokens + other.tokens, self.nano + other.nano, self.calls + other.calls, self.unpriced + other.unpriced
        )

    @property
    def cost(self) -> float:
        """US dollars."""
        return self.nano / _NANO


@dataclass(frozen=True, slots=True)
class Spent:
    """What a chat, or the bot, has spent on one day. told: the levels its owners were told of."""

    layers: Mapping[str, Sum] = field(default_factory=dict)
    told: frozenset[int] = frozenset()

    @property
    def total(self) -> Sum:
        """All layers together."""
        return sum(self.layers.values(), Sum())


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be spent in a day, tokens and US dollars; 0 is without limit."""

    tokens: int = 0
    cost: float = 0.0

    def __bool__(self) -> bool:
        return self.tokens > 0 or self.cost > 0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the chain may still do. level: 0 (everything) to 4 (silence), see `LEVELS`.

    main_role: the role that thinks for the bot now. reason: for the trace, beginning with `budget:`; "" at level 0.
    """

    level: int = 0
    main_role: str = "main"
    reason: str = ""
    share: float = 0.0

    @property
    def thinker(self) -> bool:
        """The thinker may be asked."""
        return self.level < 1

    @property
    def mentions_only(self) -> bool:
        """Only who addresses the bot is answered."""
        return self.level >= 3

    @property
    def silent(self) -> bool:
        """No model is asked at all."""
        return self.level >= 4


# --- charging


def charge(scope: str, layer: str, paid: Paid) -> None:
    """Charge a model call to a chat and to the bot; commits with the step.

    layer: L1, L2, thinker, L3, polish or compress. A call of unknown price counts as tokens only, and as one of unknown
    price; one that no model answered (usage None) is free. Owners are told, in the same commit, when this call reaches
    a level they were not told of today.
    """
    if paid.usage is None:
        return
    config = lumia.config.get("heartflow")
    day = today(config)
    amounts = _amounts(layer, paid.usage, paid.cost)
    for owner in (scope, BOT):
        for name, amount in amounts.items():
            count = STORE.incr(_key(day), amount, field=name, scope=owner, ttl=_kept(owner))
            if owner and name.endswith(".calls") and count == 1 and spent(scope, day).total.calls == 1:
                _note_chat(day, scope)
        tell_owner(owner, config, scope)


def _amounts(layer: str, usage: lumia.models.Usage, cost: float | None) -> dict[str, int]:
    known = cost is not None and math.isfinite(cost)
    dollars = max(0.0, cost or 0.0) if known else 0.0
    amounts = {
        "calls": 1,
        "tokens": max(0, usage.input_tokens) + max(0, usage.output_tokens),
        "nano": max(round(dollars * _NANO), int(dollars > 0)),
        "unpriced": 0 if known else 1,
    }
    return {f"{layer}.{name}": amount for name, amount in amounts.items() if amount}


def _note_chat(day: str, scope: str) -> None:
    """List a chat among those that have spent something that day."""
    STORE.put(f"chats:{day}:{zlib.crc32(scope.encode()) % SHARDS}", scope, 1, ttl=CHAT_DAYS * _DAY)


# --- what is left


def allowance(scope: str, config: Any) -> Allowance:
    """Return what the chain may do in a chat now, by the tighter of the chat's and the bot's limits.

    A level in force is noted in the step's trace as `budget`. Reads nothing where no limit is set.
    """
    worst, day = Allowance(), ""
    for owner, limits in ((scope, chat_limits(scope, config)), (BOT, bot_limits(config))):
        if limits:
            day = day or today(config)
            worst = max(worst, judged(spent(owner, day), limits, config, whole=not owner), key=lambda one: one.share)
    if worst.level:
        lumia.annotate(budget=worst.reason)
    return worst


def spent(scope: str, day: str) -> Spent:
    """Return what a chat (or the bot: `BOT`) has spent on a day, `YYYY-MM-DD`."""
    return read(STORE.fields(_key(day), scope=scope))


def chats(day: str) -> list[str]:
    """Return the scopes that have spent something on a day."""
    return sorted(scope for shard in range(SHARDS) for scope in STORE.fields(f"chats:{day}:{shard}"))


def read(fields: Mapping[str, Any]) -> Spent:
    """Return what the counters of one chat and day say."""
    layers: dict[str, dict[str, int]] = {}
    told = set()
    for name, value in fields.items():
        layer, _, what = name.rpartition(".")
        if layer == _TOLD:
            told.add(int(what))
        elif what in Sum.__slots__:
            layers.setdefault(layer, {})[what] = int(value)
    return Spent({layer: Sum(**layers[layer]) for layer in sorted(layers)}, frozenset(told))


def today(config: Any, ago: int = 0) -> str:
    """Return the day it is in the bot's time zone, or was `ago` days ago, as `YYYY-MM-DD`."""
    now = datetime.fromtimestamp(lumia.system.now(), _timezone.of(config.timezone))
    return (now - timedelta(days=ago)).strftime("%Y-%m-%d")


def chat_limits(scope: str, config: Any) -> Limits:
    """Return the limits of one chat: its group's own, its platform's, or those for everyone."""
    place, tables = place_of(scope), []
    if place is not None:
        overrides = _overrides.of(config.overrides)
        named = (f"{place.platform}:{place.id}", place.id) if place.kind == "group" else ()
        tables = [overrides.group[name] for name in named if name in overrides.group]
        tables += [overrides.platform[place.platform]] if place.platform in overrides.platform else []

    def value(name: str) -> Any:
        own = (getattr(table, name) for table in tables)
        return next((given for given in own if given is not None), getattr(config, name))

    return Limits(value("daily_tokens"), value("daily_cost"))


def bot_limits(config: Any) -> Limits:
    """Return the limits of the bot as a whole."""
    return Limits(config.bot_daily_tokens, config.bot_daily_cost)


def judged(spent: Spent, limits: Limits, config: Any, *, whole: bool) -> Allowance:
    """Return what `limits` leave of a day of which so much is spent; whole: they are those of the whole bot."""
    total, of_bot = spent.total, "the bot's " if whole else ""
    shares = [(0.0, "")]
    if limits.tokens > 0:
        shares.append((total.tokens / limits.tokens, f"{of_bot}{limits.tokens:,} tokens today"))
    if limits.cost > 0:
        missing = f" ({unpriced(total.unpriced)} not counted)" if total.unpriced else ""
        shares.append((total.cost / limits.cost, f"{of_bot}{money(limits.cost)} today{missing}"))
    share, what = max(shares)
    level = sum(share >= begins for begins in _levels.of(config.budget_levels)) if what else 0
    if not level:
        return Allowance(share=share)
    role = config.budget_main_role if level >= 2 else "main"
    return Allowance(level, role, f"budget: {percent(share)} of {what}: {LEVELS[level]}", share)


def percent(share: float) -> str:
    """Return a share as `86 %`; never more than is reached."""
    return f"{math.floor(share * 100 + 1e-9)} %"


def money(dollars: float) -> str:
    """Return US dollars as `$2.00`, small sums with four digits after the point."""
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:,.4f}"


def unpriced(calls: int) -> str:
    """Return so many calls of unknown price, in words."""
    return f"{calls} call{'s' * (calls != 1)} of unknown price"


# --- telling the owners


def tell_owner(scope: str, config: Any, at: str = BOT) -> None:
    """Tell the owners of the level that a chat (or the bot: `BOT`) is at, once a day; commits with the step.

    at: the chat in which the bot got there; owners on its platform are told through the same account. A notice is no
    part of the talk with an owner: it is marked as the answers to commands are.
    """
    if not config.owners:
        return
    day = today(config)
    found = spent(scope, day)
    reached = judged(found, chat_limits(scope, config) if scope else bot_limits(config), config, whole=not scope)
    if not reached.level or reached.level in found.told:
        return
    STORE.incr(_key(day), field=f"{_TOLD}.{reached.level}", scope=scope, ttl=_kept(scope))
    text = notice(scope, found, reached, day, config)
    for to, meta, lane in addresses(config.owners, scope or at):
        named = hashlib.sha256(f"{day} {scope} {reached.level} {to}".encode(errors="replace")).hexdigest()[:32]
        content = {"text": text, "idempotency_key": f"heartflow-budget:{named}"}
        # Steps of two lanes may see the bot's level reached at the same moment: the second start is the first one.
        lumia.event.start(
            to, lumia.Box.any(content, meta={**meta, "command": "budget"}), key=lane or f"heartflow:owner:{named}",
            dedup=f"heartflow-budget:{named}", detach=True,
        )  # fmt: skip


def notice(scope: str, spent: Spent, reached: Allowance, day: str, config: Any) -> str:
    """Return what the owners are told, in plain words."""
    who, then = (f"the chat {shown(scope)}", "the bot there") if scope else ("the bot", "it")
    used = reached.reason.removeprefix("budget: ").rpartition(":")[0].replace("of the bot's ", "of ")
    layers = sorted(spent.layers.items(), key=lambda one: -one[1].tokens)
    most = ", ".join(f"{layer} {amount.tokens:,}" for layer, amount in layers[:6])
    return (
        f"Budget: {who} has used {used}. Until midnight ({_timezone.of(config.timezone)}) {then} "
        f"{_CONSEQUENCES[reached.level]}. Tokens of {day} by layer: {most}."
    )


def shown(scope: str) -> str:
    """Return a chat for the reader: `group 42 on qq`."""
    return str(place_of(scope) or scope)


def addresses(owners: Iterable[str], scope: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield destination, meta and lane of each owner's chat; never the chat that is being spoken of, if a group.

    An owner on the platform of `scope` is told through the same account. What can't be read is left out with a warning.
    """
    place = place_of(scope)
    for owner in owners:
        try:
            to = destination(owner)
        except lumia.errors.PayloadError as error:
            log.warning("config/heartflow.toml: owners: %s", error)
            continue
        account = place.account if place is not None and place.platform == to.platform else ""
        theirs = Place(to.platform, account, to.kind, to.id)
        if theirs != place or to.kind != "group":
            yield str(to), {"account": account} if account else {}, theirs.lane


def destination(owner: str) -> lumia.payloads.Destination:
    """Return the private chat that `platform:id` names, or the chat of a whole destination.

    Raises `lumia.errors.PayloadError` when it is neither.
    """
    if owner.startswith("msg.send, dest="):
        return lumia.payloads.parse_destination(owner)
    platform, colon, id = owner.partition(":")
    if not colon or not id or platform not in lumia.payloads.PIDS:
        raise lumia.errors.PayloadError(
            f"{owner!r} names no owner: write platform:id with one of {', '.join(lumia.payloads.PIDS)}, or a whole "
            "destination such as 'msg.send, dest=3.qq.private-10001'"
        )
    pid = lumia.payloads.PIDS[platform]
    return lumia.payloads.parse_destination(lumia.payloads.destination(pid, platform, "private", id))


# --- settings


def check(config: Any) -> None:
    """Refuse settings that could not be obeyed (raises `lumia.errors.ConfigValueError`)."""
    levels_in(config.budget_levels)
    zone_of(config.timezone)
    for owner in config.owners:
        try:
            destination(owner)
        except lumia.errors.PayloadError as error:
            raise _wrong(f"owners: {error}") from None
    _levels.of(config.budget_levels)  # what is in force when a running bot's are edited for the worse
    _timezone.of(config.timezone)


def levels_in(found: Sequence[float]) -> tuple[float, ...]:
    """Return at which shares the levels begin; raises `lumia.errors.ConfigValueError` for other than four in order."""
    levels = list(found)
    if len(levels) != len(LEVELS) - 1 or sorted(levels) != levels:
        raise _wrong(f"budget_levels = {levels!r} is wrong: four shares, none smaller than the one before")
    return tuple(levels)


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone; raises `lumia.errors.ConfigValueError` for a name that is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _wrong(f"timezone = {name!r} is wrong: an IANA name such as Europe/Berlin or Asia/Shanghai") from None


def _wrong(what: str) -> lumia.errors.ConfigValueError:
    return lumia.errors.ConfigValueError(f"config/heartflow.toml: {what}")


_overrides = LastGood()
_levels: LastValid[tuple[float, ...]] = LastValid(levels_in, (0.7, 0.85, 0.95, 1.0))
_timezone = LastValid(zone_of, ZoneInfo("UTC"))


def _key(day: str) -> str:
    return f"spent:{day}"


def _kept(scope: str) -> float:
    return (CHAT_DAYS if scope else BOT_DAYS) * _DAY
