"""Runs on queues that their start names."""

from __future__ import annotations

from typing import Any

import lumia

from .common import note


@lumia.pipe.on("dispatching")
def dispatches(content: lumia.Box[Any]) -> None:
    lumia.event.start("dispatched", content, queue=content.into()["queue"])


@lumia.event.consumer("dispatched", priv=2)
def dispatched(content: lumia.Box[Any]) -> None:
    note(content, "one")


@lumia.event.consumer("dispatched", priv=1, queue="default")
def dispatched_too(content: lumia.Box[Any]) -> None:
    note(content, "two")


@lumia.event.consumer("hard", hard=True, queue="processes")
def hard(content: lumia.Box[Any]) -> None:
    note(content, "hard")
