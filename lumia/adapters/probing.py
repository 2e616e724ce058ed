"""Sending an account's owner a message, to see that sending works."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from lumia import payloads, runs, runtime, system
from lumia.adapters import receipts, sends
from lumia.adapters.configured import Configured
from lumia.adapters.outbound import send_id_of
from lumia.adapters.sends import FAILED, HELD, REJECTED, SENT, UNKNOWN, Send
from lumia.box import Box
from lumia.bus import event
from lumia.errors import PayloadError, RunTimeoutError

ENDED = (SENT, REJECTED, FAILED, HELD, UNKNOWN)
_GLANCE = 0.25


@dataclass(frozen=True)
class Probed:
    """What became of a probe. where: the chat as people read it. seconds: how long it took."""

    state: str
    where: str
    seconds: float
    message_id: str = ""
    why: str = ""


def probe(one: Configured, timeout: float) -> Probed:
    """Send a message to an account's owner and wait up to `timeout` seconds until it is known what became of it.

    Raises `PayloadError` when nothing here delivers to the platform, `BackendUnavailableError` without a running bot.
    """
    src, key = one.destination, system.new_id()
    to, began = payloads.parse_destination(src), time.monotonic()
    where = f"{to.kind} {to.id}"
    bot = runtime.current()
    if not bot.routes.plan("event", src).steps:
        raise PayloadError(f"no handler of the running bot delivers {src!r}: is a worker running that has the adapter?")
    text = f"This is a test message of {bot.config.core.bot.name if bot.config else 'Lumia'} ({one.name})."
    run_id = event.start(src, Box.any({"text": text, "idempotency_key": key}, meta={"account": one.account}))
    with suppress(RunTimeoutError):
        handed_on = runs.wait(run_id, timeout)
        if handed_on.outcome != "done":
            return Probed(str(handed_on.outcome), where, time.monotonic() - began, why=handed_on.reason)
    cursor = runs.cursor()
    send_id = send_id_of(one.plugin.name, one.account, to, key)
    while True:
        send, seconds = sends.find(send_id), time.monotonic() - began
        if send is not None and send.state in ENDED:
            return Probed(send.state, where, seconds, _message_id(send), send.why)
        if seconds >= timeout:
            state = send.state if send is not None else "not delivered"
            return Probed(state, where, seconds, why=_late(send, timeout))
        entries = runs.tail(cursor, _GLANCE)
        cursor = entries[-1].cursor if entries else cursor


def _late(send: Send | None, timeout: float) -> str:
    if send is None:
        return f"no worker has taken it in {timeout:g} s; see `lumia status`"
    return send.why or f"no receipt in {timeout:g} s; see `lumia dead list` and `lumia effects list`"


def _message_id(send: Send) -> str:
    found = receipts.of_send(send)
    return found[0].message_id if found else ""
