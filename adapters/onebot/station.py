"""Everything one account is in this process: its connection, what comes in over it, how it fares."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import lumia
from lumia import gateway

from . import accounts, backfill, incoming, intake
from .accounts import Account
from .cursors import Cursors
from .errors import UnknownOutcomeError
from .frames import Answer, answer, identifier, is_event, parse, whole
from .incoming import NAME, PLATFORM, Chat
from .link import API, CHANGED, REPLACED, Link, Socket

TICK = 5.0
"""Seconds between two times that cursors are written and the account's newest connection is looked up."""
FILL_TRIES = 8
"""How often the history of a chat is asked for, once per reconnect, before what it would have told is given up."""
_FETCHES = 4
_PATIENCE = 5.0
_log = logging.getLogger("lumia.onebot")
Event = dict[str, Any]


class Station:
    """One account's place in a process. Its methods belong to the loop it was made on, unless they say otherwise."""

    def __init__(self, account: Account, self_id: str = "") -> None:
        self.account = account
        self.state = lumia.adapters.account(NAME, account.name, platform=PLATFORM)
        self.link = Link(account.name, self_id or account.self_id, self._changed)
        self.inlet = lumia.adapters.Rows(self._not_taken_in)
        self.cursors = Cursors(account.name)
        self.generation = self._announced = ""
        self.why_offline = ""
        self._elsewhere = False
        self._ready = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._fetching = asyncio.Semaphore(_FETCHES)
        self._no_history: set[str] = set()
        self._failed = Counter[str]()
        self._to_fill: set[str] = set()

    @property
    def by_http(self) -> bool:
        """Tell whether the account has no connection, but is posted and asked by HTTP."""
        return self.account.mode == "http"

    @property
    def usable(self) -> bool:
        """Tell whether its loop still runs; a gateway that was started anew has another."""
        return not self.link.loop.is_closed()

    def is_outdated(self, newest: str) -> bool:
        """Tell whether another gateway has a newer connection; newest: which one said last that it is."""
        return self._announced == self.generation and newest not in ("", self.generation)

    # --- connections

    async def begin(self, socket: Socket, role: str) -> None:
        """Take a socket in; when with it both ways are open, what was missed is fetched first.

        That also holds for one that replaces another: the old one may have been dead for long without a sign of it.
        """
        self.why_offline, self._elsewhere = "", False
        if role != "event":
            self.generation = lumia.system.new_id()
        self.link.attach(socket, role)
        self._tick()
        if self.link.ready:
            self._no_history.clear()
            await self.catch_up(self.link.call)

    def _changed(self, link: Link) -> None:
        if link.ready:
            self._ready.set()
        else:
            self._ready.clear()
        self._tell()

    def _tell(self) -> None:
        """Say how the account fares, and take its sends while they can be done."""
        link, me = self.link, self.link.self_id or "a bot that has not said its number"
        if self._elsewhere:
            self.state.disconnected("connected at another gateway")
        elif self.why_offline and (link.open or self.by_http):
            self.state.offline(self.why_offline)
        elif self.by_http:
            self.state.listening(f"reports of {me} are taken at /onebot/v11/http/{self.account.name}")
        elif not link.open:
            self.state.disconnected("the OneBot side is not connected")
        elif link.ready:
            self.state.connected(me)
        else:
            self.state.connecting(f"{me}: only its {link.roles} socket is here")
        serves = link.has(API) and not self.why_offline
        if serves and self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        elif not serves and self._serving is not None:
            self._serving.cancel()
            self._serving = None

    async def _serve(self) -> None:
        async with lumia.adapters.serving(NAME, self.account.name):
            await asyncio.get_running_loop().create_future()

    async def until_ready(self, seconds: float) -> bool:
        """Wait for a connection; tell whether there is one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        return self._ready.is_set()

    async def end(self, seconds: float = _PATIENCE) -> None:
        """Take in what has arrived, as far as that is possible in so many seconds, and write the cursors."""
        with suppress(TimeoutError, lumia.errors.LumiaError, gateway.BusyError):
            async with asyncio.timeout(seconds):
                await self.inlet.idle()
                await gateway.call(self.cursors.save)

    def _tick(self) -> None:
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        """Write the cursors now and then, and yield to a newer connection of the account in another gateway."""
        while not self._elsewhere or self.link.open or self.cursors.dirty:
            self._follow_settings()
            with suppress(lumia.errors.LumiaError, gateway.BusyError):
                if self.link.has(API) and self._announced != self.generation:
                    generation = self.generation
                    await gateway.call(intake.announce, self.account.name, generation)
                    self._announced = generation
                elif self.generation and self.is_outdated(await gateway.call(intake.newest, self.account.name)):
                    self._leave()
                if self.cursors.dirty:
                    await gateway.call(self.cursors.save)
            if self._serving is not None and self._serving.done():
                failed, self._serving = self._serving, None
                _log.error("onebot account %s: its sends are taken again", self.account.name,
                           exc_info=None if failed.cancelled() else failed.exception())  # fmt: skip
                self._tell()
            await asyncio.sleep(TICK)

    def _follow_settings(self) -> None:
        """Send away who would no longer be let in: the account was removed, disabled, or has another token or bot."""
        mine, now = self.account, accounts.find(self.account.name)
        if mine.mode != "reverse":
            return
        if now is not None and now.enabled and (now.mode, now.token, now.self_id) == (
            mine.mode, mine.token, mine.self_id,
        ):  # fmt: skip
            self.account = now
        elif self.link.open:
            _log.info("onebot account %s: its settings were changed, its connection is closed", mine.name)
            self.link.close(CHANGED, "the account's settings were changed")

    def _leave(self) -> None:
        _log.info("onebot account %s is connected at another gateway now", self.account.name)
        self._elsewhere = True
        self.link.close(REPLACED, "the account is connected at another gateway")
        self._tell()

    # --- what comes in

    async def read(self, socket: Socket, data: str | bytes) -> None:
        """Take one frame: an answer goes to who waits for it, an event into its chat's row. Never waits for answers."""
        try:
            frame = parse(data)
        except lumia.errors.PayloadError as error:
            _log.warning("onebot account %s: %s", self.account.name, error)
            return
        if not is_event(frame):
            self.link.pending.take(answer(frame))
            return
        named = identifier(frame.get("self_id"))
        self.link.self_id = self.link.self_id or named
        if named and named != self.link.self_id:
            _log.warning("onebot account %s: an event of bot %s came over the connection of %s and is left alone",
                         self.account.name, named, self.link.self_id)  # fmt: skip
        elif frame["post_type"] == "meta_event":
            self._meta(socket, frame)
        else:
            await self._event(frame)

    def _meta(self, socket: Socket | None, event: Mapping[str, Any]) -> None:
        self.state.event()
        if socket is None and event.get("sub_type") in ("enable", "disable"):  # a lifecycle that only reports tell of
            self.online(event["sub_type"] == "enable", "the OneBot side says that it was switched off")
        if event.get("meta_event_type") != "heartbeat":
            return
        interval = whole(event.get("interval"))
        if socket is not None and interval is not None:
            self.link.beat(socket, interval / 1000)
        status = event.get("status")
        online = status.get("online") if isinstance(status, Mapping) else None
        if online is not None:
            self.online(bool(online), "its heartbeat says that the account is offline")

    def online(self, online: bool, why: str = "") -> None:
        """Note whether the platform has the account logged in; without that nothing is sent."""
        before, self.why_offline = self.why_offline, "" if online else (self.why_offline or why)
        if before != self.why_offline or self.by_http:
            self._tell()

    def _standing(self, event: Event) -> None:
        kind = event.get("notice_type")
        if kind in ("bot_offline", "bot_online"):
            said = event.get("message") or event.get("tag") or "the platform has logged the account out"
            self.online(kind == "bot_online", str(said))

    async def _event(self, event: Event) -> None:
        self._standing(event)
        chat = incoming.chat_of(event)
        lane = chat.field if chat is not None else "none"
        if incoming.is_talk(event, self.link.self_id) and chat is not None:
            await self.inlet.put(lane, partial(self.accept, event, chat))
        elif incoming.event_id(event):
            await self.inlet.put(lane, partial(self.note, event, chat))

    async def reported(self, event: Event) -> None:
        """Take an event that was posted; raises when it could not be stored, so that the peer is told."""
        self.state.event()
        if event.get("post_type") == "meta_event":
            self._meta(None, event)
            return
        self._standing(event)
        chat = incoming.chat_of(event)
        if incoming.is_talk(event, self.link.self_id) and chat is not None:
            await self.once(event, chat)
        elif incoming.event_id(event):
            await gateway.call(intake.note, self.account.name, event, chat)
        self._tick()

    async def accept(self, event: Event, chat: Chat, *, backfilled: bool = False) -> None:
        """Accept what somebody said, again and again until it is stored; what can't be is logged and left out."""
        once = partial(self.once, event, chat, backfilled=backfilled)
        await lumia.adapters.until_stored(self.state, once, f"message {incoming.message_id(event)}")

    async def once(self, event: Event, chat: Chat, *, backfilled: bool = False) -> None:
        """Accept what somebody said; raises when it could not be stored."""
        if chat.group:
            await gateway.call(intake.remember_group, self.account.name, chat)
        msg = incoming.message(event, self.account.name, self.link.self_id)
        if not msg["mentions_bot"] and "reply_to" in msg:
            msg["mentions_bot"] = await gateway.call(intake.is_ours, self.account.name, chat, msg["reply_to"])
        await lumia.adapters.submit(NAME, msg, event, meta={"backfilled": True} if backfilled else {})
        if self.cursors.seen(chat.field, msg["time"]):
            await gateway.call(self.cursors.save)  # else nobody would look into this chat if the process died now

    async def note(self, event: Event, chat: Chat | None) -> None:
        """Accept a notice or a request."""
        await lumia.adapters.hold(self.state, partial(gateway.call, intake.note, self.account.name, event, chat))

    def _not_taken_in(self, error: Exception) -> None:
        known = isinstance(error, (lumia.errors.BoxError, lumia.errors.PayloadError))
        _log.error("onebot account %s: an event could not be taken in: %s", self.account.name, error,
                   exc_info=None if known else error)  # fmt: skip

    # --- what was missed

    async def catch_up(self, ask: Callable[[str, Mapping[str, Any]], Awaitable[Answer]]) -> None:
        """Put what every known chat said meanwhile before what it says from now on."""
        if self.account.backfill_minutes <= 0 or self.account.backfill_max <= 0:
            return
        loading = asyncio.ensure_future(gateway.call(self.cursors.load))
        await asyncio.wait({loading}, timeout=_PATIENCE)
        if not loading.done() or loading.exception() is not None:
            loading.cancel()
            _log.warning("onebot account %s: what was missed can't be fetched, the store is away", self.account.name)
            return
        for name, since in loading.result().items():
            if name in self._to_fill:
                continue  # an earlier connection's turn is still to come, and asks for what is missing by then
            self._to_fill.add(name)
            self.inlet.begin(name, partial(self._fill, ask, name, since))

    async def _fill(self, ask: Callable[[str, Mapping[str, Any]], Awaitable[Answer]], name: str, since: float) -> None:
        self._to_fill.discard(name)
        kind = name.partition("-")[0]
        if kind in self._no_history or kind not in backfill.ACTIONS:
            return
        try:
            async with self._fetching:
                page = max(1, backfill.PAGE >> self._failed[name])
                events = await backfill.missed(ask, self.account, name, since, lumia.system.now(), page)
        except backfill.AbsentError as absent:
            if kind not in self._no_history:
                self._no_history.add(kind)
                _log.warning("onebot account %s: the peer has no %s, so what %s chats said during an outage is lost",
                             self.account.name, absent, kind)  # fmt: skip
            return
        except lumia.errors.UnreachableError:
            self.cursors.hold(name)  # nobody was asked: the next connection is, however often this happens
            return
        except (UnknownOutcomeError, lumia.errors.NotDoneError) as error:
            self._not_filled(name, error)
            return
        for event in events:
            chat = incoming.chat_of(event)
            mine = backfill.of_bot(event, self.link.self_id)
            if chat is not None and not mine and incoming.is_talk(event, self.link.self_id):
                await self.accept(event, chat, backfilled=True)
        del self._failed[name]
        self.cursors.release(name)

    def _not_filled(self, name: str, error: Exception) -> None:
        """Ask again after the next reconnect, from the same moment on and for fewer messages at once.

        An answer too large for a frame cuts the connection, and would after every reconnect.
        """
        self._failed[name] += 1
        if self._failed[name] < FILL_TRIES:
            self.cursors.hold(name)
            _log.warning("onebot account %s: the history of %s can't be had now: %s", self.account.name, name, error)
            return
        del self._failed[name]
        self.cursors.release(name)
        _log.error("onebot account %s: the history of %s could not be had %d times, so what was said there during "
                   "the outage is left out: %s", self.account.name, name, FILL_TRIES, error)  # fmt: skip
