"""Effects, and what a step reads."""

from __future__ import annotations

import tempfile
from typing import Any

import lumia

from .common import QUICK, acount_call, count_call, note


def pays(content: lumia.Box[Any]) -> None:
    """Make a call that costs, and get through at the third try."""
    value = content.into()
    paid = lumia.effect("paid call", count_call, value["file"])
    tries = count_call(value["file"] + ".tries")
    if tries < 3:
        raise RuntimeError(f"try {tries}")
    note(content, "paid", paid, "tries", tries)


@lumia.pipe.on("recovering", priv=1, retry=QUICK)
def recovers(content: lumia.Box[Any]) -> None:
    pays(content)
    lumia.utils.next()


@lumia.pipe.on("recovering async", retry=QUICK)
async def recovers_async(content: lumia.Box[Any]) -> None:
    value = content.into()
    await lumia.effect("paid call", acount_call, value["file"], kind="http")
    if count_call(value["file"] + ".tries") < 3:
        raise RuntimeError("once more")


@lumia.event.consumer("recovering consumers", retry=QUICK)
def one_of_two(content: lumia.Box[Any]) -> None:
    pays(content)


@lumia.event.consumer("recovering consumers")
def other_of_two(content: lumia.Box[Any]) -> None:
    """Make the retry of the first a run of its own."""


@lumia.pipe.on("opening and paying")
def opens_and_pays(content: lumia.Box[Any]) -> None:
    file = tempfile.TemporaryFile()  # noqa: SIM115 (handed over)
    value = content.into()
    lumia.pipe.start("paying inline", lumia.Box.any({"open": file, **value}))


@lumia.pipe.on("paying inline", retry=QUICK)
def pays_inline(content: lumia.Box[Any]) -> None:
    value = content.into()
    paid = lumia.effect("paid call", count_call, value["file"])
    if count_call(value["file"] + ".tries") < 3:
        raise RuntimeError("once more")
    lumia.store.append("seen", ["paid", paid], scope=value["scope"])


@lumia.pipe.on("holding", retry=QUICK)
def holds(content: lumia.Box[Any]) -> None:
    lumia.effect("once", fails_after_counting, content.into()["file"], policy="hold")


def fails_after_counting(path: str) -> None:
    count_call(path)
    raise OSError("no answer")


@lumia.pipe.on("reading")
def reads_twice(content: lumia.Box[Any]) -> None:
    scope = content.into()["scope"]
    lumia.system.now()
    for _ in range(3):
        lumia.store.get("absent", scope=scope)
    lumia.store.incr("counted", scope=scope)
    lumia.store.get("counted", scope=scope)
    note(content, "reads", lumia.store.get("counted", scope=scope))
