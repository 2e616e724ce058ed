"""What a replay meets: sends, children, retries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lumia

from .common import QUICK, note


@lumia.pipe.on("relay", priv=2)
def relays(content: lumia.Box[Any]) -> None:
    """Send, and start what sends on its own: attached, detached, and in a retry."""
    told(content, "relay")
    lumia.event.start("relayed", content.clone())
    lumia.event.start("relayed", lumia.Box.any({**content.into(), "apart": True}), detach=True)
    content.meta["rolled"] = lumia.system.random()
    lumia.utils.next()


@lumia.pipe.on("relay", priv=1)
def sends_itself(content: lumia.Box[Any]) -> None:
    note(content, "before", lumia.system.now() > 0)
    lumia.effect("direct", note_outside, content.into()["folder"], "direct", kind="send")


@lumia.event.consumer("relayed", priv=2, retry=QUICK)
def tells_at_the_second_try(content: lumia.Box[Any]) -> None:
    name = "apart" if content.into().get("apart") else "along"
    lumia.effect("once", fails_once, content.into()["folder"], name)
    told(content, name)


@lumia.event.consumer("relayed", priv=1)
def counts_relayed(content: lumia.Box[Any]) -> None:
    lumia.annotate(total=lumia.store.incr("relayed", scope=content.into()["scope"]))


@lumia.event.consumer_re("msg.send, dest=8.*")
def delivers(src: str, content: lumia.Box[Any]) -> None:
    given = content.into()
    lumia.effect("deliver", note_outside, given["folder"], f"delivered {given['text']}", kind="send", policy="hold")


def told(content: lumia.Box[Any], text: str) -> None:
    lumia.event.start("msg.send, dest=8.probe.group-1", lumia.Box.any({**content.into(), "text": text}))


def note_outside(folder: str, what: str) -> None:
    """Leave a trace in the world outside, which no replay may."""
    with (Path(folder) / "outside").open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


def fails_once(folder: str, name: str) -> str:
    marker = Path(folder) / f"failed-{name}"
    if not marker.exists():
        marker.touch()
        raise ConnectionError("not yet")
    return name
