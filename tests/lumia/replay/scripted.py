"""Handlers whose content says what they do, so that a test can record any behaviour; and the recording itself."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Any

import lumia
from lumia.journal import JournalEntry
from lumia.replay import RecordedTree, Replayer, TreeReplay, recorded
from lumia.testing import Bot, ManualClock

QUICK = lumia.Retry(attempts=3, backoff=0.01)
CALLS: list[str] = []
"""Every call an effect made, in this process."""


def act(name: str, box: lumia.Box[Any]) -> None:
    """Do what the content's script says for handler `name`."""
    content = box.into()
    for action, *given in content.get(name, []):
        ACTIONS[action](box, content, *given)


def _call(value: Any) -> Any:
    CALLS.append(str(value))
    if value == "error":
        raise ValueError("the call failed")
    return {"answer": value}


def _effect(box: Any, content: Any, key: str, value: Any) -> None:
    found = lumia.effect(key, _call, value)
    lumia.store.set(f"answer-{key}", found)


def _effect_caught(box: Any, content: Any, key: str, value: Any) -> None:
    try:
        lumia.effect(key, _call, value)
    except ValueError as error:
        lumia.store.append("errors", str(error))


def _flaky(tag: str, tries: int) -> str:
    CALLS.append(tag)
    FAILED[tag] = FAILED.get(tag, 0) + 1
    if FAILED[tag] < tries:
        raise ConnectionError(f"failed {FAILED[tag]} times")
    return "at last"


def _limit(name: str) -> None:
    found = [lumia.limit(name, lumia.Rate(1, per=60.0)) for _ in range(3)]
    lumia.utils.stop(f"{[(bool(one), one.wait) for one in found]}")


def _fail_until(box: Any, content: Any, tries: int) -> None:
    lumia.store.set("flaky", lumia.effect("flaky", _flaky, content["tag"], tries))


FAILED: dict[str, int] = {}

ACTIONS: dict[str, Callable[..., Any]] = {
    "next": lambda box, content: lumia.utils.next(),
    "next later": lambda box, content: lumia.utils.next(delay=5.0),
    "next box": lambda box, content, text: lumia.utils.next(lumia.Box.any({**content, "text": text}, meta=box.meta)),
    "stop": lambda box, content, why: lumia.utils.stop(why),
    "intercept": lambda box, content, why: lumia.utils.intercept(why),
    "meta": lambda box, content, value: box.meta.__setitem__("mark", value),
    "read": lambda box, content, key: lumia.annotate(read=lumia.store.get(key)),
    "incr": lambda box, content, key: lumia.annotate(sum=lumia.store.incr(key)),
    "append": lambda box, content, key, value: lumia.store.append(key, value, keep=3),
    "limit": lambda box, content, name: _limit(name),
    "put": lambda box, content, field: lumia.store.put("fields", field, lumia.system.now()),
    "effect": _effect,
    "effect caught": _effect_caught,
    "chance": lambda box, content: lumia.store.set("chance", [lumia.system.random(), lumia.system.new_id()]),
    "now": lambda box, content: lumia.annotate(now=lumia.system.now()),
    "send": lambda box, content, text: lumia.event.start("msg.send, dest=1.console.private-ann", lumia.Box.any(text)),
    "event": lambda box, content, tag: lumia.event.start("told", lumia.Box.any({**content, "tag": tag})),
    "detached": lambda box, content: lumia.event.start("noted", lumia.Box.any("x"), detach=True),
    "twice": lambda box, content: lumia.event.start("noted", lumia.Box.any("x"), dedup="always the same"),
    "later": lambda box, content: lumia.event.start("noted", lumia.Box.any("x"), delay=5.0),
    "raise": lambda box, content, text: _raise(ValueError(text)),
    "fail until": _fail_until,
}


def _raise(error: Exception) -> None:
    raise error


@lumia.pipe.on("said", priv=3, retry=QUICK)
def first(box: lumia.Box[Any]) -> None:
    act("first", box)


@lumia.pipe.on("said", priv=2, retry=QUICK)
async def second(box: lumia.Box[Any]) -> None:
    await asyncio.sleep(0)
    act("second", box)


@lumia.pipe.on("said", priv=1, retry=QUICK)
def third(box: lumia.Box[Any]) -> None:
    act("third", box)


@lumia.event.interceptor("told", retry=QUICK)
def guard(box: lumia.Box[Any]) -> None:
    act("guard", box)


@lumia.event.chain("told", retry=QUICK)
def link(box: lumia.Box[Any]) -> lumia.Box[Any] | None:
    act("link", box)
    text = box.into().get("link text")
    return None if text is None else lumia.Box.any({**box.into(), "text": text})


@lumia.event.consumer("told", priv=1, retry=QUICK)
def hears(box: lumia.Box[Any]) -> None:
    act("hears", box)


@lumia.event.consumer("told", retry=QUICK)
def hears_too(box: lumia.Box[Any]) -> None:
    act("hears_too", box)


@lumia.event.consumer("noted")
def notes(box: lumia.Box[Any]) -> None:
    lumia.store.incr("noted")


@lumia.event.consumer_re("msg.send, dest=*")
def delivers(src: str, box: lumia.Box[Any]) -> None:
    lumia.effect("deliver", _call, box.into(), kind="send", policy="hold")


HANDLERS = (first, second, third, guard, link, hears, hears_too, notes, delivers)


def bot(*handlers: Any) -> Bot:
    """Return a bot of the scripted handlers, or of `handlers`, on a clock that stands still."""
    return Bot(*(handlers or HANDLERS), clock=ManualClock())


def journal(of: Bot) -> list[JournalEntry]:
    """Return everything in a bot's journal, as it comes back from a stream or a file."""
    entries: list[JournalEntry] = []
    while found := of.transport.tail(entries[-1].cursor if entries else "0", 0, 10_000):
        entries += found
    return [JournalEntry.load(entry.dump(), cursor=entry.cursor, time=entry.time) for entry in entries]


def trees(of: Bot) -> list[RecordedTree]:
    """Return the run trees in a bot's journal."""
    return recorded(journal(of))


def replayed(found: Iterable[RecordedTree], code: Bot) -> list[TreeReplay]:
    """Replay trees with the handlers of `code`."""
    return list(Replayer(code.runtime, code.table).replay_all(found))


def changed(entry: JournalEntry, **values: Any) -> JournalEntry:
    """Return an entry with other values."""
    return dataclasses.replace(entry, **values)


def told(done: TreeReplay) -> list[tuple[str, str, Any, Any]]:
    """Return (kind, field, recorded, replayed) of each difference."""
    return [(one.kind, one.field, one.recorded, one.replayed) for one in done.differences]


def plain(value: Any) -> Any:
    """Return JSON data as they are after a way through a file."""
    return json.loads(json.dumps(value))
