"""Events, chains and interceptors."""

from __future__ import annotations

from typing import Any

import lumia

from .common import QUICK, count_call, note


@lumia.event.consumer("news", priv=1)
def reads_late(content: lumia.Box[Any]) -> None:
    note(content, "late", content.into()["text"])


@lumia.event.consumer("news", priv=9)
def reads_early(content: lumia.Box[Any]) -> None:
    content.into()["text"] = "vandalised"
    content.meta["x"] = 1
    note(content, "early", content.into()["text"])


@lumia.event.consumer("news.broken", priv=9, retry=QUICK)
def breaks(content: lumia.Box[Any]) -> None:
    raise ValueError("can't read")


@lumia.event.consumer("news.broken", priv=1)
def reads_on(content: lumia.Box[Any]) -> None:
    note(content, "read on")


@lumia.event.consumer("news.flaky", priv=9, retry=QUICK)
def flaky(content: lumia.Box[Any]) -> None:
    if count_call(content.into()["file"]) < 3:
        raise ValueError("not yet")
    note(content, "at last")


@lumia.event.consumer("news.flaky", priv=1)
def not_waiting(content: lumia.Box[Any]) -> None:
    note(content, "not waiting")


@lumia.event.chain("refined", priv=5)
def refines(content: lumia.Box[Any]) -> lumia.Box[Any]:
    value = content.into()
    value["text"] = value["text"].upper()
    return lumia.Box.any(value)


@lumia.event.chain("refined", priv=4, retry=QUICK)
def refining_fails(content: lumia.Box[Any]) -> lumia.Box[Any]:
    raise ValueError("not today")


@lumia.event.chain("refined", priv=3)
def marks_it(content: lumia.Box[Any]) -> None:
    content.meta["refined"] = True


@lumia.event.consumer("refined", priv=1000)
def sees_refined(content: lumia.Box[Any]) -> None:
    note(content, content.into()["text"], content.meta)


@lumia.event.interceptor("guarded", priv=1)
def guard(content: lumia.Box[Any]) -> None:
    note(content, "guard")
    if content.into().get("bad"):
        lumia.utils.intercept("bad news")


@lumia.event.interceptor_re("guarde*", priv=0)
def second_guard(src: str, content: lumia.Box[Any]) -> None:
    note(content, "second guard")


@lumia.event.chain("guarded", priv=99)
def guarded_chain(content: lumia.Box[Any]) -> None:
    note(content, "chain")


@lumia.event.consumer("guarded", priv=9999)
def guarded_consumer(content: lumia.Box[Any]) -> None:
    note(content, "consumer")


@lumia.event.interceptor("closed", retry=QUICK)
def broken_guard(content: lumia.Box[Any]) -> None:
    raise RuntimeError("the guard is ill")


@lumia.event.consumer("closed")
def behind_broken_guard(content: lumia.Box[Any]) -> None:
    note(content, "passed")
