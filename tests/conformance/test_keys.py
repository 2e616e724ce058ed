"""docs/redis.md names every key and channel that a bot at work leaves in Redis, be it for a moment only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.paths import base
from lumia.runtime import Runtime
from tasks.keys import PREFIX
from tasks.scripts import MORE, NAMES, source
from tests.conformance.conftest import Probe
from tests.support.wait import until

PAGE = (base() / "docs" / "redis.md").read_text(encoding="utf-8")
EVENTS = "__keyevent@0__:"
BROKER = re.compile(r"_kombu\.binding.+|.+\.reply\.celery\.pidbox")
"""Keys that are kombu's own; the page says so."""


def documented() -> list[str]:
    """Return the names in the first column of the page's first table, as `r:<run>`."""
    table = PAGE.partition("| key | type | what |")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.partition(" | ")[0])]
    assert len(names) > 40
    return names


def unknown(keys: set[str]) -> list[str]:
    """Return the keys that fit no name of the page."""
    known = re.compile("|".join(re.sub(r"<[^>]*>", "(?s:.+)", re.escape(name)) for name in documented()))
    return sorted(key for key in keys if not known.fullmatch(key))


@pytest.fixture
def bot(celery_runtime: Runtime) -> Iterator[Probe]:
    with celery_runtime.activated():
        yield Probe(celery_runtime)


def work(bot: Probe, folder: Path) -> None:
    """Have the bot do something of every kind."""
    key, file = f"lane {bot.scope}", str(folder / "calls")
    runs = [lumia.pipe.start("lane", bot.content(n=n), key=key, dedup=f"{key} {n}") for n in range(3)]
    runs += [lumia.pipe.start("bursts", bot.content(n=n), key=key + "b", collect=0.1, dedup=f"{n}") for n in range(2)]
    runs.append(lumia.pipe.start("order", bot.content(), key=key, rate=lumia.Rate(5), priority=9))
    runs.append(lumia.pipe.start("order", bot.content(), delay=0.1))
    for id in ("elsewhere", "counting", "starts rated", "asks for a place", "families", "detaching", "sending"):
        runs.append(lumia.pipe.start(id, bot.content(depth=2)))
    runs.append(lumia.pipe.start("recovering", bot.content(file=file)))
    runs.append(lumia.event.start("parts", bot.content(file=file + ".parts")))
    failed = lumia.pipe.start("holding", bot.content(file=file + ".held"), key=key)
    cancelled = lumia.pipe.start("order", bot.content(), delay=3600)
    bot.runtime.transport.cancel(cancelled, "enough")
    for run in [*runs, failed]:
        bot.wait(run)
    (letter,) = (one for one in bot.runtime.transport.dead() if one.run_id == failed)
    lumia.store.of("probe").set("outside", 1, scope=bot.scope)
    assert letter.error


def test_every_key_and_channel_of_a_bot_at_work_is_documented(bot: Probe, tmp_path: Path) -> None:
    redis: Any = bot.runtime.transport.redis  # type: ignore[attr-defined]
    redis.config_set("notify-keyspace-events", "EA")
    keys, channels = {key.decode() for key in redis.scan_iter()}, set()
    with redis.pubsub(ignore_subscribe_messages=True) as heard:
        heard.psubscribe("*")
        heard.get_message(timeout=5)
        work(bot, tmp_path)
        redis.set("the end", "")

        def ended() -> bool:
            message = heard.get_message(timeout=0.1)
            if message is None:
                return False
            channel, data = message["channel"].decode(), message["data"]
            if channel.startswith(EVENTS):
                keys.add(data.decode())
            else:
                channels.add(channel)
            return "the end" in keys

        until(ended, timeout=30)
    redis.config_set("notify-keyspace-events", "")
    redis.delete("the end")
    keys.remove("the end")
    ours = {name.removeprefix(PREFIX) for name in keys | channels if name.startswith(PREFIX)}
    assert {"seq", "claims", "lanes", "journal", "dead", "open", "delayed", "done"} <= ours
    assert unknown(ours) == []
    queues = "|".join(map(re.escape, bot.runtime.transport.queues()))  # type: ignore[attr-defined]
    lists = re.compile(rf"({queues})(:(-1|3|6|9))?")
    others = {name for name in keys if not name.startswith(PREFIX) and not lists.fullmatch(name)}
    assert sorted(name for name in others if not BROKER.fullmatch(name)) == []


def test_every_key_and_channel_that_a_script_names_is_documented() -> None:
    text = "".join(source(name) for name in (*NAMES, *MORE))
    named = set(re.findall(r"P \.\. '([^']+)'", text))
    heads = {name.partition("<")[0] for name in documented()}
    assert len(named) > 30
    assert sorted(named - heads) == []
