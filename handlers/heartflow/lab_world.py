"""The world of a lab run: one group on an in-memory bot, under a clock that follows the log.

A message is started at its own time. A call of a model takes its role's seconds in the log's time (`Variant.seconds`):
while it lasts, the clock goes on, and what the log holds for these seconds waits in the group's lane as it would in a
running bot, so bursts, joins and cooldowns happen as they would have. Everything else takes no time. The ticks
(`cron.15m` and its like) come when they are due; where nothing is said for long, only the first and the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lumia
from lumia.testing import Bot, ManualClock

from .lab_log import Entry
from .lab_setup import HEARTFLOW, SetupError, Variant, configure, memory_settings

PLATFORM, ACCOUNT, PID = "lab", "lab", 199
TICKS = {"cron.1m": 60, "cron.5m": 300, "cron.15m": 900, "cron.1h": 3600, "cron.1d": 86400}
IDLE_TICKS = 8
"""Ticks of a kind that are fired after a message; of later ones only the last before the next message."""
AFTERWARDS = 1800.0
"""Seconds for which the world goes on after the last message."""


@dataclass
class Call:
    """One call of a model. run_id, step: where it was made. model: that answered, "" when none did."""

    role: str
    run_id: str
    step: int
    model: str = ""


@dataclass
class World:
    """What happened.

    entries: journal entries in their order. runs: run id → the message it began with. refused: why a message was not
    accepted, by the id that stands for its run.
    """

    bot_name: str
    persona: str
    lines: int
    entries: list[Any] = field(default_factory=list)
    runs: dict[str, Entry] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def live(
    log: Sequence[Entry],
    variant: Variant,
    root: Path,
    *,
    parts: Sequence[Any],
    progress: Callable[[], None] = lambda: None,
) -> World:
    """Let a group's log happen and return what came of it.

    parts: what the bot is made of, as `lumia.testing.Bot` takes it. progress: called once per message.

    Raises `SetupError` for settings or models that don't work.
    """
    clock = ManualClock(start=log[0].time)
    own = memory_settings() if variant.memory else {}
    with Bot(*parts, config=own, clock=clock, root=root, name=HEARTFLOW) as bot:
        configure(variant, bot.runtime.config)
        feed = _Feed(bot, clock, log, progress)
        bot.runtime.models = _PacedModels(variant, feed)
        _check_models(bot.runtime.models, variant)
        feed.run()
        return feed.world


def _check_models(models: lumia.models.Models, variant: Variant) -> None:
    for info in models.describe():
        if info.problem and info.role in variant.models:
            raise SetupError(f"--model {info.role}={variant.models[info.role]}: {info.problem}")


class _PacedModels(lumia.models.Models):
    """The bot's models; every call takes its role's seconds of the log's time."""

    def __init__(self, variant: Variant, feed: _Feed) -> None:
        config = lumia.runtime.current().config
        assert config is not None
        super().__init__(
            config.table("models"), variant.environ, effect=lumia.effect, recorded=lumia.recorded,
            clock=lumia.system.now, random=lumia.system.random, bot_name=feed.world.bot_name,
        )  # fmt: skip
        self._seconds, self._feed = variant.seconds, feed

    def chat(self, role: str, messages: Iterable[Mapping[str, Any]], **options: Any) -> lumia.models.Reply:
        """Return the answer of `role`, its seconds later."""
        call = self._begun(role)
        try:
            reply = super().chat(role, messages, **options)
            call.model = reply.model
            return reply
        finally:
            self._feed.pass_by(self._seconds.get(role, 0.0))

    async def achat(self, role: str, messages: Iterable[Mapping[str, Any]], **options: Any) -> lumia.models.Reply:
        """Return the answer of `role`, its seconds later."""
        call = self._begun(role)
        try:
            reply = await super().achat(role, messages, **options)
            call.model = reply.model
            return reply
        finally:
            self._feed.pass_by(self._seconds.get(role, 0.0))

    def _begun(self, role: str) -> Call:
        step = lumia.context.here()
        run_id, index = (step.claim.run_id, step.claim.step) if step is not None else ("", 0)
        call = Call(role, run_id, index)
        self._feed.world.calls.append(call)
        return call


class _Feed:
    """Starts what the log and the calendar hold, each at its time."""

    def __init__(self, bot: Bot, clock: ManualClock, log: Sequence[Entry], progress: Callable[[], None]) -> None:
        registered = HEARTFLOW in bot.runtime.config.plugins() if bot.runtime.config is not None else False
        config: Any = lumia.config.get(HEARTFLOW) if registered else None
        name = str(lumia.config.get("lumia").bot.name)
        lines = next((found for key in ("context_lines", "history_lines") if (found := _setting(config, key))), 20)
        self.world = World(name, str(_setting(config, "persona") or ""), int(lines))
        self._bot, self._clock, self._progress = bot, clock, progress
        self._log = list(log)
        self._cursor = "0"
        self._end = log[-1].time + AFTERWARDS
        handled = {id: every for id, every in TICKS.items() if bot.runtime.routes.plan("event", id).steps}
        self._ticks = {id: _next(self._clock.now(), every) for id, every in handled.items()}
        self._idle = dict.fromkeys(handled, 0)

    def run(self) -> None:
        """Let everything happen, from the first message until nothing is left to do."""
        while (at := self._nearest(self._end)) is not None:
            self._bot.settle(max(0.0, at - self._clock.now()))
            self._start_due()
            self._bot.settle()
            self._read()
        self._bot.settle(max(0.0, self._end - self._clock.now()))
        self._read()

    def pass_by(self, seconds: float) -> None:
        """Let `seconds` pass while a step is under way; what the log holds for them waits for its turn."""
        until = self._clock.now() + seconds
        while (at := self._nearest(until)) is not None:
            self._clock.move(max(0.0, at - self._clock.now()))
            # In a context of its own: here a handler runs, whose starts would wait for its commit.
            Context().run(self._start_due)
        self._clock.move(max(0.0, until - self._clock.now()))

    def _nearest(self, until: float) -> float | None:
        """Return when the next thing of log or calendar is due, None when that is later than `until`."""
        due = [*self._ticks.values(), *([self._log[0].time] if self._log else [])]
        first = min(due, default=None)
        return first if first is not None and first <= until else None

    def _start_due(self) -> None:
        with self._bot.runtime.activated():
            now = self._clock.now()
            for id, moment in list(self._ticks.items()):
                if moment <= now:
                    self._tick(id, moment)
            while self._log and self._log[0].time <= now:
                self._say(self._log.pop(0))

    def _tick(self, id: str, moment: float) -> None:
        every = TICKS[id]
        lumia.event.start(id, lumia.Box.any({"schedule": id, "due": moment}))
        self._idle[id] += 1
        following = _next(moment, every)
        if self._idle[id] >= IDLE_TICKS and self._log:
            following = max(following, self._log[0].time // every * every)
        self._ticks[id] = following

    def _say(self, entry: Entry) -> None:
        try:
            run_id = _started(entry, self.world.bot_name)
        except lumia.errors.LumiaError as error:
            run_id = f"refused {entry.message_id}"
            self.world.refused[run_id] = str(error)
        self.world.runs[run_id] = entry
        self._idle = dict.fromkeys(self._idle, 0)
        self._progress()

    def _read(self) -> None:
        """Take over what the journal tells, before its oldest entries make room."""
        while told := lumia.runs.tail(self._cursor, 0.0, 1000):
            self.world.entries += told
            self._cursor = told[-1].cursor


def _started(entry: Entry, bot_name: str) -> str:
    lane = lumia.payloads.lane(PLATFORM, ACCOUNT, "group", entry.group_id)
    box = lumia.Box.any(payload(entry, bot_name), meta={"pid": PID})
    return lumia.pipe.start("msg", box, key=lane, dedup=lumia.payloads.dedup_key(lane, entry.message_id))


def payload(entry: Entry, bot_name: str) -> dict[str, Any]:
    """Return the `msg` payload of a line, as an adapter would make it.

    Without `mentions_bot` in the log the text tells, as in the console. `reply_to` goes on as it is: `bot:<message_id>`
    is the bot's answer to that message, and the reply segment says that the bot wrote it, whether it did here or not.
    """
    mentioned = lumia.payloads.names_bot(entry.text, bot_name) if entry.mentions is None else entry.mentions
    quote = [{"type": "reply", "data": _quoted(entry.reply_to)}] if entry.reply_to else []
    named = {"reply_to": entry.reply_to} if entry.reply_to else {}
    return lumia.payloads.message(
        platform=PLATFORM, account=ACCOUNT, chat={"kind": "group", "id": entry.group_id},
        sender={"id": entry.sender_id, "name": entry.sender_name}, text=entry.text, message_id=entry.message_id,
        time=entry.time, mentions=[{"id": ACCOUNT, "name": bot_name}] if mentioned else [], mentions_bot=mentioned,
        segments=[*quote, {"type": "text", "data": {"text": entry.text}}], **named,
    )  # fmt: skip


def _quoted(id: str) -> dict[str, str]:
    return {"id": id, "sender_id": ACCOUNT} if id.startswith("bot:") else {"id": id}


def _next(after: float, every: float) -> float:
    return (after // every + 1) * every


def _setting(config: Any, key: str) -> Any:
    return getattr(config, key, None)
