"""The plugin under test: stages that note what they do; the last one appends the message's number in its commit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lumia

AGAIN = lumia.Retry(attempts=20, backoff=0.2, max_delay=2.0)
KEEP = 1_000_000
WORK_SECONDS = 0.002
SLOW_SECONDS = 0.2
"""Every tenth message takes its time, so that a kill finds steps at work."""


def _append(name: str, line: str) -> None:
    """Append a line to a file of the campaign's folder, with one write that no SIGKILL can tear."""
    file = os.open(Path(os.environ["LUMIA_CHAOS_FOLDER"]) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def _note(kind: str) -> None:
    step = lumia.context.required("the campaign's trace")
    claim = step.claim
    _append("trace", f"{kind} {time.monotonic():.6f} {os.getpid()} {claim.run_id} {claim.step} {step.step.handler}\n")


@contextmanager
def _noted() -> Iterator[None]:
    _note("s")
    try:
        yield
    except BaseException:
        _note("x")
        raise
    _note("e")


def _outside(line: str) -> str:
    """Do something that can't be taken back."""
    _append("effects", line + "\n")
    return line


def _finish(value: dict[str, Any]) -> None:
    lumia.store.append("done", value["n"], scope=value["group"], keep=KEEP)
    lumia.store.incr("count")


def _first(content: lumia.Box[Any]) -> None:
    with _noted():
        time.sleep(SLOW_SECONDS if content.into().get("n", 0) % 10 == 7 else WORK_SECONDS)
        lumia.utils.next()


def _second(content: lumia.Box[Any]) -> None:
    with _noted():
        value = content.into()
        policy = value.get("effect")
        if policy:
            lumia.effect("outside", _outside, f"{policy} {value['group']}/{value['n']}", policy=policy)
        lumia.event.start("chaos.child", lumia.Box.any({"group": value["group"], "n": value["n"]}))
        lumia.utils.next()


@lumia.pipe.on("chaos", priv=40, retry=AGAIN)
def first(content: lumia.Box[Any]) -> None:
    """Work a little."""
    _first(content)


@lumia.pipe.on("chaos", priv=30, retry=AGAIN)
def second(content: lumia.Box[Any]) -> None:
    """Start a child; some messages also do something outside."""
    _second(content)


@lumia.pipe.on("chaos", priv=10, retry=AGAIN)
def last(content: lumia.Box[Any]) -> None:
    """Put the message's number on its group's list."""
    with _noted():
        _finish(content.into())


@lumia.pipe.on("chaos.heavy", priv=40, retry=AGAIN)
def heavy_first(content: lumia.Box[Any]) -> None:
    """Work a little."""
    _first(content)


@lumia.pipe.on("chaos.heavy", priv=30, queue="heavy", retry=AGAIN)
def heavy_second(content: lumia.Box[Any]) -> None:
    """Start a child, in a prefork worker's process."""
    _second(content)


@lumia.pipe.on("chaos.heavy", priv=10, retry=AGAIN)
def heavy_last(content: lumia.Box[Any]) -> None:
    """Put the message's number on its group's list."""
    with _noted():
        _finish(content.into())


@lumia.event.consumer("chaos.child", retry=AGAIN)
def child(content: lumia.Box[Any]) -> None:
    """Put the child on its group's list."""
    with _noted():
        value = content.into()
        lumia.store.append("children", value["n"], scope=value["group"], keep=KEEP)


@lumia.pipe.on("msg", priv=40, retry=AGAIN)
def hook_first(content: lumia.Box[Any]) -> None:
    """Work a little on a message that came by HTTP."""
    _first(content)


@lumia.pipe.on("msg", priv=10, retry=AGAIN)
def hook_last(content: lumia.Box[Any]) -> None:
    """Answer the message and put its number on its group's list."""
    with _noted():
        msg = content.into()
        group, _, number = msg["text"].partition("/")
        value = {"group": group, "n": int(number)}
        reply = {"text": msg["text"], "reply_to": msg["message_id"]}
        lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any(reply))
        lumia.event.start("chaos.child", lumia.Box.any(value))
        _finish(value)


@lumia.pipe.on("chaos.long", retry=AGAIN)
def long(content: lumia.Box[Any]) -> None:
    """Be at it while the broker is away."""
    with _noted():
        time.sleep(content.into()["seconds"])


@lumia.pipe.on("chaos.poison", retry=1)
def poison(content: lumia.Box[Any]) -> None:
    """Kill the process that executes this."""
    _note("s")
    os.kill(os.getpid(), 9)


@lumia.pipe.on("chaos.hung", retry=1, timeout=1.5)
def hung(content: lumia.Box[Any]) -> None:
    """Never come back."""
    _note("s")
    threading.Event().wait()


@lumia.pipe.on("chaos.parked", queue="parked", retry=AGAIN)
def parked(content: lumia.Box[Any]) -> None:
    """Wait in a queue that nobody serves until it is revoked."""
    with _noted():
        pass


@lumia.cron("* * * * * *", missed="all", retry=AGAIN)
def tick(content: lumia.Box[Any]) -> None:
    """Note the second that was due."""
    lumia.store.append("due", content.into()["due"], keep=KEEP)
