"""Lanes, children and the store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import lumia

from .common import QUICK, appeared, count_call, note


@lumia.pipe.on("lane", priv=2)
def in_lane(content: lumia.Box[Any]) -> None:
    value = content.into()
    note(content, value["n"], "begin")
    if "until" in value:
        appeared(value["until"])
    lumia.event.start("lane.child", content)


@lumia.event.consumer("lane.child")
def lane_child(content: lumia.Box[Any]) -> None:
    note(content, content.into()["n"], "child")


@lumia.pipe.on("pausing", priv=3)
def comes_first(content: lumia.Box[Any]) -> None:
    note(content, content.into()["n"], "before")
    lumia.utils.next()


@lumia.pipe.on("pausing", priv=2)
def makes_a_pause(content: lumia.Box[Any]) -> None:
    value = content.into()
    lumia.utils.next(lumia.Box.any({**value, "paused": True}), delay=value["pause"])


@lumia.pipe.on("pausing", priv=1)
def goes_on_later(content: lumia.Box[Any]) -> None:
    note(content, content.into()["n"], "after", content.into()["paused"])


@lumia.pipe.on("looking behind", retry=1)
def looks_behind(content: lumia.Box[Any]) -> None:
    value = content.into()
    if not appeared(value["until"]):
        raise RuntimeError("nobody came")
    asked = {name: value[name] for name in ("last", "first") if name in value}
    found = lumia.lanes.waiting(**asked)
    for one in found:
        if isinstance(one.content, dict):
            one.content["changed"] = True  # a copy: neither the record nor the run itself changes
    lumia.annotate(waiting=[[one.run_id, one.id, one.content, one.accepted] for one in found])
    lumia.annotate(again=len(lumia.lanes.waiting(**asked)))


@lumia.pipe.on("parts", priv=2)
def sends_parts(content: lumia.Box[Any]) -> None:
    for n in range(8):
        lumia.event.start("part", lumia.Box.any({**content.into(), "n": n}))
    lumia.utils.next()


@lumia.pipe.on("parts", priv=1)
def goes_on_meanwhile(content: lumia.Box[Any]) -> None:
    note(content, "parent saw a part", appeared(content.into()["file"], 5.0))


@lumia.event.consumer("part", retry=QUICK)
def part(content: lumia.Box[Any]) -> None:
    value = content.into()
    Path(value["file"]).touch()
    time.sleep(0.02 if value["n"] == 0 else 0)  # slow work, so that a part which didn't wait would be seen
    note(content, "part", value["n"])


@lumia.pipe.on("families", priv=1)
def parent(content: lumia.Box[Any]) -> None:
    value = content.into()
    if value["depth"]:
        child = {**value, "depth": value["depth"] - 1}
        lumia.pipe.start("families", lumia.Box.any(child))
        lumia.pipe.start("families", lumia.Box.any(child))
    note(content, "depth", value["depth"])


@lumia.pipe.on("crossing", priv=1)
def crosses_lanes(content: lumia.Box[Any]) -> None:
    lumia.pipe.start("order", content, key="another lane")


@lumia.pipe.on("detaching", priv=1)
def detaches(content: lumia.Box[Any]) -> None:
    lumia.pipe.start("order", content, key="another lane", detach=True)


@lumia.pipe.on("taking turns", retry=lumia.Retry(attempts=2, backoff=0.3, lane="release"))
def takes_turns(content: lumia.Box[Any]) -> None:
    value = content.into()
    if value.get("file") and count_call(value["file"]) < 2:
        raise RuntimeError("come back later")
    note(content, value["n"])


@lumia.event.consumer("fanned", retry=lumia.Retry(attempts=2, backoff=0.3, lane="release"))
def fanned_fails(content: lumia.Box[Any]) -> None:
    if count_call(content.into()["file"]) < 2:
        raise RuntimeError("come back later")
    note(content, content.into()["n"], "after all")


@lumia.event.consumer("fanned", priv=-1)
def fanned_works(content: lumia.Box[Any]) -> None:
    note(content, content.into()["n"], "at once")


@lumia.pipe.on("bursts")
def sees_burst(content: lumia.Box[Any]) -> None:
    parts = content.into()
    scope = parts[0]["scope"]
    lumia.store.append("seen", [[part["n"] for part in parts], content.meta], scope=scope)


@lumia.pipe.on("late")
def comes_late(content: lumia.Box[Any]) -> None:
    note(content, "late by", lumia.lanes.stale_by() > 0)


@lumia.pipe.on("starts rated")
def starts_rated(content: lumia.Box[Any]) -> None:
    key = "rated " + content.into()["scope"]
    lumia.pipe.start("order", content, key=key, detach=True, rate=lumia.Rate(1, per=2.0, over="reject"))
    note(content, "accepted")


@lumia.pipe.on("asks for a place")
def asks_for_a_place(content: lumia.Box[Any]) -> None:
    name = "place " + content.into()["scope"]
    places = [bool(lumia.limit(name, lumia.Rate(1, per=3600, burst=2))) for _ in range(3)]
    note(content, *places)


@lumia.pipe.on("has many children")
def has_many_children(content: lumia.Box[Any]) -> None:
    value = content.into()
    for n in range(4):
        lumia.pipe.start("lane", lumia.Box.any({**value, "n": n}))


@lumia.pipe.on("counting", priv=1)
def counts(content: lumia.Box[Any]) -> None:
    scope = content.into()["scope"]
    lumia.store.incr("n", scope=scope)
    lumia.store.incr("n", scope=scope)
    lumia.store.set("last", {"at": lumia.store.get("n", scope=scope)}, scope=scope)
    lumia.store.put("fields", "a", 1, scope=scope)
    lumia.store.incr("fields", 2, field="b", scope=scope, ttl=60)
    lumia.store.incr("fields", 3, field="b", scope=scope, ttl=60)


@lumia.pipe.on("conflicting", priv=1)
def conflicts(content: lumia.Box[Any]) -> None:
    scope = content.into()["scope"]
    lumia.store.append("fine", 1, scope=scope)
    lumia.store.append("seen", 1, scope=scope)
    lumia.store.set("seen2", 1, scope=scope)
    lumia.store.incr("text", scope=scope)


@lumia.pipe.on("sending", priv=1)
def sends(content: lumia.Box[Any]) -> None:
    lumia.event.start("msg.send, dest=9.probe.group-1", lumia.Box.any({"text": "hello"}))
    lumia.event.start("msg.send, dest=9.probe.group-1", lumia.Box.any("plain"))
