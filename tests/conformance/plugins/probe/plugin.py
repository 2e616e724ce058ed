"""Handlers that the conformance suite watches: each notes in the store what it saw, in the scope its content names.

Here are pipelines and live resources; the modules beside it hold the rest.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import lumia

from . import adapter, dead, effects, events, lanes, media, queues, relay, tools
from .common import QUICK, note

__all__ = ["adapter", "dead", "effects", "events", "lanes", "media", "queues", "relay", "tools"]


@lumia.pipe.on("order", priv=200)
def first(content: lumia.Box[Any]) -> None:
    note(content, "first")
    lumia.utils.next()


@lumia.pipe.on("order", priv=50)
def second(content: lumia.Box[Any]) -> None:
    note(content, "second")
    lumia.utils.next()


@lumia.pipe.on("order", priv=50)
def second_again(content: lumia.Box[Any]) -> None:
    note(content, "second_again")
    lumia.utils.next()


@lumia.pipe.on("order", priv=-3)
def last(content: lumia.Box[Any]) -> None:
    note(content, "last")
    lumia.utils.next()


@lumia.pipe.on("stopping", priv=2)
def stopper(content: lumia.Box[Any]) -> None:
    if content.into().get("why"):
        lumia.utils.stop(content.into()["why"])


@lumia.pipe.on("stopping", priv=1)
def never_reached(content: lumia.Box[Any]) -> None:
    note(content, "reached")


@lumia.pipe.on("changing", priv=3)
def changes(content: lumia.Box[Any]) -> None:
    value = content.into()
    value["n"] = value["n"] + 1
    lumia.utils.next(lumia.Box.any(value, meta=content.meta))


@lumia.pipe.on("changing", priv=2)
def edits_meta(content: lumia.Box[Any]) -> None:
    content.into()["n"] = 99
    content.meta["force_engage"] = True
    lumia.utils.next()


@lumia.pipe.on("changing", priv=1)
def sees(content: lumia.Box[Any]) -> None:
    note(content, content.into()["n"], content.meta)


@lumia.pipe.on("failing", priv=2, retry=QUICK)
def fails(content: lumia.Box[Any]) -> None:
    left = lumia.effect("count", lambda: None)
    assert left is None
    note(content, "never committed")
    raise RuntimeError("no luck")


@lumia.pipe.on("twice", priv=1)
def calls_next_twice(content: lumia.Box[Any]) -> None:
    lumia.utils.next()
    lumia.utils.next()


@lumia.pipe.on("rubbish", priv=1)
def returns_rubbish(content: lumia.Box[Any]) -> object:
    return {"not": "a box"}


@lumia.pipe.on("typed", priv=1)
def wants_text(content: lumia.Box[str]) -> None:
    content.into()


@lumia.pipe.on("exits", priv=1)
def exits(content: lumia.Box[Any]) -> None:
    raise SystemExit("I leave")


@lumia.pipe.on("async", priv=1)
async def asynchronous(content: lumia.Box[Any]) -> None:
    await asyncio.sleep(0)
    note(content, "async")
    lumia.utils.next()


@lumia.pipe.on("async hangs", priv=1, timeout=0.2, retry=1)
async def hangs(content: lumia.Box[Any]) -> None:
    await asyncio.Event().wait()


@lumia.pipe.on_re("glob.*.end", priv=5)
def globbed(src: str, content: lumia.Box[Any]) -> None:
    note(content, src)
    lumia.utils.next()


@lumia.pipe.on("elsewhere", priv=2)
def here(content: lumia.Box[Any]) -> None:
    note(content, "here")
    lumia.utils.next()


@lumia.pipe.on("elsewhere", priv=1, queue="slow")
def there(content: lumia.Box[Any]) -> None:
    note(content, "there")


# --- live resources


@lumia.pipe.on("opening", priv=1)
def opens(content: lumia.Box[Any]) -> None:
    file = Path(content.into()["file"]).open("w+")  # noqa: SIM115 (the Box closes it, that is the point)
    lumia.pipe.start("file", lumia.Box.any({"scope": content.into()["scope"], "file": file}))
    note(content, "closed before the commit", file.closed)


@lumia.pipe.on("file", priv=2, retry=QUICK)
def writes(content: lumia.Box[Any]) -> None:
    value = content.into()
    value["file"].write("x")
    value["file"].flush()
    if os.path.getsize(value["file"].name) < 2:
        raise OSError("once more")
    lumia.utils.next()


@lumia.pipe.on("file", priv=1)
def reads(content: lumia.Box[Any]) -> None:
    note(content, "in the file", os.path.getsize(content.into()["file"].name), "by", os.getpid() > 0)
