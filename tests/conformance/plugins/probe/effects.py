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


def busy(path: str, times: int, wait: float) -> int:
    """Be the platform that says `times` times when to come back."""
    calls = count_call(path)
    if calls <= times:
        raise lumia.errors.RetryAfterError(f"call {calls} is one too many", wait=wait)
    return calls


@lumia.pipe.on("coming back soon", retry=lumia.Retry(attempts=2, backoff=50))
def comes_back_soon(content: lumia.Box[Any]) -> None:
    comes_back(content)


@lumia.pipe.on("coming back", retry=1)
def comes_back(content: lumia.Box[Any]) -> None:
    value = content.into()
    calls = lumia.effect("busy", busy, value["file"], value["times"], value["wait"], policy="hold", kind="send")
    note(content, "called", calls)


@lumia.event.consumer("coming back consumers", retry=1)
def comes_back_as_one_of_two(content: lumia.Box[Any]) -> None:
    comes_back(content)


@lumia.event.consumer("coming back consumers")
def does_not_wait_for_it(content: lumia.Box[Any]) -> None:
    note(content, "other")


@lumia.pipe.on("coming back and failing", retry=QUICK)
def comes_back_and_fails(content: lumia.Box[Any]) -> None:
    value = content.into()
    calls = count_call(value["file"])
    if calls in value["busy"]:
        raise lumia.errors.RetryAfterError("busy", wait=0.02)
    raise RuntimeError(f"call {calls}")


@lumia.pipe.on("refused for good", retry=QUICK)
def is_refused(content: lumia.Box[Any]) -> None:
    lumia.effect("refused", refuse, content.into()["file"], policy="hold", kind="send")


def refuse(path: str) -> None:
    count_call(path)
    raise lumia.errors.RejectedError("the bot was blocked by the user")


@lumia.pipe.on("not reached", retry=QUICK)
def is_not_reached(content: lumia.Box[Any]) -> None:
    note(content, "called", lumia.effect("unreached", reached_at_last, content.into()["file"], policy="hold"))


def reached_at_last(path: str) -> int:
    calls = count_call(path)
    if calls < 3:
        raise lumia.errors.UnreachableError("connection refused")
    return calls


@lumia.pipe.on("keeping while failing", retry=2)
def keeps_while_failing(content: lumia.Box[Any]) -> None:
    from lumia.adapters.sends import write
    from lumia.ports import StoreOp
    from lumia.store import stored_name

    key = stored_name("probe", content.into()["scope"], "kept")
    lumia.store.incr("lost", scope=content.into()["scope"])
    write([StoreOp("incr", key, "1")], failed=True)
    raise RuntimeError("as ever")
