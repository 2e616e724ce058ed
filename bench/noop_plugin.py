"""Four stages that do nothing; the last one counts, in its commit."""

from __future__ import annotations

from typing import Any

import lumia


@lumia.pipe.on("bench", priv=40)
def stage0(content: lumia.Box[Any]) -> None:
    """Go on."""
    lumia.utils.next()


@lumia.pipe.on("bench", priv=30)
def stage1(content: lumia.Box[Any]) -> None:
    """Go on."""
    lumia.utils.next()


@lumia.pipe.on("bench", priv=20)
def stage2(content: lumia.Box[Any]) -> None:
    """Go on."""
    lumia.utils.next()


@lumia.pipe.on("bench", priv=10)
def stage3(content: lumia.Box[Any]) -> None:
    """Count."""
    lumia.store.incr("done")
