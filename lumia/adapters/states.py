"""How each account of this process fares, told to the store by a thread of its own: never on the way of a message."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lumia import runtime
from lumia.adapters.names import ACCOUNTS, EVENTS, account_field, key_of
from lumia.errors import LumiaError

if TYPE_CHECKING:
    from lumia.ports import StoreOp
    from lumia.runtime import Runtime

CONNECTED, CONNECTING, LISTENING = "connected", "connecting", "listening"
DISCONNECTED, OFFLINE, REFUSED, DISABLED = "disconnected", "offline", "refused", "disabled"
UNSEEN, LOST = "unseen", "lost"
"""unseen: configured, and no gateway has spoken of it yet. lost: the gateway that spoke of it is gone."""
ALIVE = (CONNECTED, CONNECTING, LISTENING)
EVERY = 3.0
"""Seconds between two times that news are written, unless an account's state has changed."""
BEAT = 15.0
"""Seconds after which a process repeats what it said, so that its silence can be told from its end."""
LOST_AFTER = 60.0
_MAX_DETAIL = 300
_log = logging.getLogger("lumia.adapters")


@dataclass
class Standing:
    """What is known of an account. since: when it entered its state; seen: when its process last said so."""

    adapter: str
    account: str
    platform: str
    state: str
    detail: str
    since: float
    gateway: str
    seen: float


class AccountState:
    """How one account fares in this process; every call is quick and may be made on an event loop."""

    def __init__(self, board: Board, standing: Standing) -> None:
        self._board, self.standing = board, standing
        self._held, self._why = 0, ""
        self._left_out, self._last = 0, ""
        self.heard_at = 0.0
        self.lag: float | None = None
        self.stale = self.news = False

    @property
    def state(self) -> str:
        """Return the state it is in."""
        return self.standing.state

    def connected(self, detail: str = "") -> None:
        """Its connection is up; detail: e.g. who it is at the platform."""
        self._enter(CONNECTED, detail)

    def connecting(self, detail: str = "") -> None:
        """Its connection is being opened."""
        self._enter(CONNECTING, detail)

    def listening(self, detail: str = "") -> None:
        """Its webhook waits for the platform."""
        self._enter(LISTENING, detail)

    def disconnected(self, why: str) -> None:
        """Its connection is down; it will be opened again."""
        self._enter(DISCONNECTED, why)

    def offline(self, why: str) -> None:
        """The platform says that the account is not in use, e.g. since it was logged out."""
        self._enter(OFFLINE, why)

    def refused(self, why: str) -> None:
        """The platform refuses its credentials."""
        self._enter(REFUSED, why)

    def disabled(self) -> None:
        """It is switched off in its settings."""
        self._enter(DISABLED, "")

    def event(self, sent: float | None = None) -> None:
        """Note that something arrived; sent: when the platform says it was, in seconds since 1970."""
        self.heard_at = self._board.now()
        self.lag = None if sent is None else round(max(0.0, self.heard_at - sent), 3)
        if not self.news:
            self.news = True
            self._board.wake(soon=False)

    def holding(self, why: str) -> Callable[[], None]:
        """Note that something which arrived can't be stored yet; to be called when it is, or was given up."""
        if not self._held:
            _log.warning("%s/%s holds back what arrives: %s", self.standing.adapter, self.standing.account, why)
        self._hold(1, why)
        return partial(self._hold, -1, "")

    def leaves_out(self, what: str, error: Exception) -> None:
        """Note that something which arrived could not be taken. what: e.g. "message 12"; error: why not."""
        self._left_out += 1
        self._last = f"{what}: {type(error).__name__}: {error}"
        self.stale = True
        self._board.wake(soon=False)

    @property
    def detail(self) -> str:
        """Return what there is to say about its state."""
        held = f"holds {self._held} back: {self._why}" if self._held else ""
        left_out = f"{self._left_out} could not be taken, the last: {self._last}" if self._left_out else ""
        return "; ".join(filter(None, (self.standing.detail, *map(self._board.shown, (held, left_out)))))

    def _hold(self, more: int, why: str) -> None:
        self._held, self._why = self._held + more, why or self._why
        self.stale = True
        self._board.wake(soon=False)

    def _enter(self, state: str, detail: str) -> None:
        standing, detail = self.standing, self._board.shown(detail)
        if (standing.state, standing.detail) == (state, detail):
            return
        standing.since = self._board.now() if standing.state != state else standing.since
        standing.state, standing.detail = state, detail
        self.stale = True
        self._board.wake(soon=True)


class Board:
    """The accounts of one bot in this process, and the thread that tells of them."""

    def __init__(self, bot: Runtime) -> None:
        self._bot = bot
        self._gateway = bot.worker  # kept: the runtime gets another name when the process begins to serve steps
        self._states: dict[tuple[str, str], AccountState] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._hurry = self._closing = False

    def account(self, adapter: str, name: str, platform: str) -> AccountState:
        """Return the one state of an account."""
        known = self._states.get((adapter, name))
        if known is not None:
            return known
        account_field(adapter, name)  # which refuses what can't be a name
        with self._changed:
            if (adapter, name) not in self._states:
                now = self.now()
                standing = Standing(adapter, name, platform or adapter, UNSEEN, "", now, self._gateway, now)
                self._states[adapter, name] = AccountState(self, standing)
            return self._states[adapter, name]

    def now(self) -> float:
        """Return the seconds since 1970."""
        return round(self._bot.clock.now(), 3)

    def shown(self, text: str) -> str:
        """Return a detail as it may be shown: one line without secrets."""
        return " ".join(self._bot.redact(text).split())[:_MAX_DETAIL]

    def wake(self, *, soon: bool) -> None:
        """See that what is new is written: at once, or when it is time."""
        with self._changed:
            self._hurry = self._hurry or soon
            if self._closing:
                return
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="lumia-accounts", daemon=True)
                self._thread.start()
            if (
                soon
            ):  # else the thread looks when it is time; waking it for every message would cost more than the message
                self._changed.notify()

    def _serve(self) -> None:
        beat = 0.0
        while not self._closing:
            with self._changed:
                self._changed.wait_for(lambda: self._hurry or self._closing, EVERY)
                self._hurry = False
            again = time.monotonic() - beat >= BEAT
            if self.flush(again=again) and again:
                beat = time.monotonic()

    def flush(self, *, again: bool = False) -> bool:
        """Write what is new, with `again` also what is up here as before; tell whether it could be."""
        with self._changed:
            states = list(self._states.values())
        try:
            elsewhere = self._elsewhere(states)
            ops = [op for state in states for op in self._told(state, elsewhere, again=again)]
            if ops:
                self._bot.transport.write(ops)
        except LumiaError:
            for state in states:  # a broker that is away hears it later
                state.stale = True
                state.news = state.heard_at > 0
            return False
        return True

    def _elsewhere(self, states: Sequence[AccountState]) -> set[str]:
        """Return the accounts that another process serves: what is down here is no news about them."""
        if all(state.state in ALIVE for state in states if state.stale):
            return set()
        kind, fields = self._bot.transport.read(key_of(ACCOUNTS))
        known = {name: json.loads(text) for name, text in fields.items()} if kind == "hash" else {}
        fresh = self.now() - LOST_AFTER
        return {
            name
            for name, one in known.items()
            if one["gateway"] != self._gateway and one["state"] in ALIVE and one["seen"] > fresh
        }

    def _told(self, state: AccountState, elsewhere: set[str], *, again: bool) -> Sequence[StoreOp]:
        from lumia.ports import StoreOp  # see lumia.store
        from lumia.store import as_json

        field = account_field(state.standing.adapter, state.standing.account)
        ops = []
        stale, state.stale = state.stale, False  # before it is read: what changes from here on is told next time
        alive = state.state in ALIVE
        told = stale and (alive or field not in elsewhere)
        if (told or (again and alive)) and state.state != UNSEEN:
            state.standing.seen = self.now()
            about = {**asdict(state.standing), "detail": state.detail}
            ops.append(StoreOp("put", key_of(ACCOUNTS), as_json(about, field), field=field))
        if state.news:
            state.news = False
            ops.append(StoreOp("put", key_of(EVENTS), as_json([state.heard_at, state.lag], field), field=field))
        return ops

    def close(self) -> None:
        """Say that the connections of this process end with it, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is None:
            return
        thread.join(timeout=5)
        for state in self._states.values():
            if state.state in ALIVE:
                state.disconnected("its gateway was stopped")
        with suppress(LumiaError):
            self.flush()


def account(adapter: str, name: str, *, platform: str = "") -> AccountState:
    """Return the state of an account, the same object at every call in this process (`lumia adapters` shows it).

    platform: the adapter's name unless given. Raises `NotRunningError` without a bot.
    """
    return _board().account(adapter, name, platform)


def heard(adapter: str, msg: Mapping[str, Any]) -> None:
    """Note that a message arrived for an account."""
    _board().account(adapter, msg["account"], msg["platform"]).event(msg["time"])


def _board() -> Board:
    bot = runtime.current()
    if bot.board is None:
        bot.board = Board(bot)
    found: Board = bot.board
    return found
