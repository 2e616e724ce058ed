"""Accepting what a platform sent, as it is fit to be kept: without links that anybody may follow, and not too large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumia.adapters.inbound import submit
from lumia.errors import BoxTooLargeError


async def take(adapter: str, msg: dict[str, Any], raw: Any = None, *, meta: Mapping[str, Any] | None = None) -> str:
    """Do what `submit` does, with what `lumia.media.guarded` makes of the message and its raw twin.

    A message that is too large together with its raw twin is accepted without that: the pipeline `msg` hears it, event
    `msg.<platform>` does not happen. Raises what `submit` raises.
    """
    from lumia.media.links import guarded

    msg, raw = guarded(msg, raw)
    try:
        return await submit(adapter, msg, raw, meta=meta)
    except BoxTooLargeError:
        if raw is None:
            raise
        return await submit(adapter, msg, meta=meta)
