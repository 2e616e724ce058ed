"""One page's conversation over its WebSocket: takes frames, sends what happens in the chat it shows.

What a page must not miss is in the store; the journal only tells when to look, and which stage is at work.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import lumia
from lumia import gateway

from . import chat as chats
from . import files, frames
from .chat import Chat

_LOOK_AGAIN = 2.0
_LIVE = ("step", "end", "dead")
_RECENT = 50


class Conversation:
    """Serves one WebSocket until it closes."""

    def __init__(self, socket: gateway.WebSocket) -> None:
        self._socket = socket
        self._chat: Chat | None = None
        self._shown: set[str] = set()
        self._pending: set[str] = set()

    async def run(self) -> None:
        """Serve until the page leaves."""
        async with gateway.current().feed.subscribe() as journal:
            await self._greet()
            watching = asyncio.create_task(self._watch(journal))
            reading = asyncio.create_task(self._read())
            try:
                done, _ = await asyncio.wait((watching, reading), return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in (watching, reading):
                    task.cancel()
                await asyncio.gather(watching, reading, return_exceptions=True)

    async def _greet(self) -> None:
        known = await gateway.call(chats.chats)
        await self._send(
            type="ready",
            bot=chats.bot_name(),
            version=lumia.__version__,
            max_text=chats.settings().max_text,
            max_file=_max_file(),
            guarded=bool(chats.settings().token),
            chats=[chat.as_dict() for chat in known],
        )

    async def _send(self, **frame: Any) -> None:
        await self._socket.send_json(frame)

    # What the page asks for.

    async def _read(self) -> None:
        with contextlib.suppress(gateway.WebSocketDisconnect):
            while True:
                await self._answer(await self._received())

    async def _received(self) -> str:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise gateway.WebSocketDisconnect(message.get("code", 1000))
        text = message.get("text")
        return text if isinstance(text, str) else ""

    async def _answer(self, text: str) -> None:
        try:
            frame = frames.read(text)
            await self._serve(frame)
        except (lumia.errors.PayloadError, lumia.errors.BoxTooLargeError) as error:
            await self._refuse(text, str(error), retry=False)
        except (lumia.errors.BackendUnavailableError, lumia.errors.BusyLaneError, gateway.BusyError) as error:
            await self._refuse(text, str(getattr(error, "detail", error)), retry=True)

    async def _refuse(self, text: str, why: str, *, retry: bool) -> None:
        await self._send(type="error", message_id=frames.message_id(text), error=why, retry=retry)

    async def _serve(self, frame: frames.Frame) -> None:
        match frame:
            case frames.Open():
                await self._open(frame.chat.chat())
            case frames.Send():
                await self._say(frame)
            case frames.Trace():
                await self._trace(frame.run_id)
            case frames.Ping():
                await self._send(type="pong")

    async def _open(self, chat: Chat) -> None:
        items = await gateway.call(chats.history, chat)
        self._chat, self._shown = chat, {item["id"] for item in items}
        await self._send(type="history", chat=chat.as_dict(), items=items, stages=await gateway.call(_stages))

    async def _say(self, frame: frames.Send) -> None:
        run_id = await gateway.call(_submitted, frame)
        self._pending.add(run_id)
        await self._send(type="ack", message_id=frame.message_id, run_id=run_id, stages=await gateway.call(_stages))

    async def _trace(self, run_id: str) -> None:
        found = await gateway.call(lumia.runs.result, run_id)
        if found is None:
            await self._send(type="trace", run_id=run_id, outcome="unknown", reason="no longer kept", steps=[], ms=0)
            return
        if found.outcome is None:
            self._pending.add(run_id)
        else:
            self._pending.discard(run_id)
        await self._send(type="trace", reason=found.reason, **found.as_dict())

    # What happens meanwhile.

    async def _watch(self, journal: gateway.Subscription) -> None:
        while True:
            try:
                async with asyncio.timeout(_LOOK_AGAIN):
                    entry = await journal.get()
            except TimeoutError:
                await self._look_again()
                continue
            with contextlib.suppress(lumia.errors.BackendUnavailableError, gateway.BusyError):
                await (self._look_again() if entry is None else self._tell(entry))

    async def _look_again(self) -> None:
        """Ask the store and the run records what the journal may not have told."""
        with contextlib.suppress(lumia.errors.BackendUnavailableError, gateway.BusyError):
            for run_id in tuple(self._pending):
                await self._trace(run_id)
            if self._pending:
                await self._show_new()

    async def _tell(self, entry: Any) -> None:
        if entry.handler == "console.record":
            await self._show_new()
        chat = chats.chat_of_lane(entry.key)
        if chat is None:
            return
        if chat != self._chat:
            if entry.handler == "console.deliver":
                await self._send(type="activity", chat=chat.as_dict())
            return
        if entry.kind in _LIVE:
            await self._progress(entry)
        if entry.handler == "console.deliver":
            await self._show_new()
        if entry.kind == "end":
            await self._trace(entry.root_id)

    async def _progress(self, entry: Any) -> None:
        await self._send(
            type="progress", run_id=entry.root_id, kind=entry.kind, handler=entry.handler, outcome=entry.outcome,
            reason=entry.reason, ms=entry.ms, inner=entry.run_id != entry.root_id,
        )  # fmt: skip

    async def _show_new(self) -> None:
        chat = self._chat
        if chat is None:
            return
        for item in await gateway.call(chats.history, chat, _RECENT):
            if chat == self._chat and item["id"] not in self._shown:
                self._shown.add(item["id"])
                await self._send(type="message", chat=chat.as_dict(), item=item)


def _max_file() -> int:
    """Return how large a file may be that a page puts up: one request's body, and one blob."""
    return min(int(lumia.config.get("lumia").gateway.max_body), lumia.blobs.max_bytes())


def _submitted(frame: frames.Send) -> str:
    media = [files.attached(one.digest, one.name) for one in frame.media]
    return chats.submit(frame.chat.chat(), frame.sender, frame.text, frame.message_id, media)


def _stages() -> list[str]:
    try:
        return chats.stages()
    except lumia.errors.BackendUnavailableError:
        return []
