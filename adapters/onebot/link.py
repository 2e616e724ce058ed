"""The connection of one account in this process: its sockets by role, and the actions asked of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import lumia

from . import frames
from .errors import UnknownOutcomeError
from .frames import Answer
from .pending import Pending

API, EVENT = "api", "event"
ROLES: Mapping[str, tuple[str, ...]] = {"universal": (API, EVENT), "api": (API,), "event": (EVENT,)}
ACTION_TIME = 15.0
SEND_TIME = 60.0
GRACE = 12.0
"""Seconds in which the answer to an action may come on the next connection; NapCat reconnects after five."""
LINGER = 5.0
"""Seconds a replaced socket that still owes answers stays open."""
REPLACED, CHANGED = 4001, 4003
_BEATS = 3
_log = logging.getLogger("lumia.onebot")


class Socket(Protocol):
    """One open WebSocket."""

    async def send(self, text: str) -> None:
        """Hand a frame to the network; raises `lumia.errors.UnreachableError` when the socket is closed already."""

    async def close(self, code: int, reason: str) -> None:
        """Close it; a closed one stays closed."""


class Link:
    """Who is connected for an account. account: its name; self_id: of the bot at the other end.

    changed: called when a role was filled or lost. All methods belong to the loop the sockets live on.
    """

    def __init__(
        self, account: str, self_id: str, changed: Callable[[Link], None], *, grace: float | None = None
    ) -> None:
        self.account, self.self_id = account, self_id
        self.loop = asyncio.get_running_loop()
        self.pending = Pending()
        self._changed, self._grace = changed, GRACE if grace is None else grace
        self._slots: dict[str, Socket] = {}
        self._watches: dict[int, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> bool:
        """Tell whether events come in and actions can be asked for."""
        return API in self._slots and EVENT in self._slots

    @property
    def open(self) -> bool:
        """Tell whether any socket is there."""
        return bool(self._slots)

    @property
    def roles(self) -> str:
        """Return the roles that are filled, in words."""
        return "universal" if self.ready else " ".join(sorted(self._slots)) or "nothing"

    def has(self, role: str) -> bool:
        """Tell whether a role is filled."""
        return role in self._slots

    def attach(self, socket: Socket, role: str) -> None:
        """Give a socket its roles; who had them and is left without one is sent away once it owes nothing."""
        before = set(self._slots.values())
        self._slots.update(dict.fromkeys(ROLES[role], socket))
        for old in before - set(self._slots.values()):
            _log.info("onebot account %s: a new connection replaces the one before", self.account)
            self._unwatch(old)
            self._spawn(self._send_away(old))
        self._changed(self)

    async def _send_away(self, old: Socket) -> None:
        try:
            async with asyncio.timeout(LINGER):
                while self.pending.owes(old):
                    await self.pending.answered()
        except TimeoutError:
            pass
        await old.close(REPLACED, "replaced by a newer connection")

    def detach(self, socket: Socket) -> None:
        """Note that a socket is closed; what was asked on it may still be answered on the next one."""
        self._unwatch(socket)
        self.pending.lose(socket, self._grace)
        self._slots = {role: one for role, one in self._slots.items() if one is not socket}
        self._changed(self)

    def close(self, code: int, reason: str) -> None:
        """Send every socket away."""
        for socket in set(self._slots.values()):
            self._spawn(socket.close(code, reason))

    # --- actions

    async def call(self, action: str, params: Mapping[str, Any], *, wait: float = ACTION_TIME) -> Answer:
        """Ask for an action and return its answer, whatever that says.

        Raises `lumia.errors.UnreachableError` when nothing went out, `UnknownOutcomeError` when no answer came.
        """
        socket = self._slots.get(API)
        if socket is None:
            raise lumia.errors.UnreachableError(f"onebot account {self.account} is not connected")
        with self.pending.waiting(action, socket) as waiting:
            await socket.send(frames.request(action, params, waiting.echo))
            try:
                async with asyncio.timeout(wait):
                    return await waiting.answer
            except TimeoutError:
                raise UnknownOutcomeError(f"no answer to {action} within {wait:g} seconds") from None

    # --- heartbeats

    def beat(self, socket: Socket, interval: float) -> None:
        """Note a heartbeat; a socket that sends them and misses three (`interval` seconds each) is taken for dead."""
        self._unwatch(socket)
        if interval > 0:
            late = _BEATS * interval + min(5.0, interval)
            self._watches[id(socket)] = self.loop.call_later(late, self._missed, socket)

    def _missed(self, socket: Socket) -> None:
        _log.warning("onebot account %s: three heartbeats were missed, the connection is closed", self.account)
        self._spawn(socket.close(1001, "three heartbeats were missed"))
        self.detach(socket)

    def _unwatch(self, socket: Socket) -> None:
        watch = self._watches.pop(id(socket), None)
        if watch is not None:
            watch.cancel()

    def _spawn(self, doing: Any) -> None:
        task = self.loop.create_task(doing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
