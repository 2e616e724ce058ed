"""How a message of a platform becomes a run: one atomic start, after which the platform may be answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from lumia import gateway, runtime
from lumia.adapters.states import heard
from lumia.box import Box
from lumia.bus import event, pipe
from lumia.errors import BoxError
from lumia.payloads import dedup_key, lane

MSG = "msg"
_log = logging.getLogger("lumia.adapters")


class Arrival(NamedTuple):
    """What is started for a message. flow: pipe or event. also: the raw twin, if there is one."""

    flow: str
    id: str
    content: Box[Any]
    key: str
    dedup: str
    also: tuple[tuple[str, Box[Any]], ...] = ()


def accept(adapter: str, msg: dict[str, Any], raw: Any = None, *, meta: Mapping[str, Any] | None = None) -> str:
    """Accept a message and return its run id; the same message again gives the same run (spec §6.2).

    msg: what `lumia.payloads.message` returned. raw: what the platform sent, JSON values; it becomes event
    `msg.<platform>` in the same script. A message with files that nobody has fetched yet starts event
    `msg.media.<platform>` where somebody consumes that, and pipeline `msg` follows once they are here.

    Links that anybody may follow are not kept (`lumia.media.guarded`): those of `media` are sealed, those in `raw` lose
    their signature. A raw twin that can't be in a Box, e.g. since it is too large, is left out: event `msg.<platform>`
    does not happen then.

    meta: JSON values for the Box's meta besides account, chat and thread, e.g. {"backfilled": True} for what an outage
    delayed.

    Raises what `lumia.pipe.start` raises. The platform may be told that its message arrived only after this returned.
    """
    arrival = arrived(msg, raw, meta)
    flow = pipe if arrival.flow == "pipe" else event
    run_id = flow.start(arrival.id, arrival.content, key=arrival.key, dedup=arrival.dedup, also=arrival.also)
    heard(adapter, msg)
    return run_id


async def submit(adapter: str, msg: dict[str, Any], raw: Any = None, *, meta: Mapping[str, Any] | None = None) -> str:
    """Do what `accept` does, from a route or a socket of the gateway; also raises `lumia.gateway.BusyError`.

    What several requests submit at the same moment is committed by one trip to the broker.
    """
    bot = runtime.current()
    if bot.planned is None:
        await gateway.call(bot.refresh_routes)  # which waits for the broker
    arrival = arrived(msg, raw, meta)
    run_id = await gateway.start(
        arrival.id, arrival.content, flow=arrival.flow, key=arrival.key, dedup=arrival.dedup, also=arrival.also
    )
    heard(adapter, msg)
    return run_id


def arrived(msg: dict[str, Any], raw: Any = None, more: Mapping[str, Any] | None = None) -> Arrival:
    """Return what is to be started for a message, fit to be kept."""
    msg, raw = _guarded()(msg, raw)
    platform, account, chat = msg["platform"], msg["account"], msg["chat"]
    meta = {**(more or {}), "account": account, "chat": chat}
    if msg.get("thread") is not None:
        meta["thread"] = msg["thread"]
    key = lane(platform, account, chat["kind"], chat["id"])
    flow, id = _first(msg, platform)
    return Arrival(flow, id, Box.any(msg, meta=meta), key, dedup_key(key, msg["message_id"]), _twin(msg, raw))


@cache
def _guarded() -> Callable[..., tuple[dict[str, Any], Any]]:
    from lumia.media.links import guarded  # what fetches files needs this module

    return guarded


def _twin(msg: dict[str, Any], raw: Any) -> tuple[tuple[str, Box[Any]], ...]:
    if raw is None:
        return ()
    try:
        return ((f"{MSG}.{msg['platform']}", Box.any(raw, meta={"account": msg["account"]})),)
    except BoxError as error:
        _log.warning("%s/%s: message %s is accepted without what the platform sent: %s",
                     msg["platform"], msg["account"], msg["message_id"], error)  # fmt: skip
        return ()


def _first(msg: dict[str, Any], platform: str) -> tuple[str, str]:
    waiting = any(item.get("blob") is None and not item.get("error") for item in msg.get("media", ()))
    fetching = f"{MSG}.media.{platform}"
    if waiting and runtime.current().routes.plan("event", fetching).steps:
        return "event", fetching
    return "pipe", MSG
