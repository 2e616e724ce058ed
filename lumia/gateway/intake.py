"""Group commit: the starts of requests that arrive together share one trip to the broker.

While one trip is under way the next batch collects, so that a lone request waits for nobody and a crowd pays for few
trips. Each start stays an atomic step of its own, with its own result or error, in the order of asking.

When many wait at once, the starts that may (`Asked.in_line`) are only stored, in the transport's inbox, and answered;
workers plan and start them. That costs a fraction, so the gateway goes on accepting where planning could not keep up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Unpack

from lumia.box import Box
from lumia.bus import PLANNED_AT_MOST, Asked, StartOptions, event, pipe
from lumia.errors import LumiaError, StaleRoutesError
from lumia.gateway.calls import BusyError, call
from lumia.gateway.scope import current

if TYPE_CHECKING:
    from lumia.ports import Kept, RunRequest
    from lumia.runtime import Runtime

MOST = 64
"""Starts of one trip: the broker answers nobody else while it executes one of their scripts."""
MOST_TEXT = 1 << 20
"""Characters of the Boxes of one trip beyond which it takes no more starts."""
KEEP_SECONDS = 0.25
"""How long after the inbox was seen to hold starts further ones go there at once: they would have to line up anyway."""
_FLOWS = {"pipe": pipe, "event": event}


@dataclass(slots=True)
class _Waiting:
    asked: Asked
    requests: list[RunRequest]
    number: int
    answer: asyncio.Future[str]
    kept: Kept | None = None

    @property
    def text(self) -> int:
        return len(self.kept.text) if self.kept else sum(len(request.box) for request in self.requests)


class Intake:
    """Collects the starts of one event loop.

    waiting: how many may wait for a trip before clients get a 429. keep_from: from how many on they go through the
    inbox, 0 for never.
    """

    def __init__(self, bot: Runtime, waiting: int, keep_from: int = 0) -> None:
        self._bot, self._allowed = bot, waiting + MOST
        self._keep_from, self._keep_until = keep_from, 0.0
        self._waiting: deque[_Waiting] = deque()
        self._trips = ThreadPoolExecutor(1, "lumia-intake")
        self._under_way = False
        self._trip: asyncio.Task[None] | None = None
        self.pending = 0

    async def start(self, asked: Asked) -> str:
        """Commit a start with others and return its run id; raises what `lumia.pipe.start` raises, or `BusyError`."""
        if self.pending >= self._allowed:
            raise BusyError(self.pending)
        self.pending += 1
        try:
            loop = asyncio.get_running_loop()
            waiting = self._kept(asked, loop) or await self._planned(asked, loop)
            self._waiting.append(waiting)
            if not self._under_way:
                self._under_way = True
                loop.call_soon(self._set_out, loop)  # so that what this turn of the loop brings goes along
            return await waiting.answer
        finally:
            self.pending -= 1

    async def leave(self) -> None:
        """Close what trips have opened on this event loop; they are over."""
        if self._bot.transport.inbox is not None:
            await self._bot.transport.inbox.leave()

    def close(self) -> None:
        """End the thread once its trip is over."""
        self._trips.shutdown(wait=False)

    def _kept(self, asked: Asked, loop: asyncio.AbstractEventLoop) -> _Waiting | None:
        """Return a start that is only stored for now; None when it is to be planned at once."""
        if not self._keep_from or not asked.in_line or self._bot.transport.inbox is None:
            return None
        if self.pending < self._keep_from and loop.time() >= self._keep_until:
            return None
        return _Waiting(asked, [], 0, loop.create_future(), asked.kept(self._bot))

    async def _planned(self, asked: Asked, loop: asyncio.AbstractEventLoop) -> _Waiting:
        table = self._bot.planned
        if table is None:
            await loop.run_in_executor(self._trips, self._bot.refresh_routes)
            table = self._bot.table
        return _Waiting(asked, asked.requests(self._bot, table), table.number, loop.create_future())

    def _set_out(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = self._batch()
        self._under_way = bool(batch)
        if batch:
            self._trip = loop.create_task(self._out_and_back(loop, batch))

    def _batch(self) -> list[_Waiting]:
        """Take what goes along now; whoever has gone away meanwhile is left out."""
        batch, text = list[_Waiting](), 0
        while self._waiting and len(batch) < MOST and text < MOST_TEXT:
            one = self._waiting.popleft()
            if not one.answer.done():
                batch.append(one)
                text += one.text
        return batch

    async def _out_and_back(self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting]) -> None:
        try:
            found: Sequence[Any] = await self._keep_here(batch)
            found = found or await loop.run_in_executor(self._trips, self._go, batch)
        except Exception as error:
            found = [error] * len(batch)
        self._set_out(loop)
        for one, result in zip(batch, found, strict=True):
            if one.answer.done():
                continue
            if isinstance(result, BaseException):
                one.answer.set_exception(result)
            else:
                one.answer.set_result(result)

    async def _keep_here(self, batch: Sequence[_Waiting]) -> list[str]:
        """Keep starts without a thread; returns nothing where some are others, or nobody knows if they are kept."""
        kept = [one.kept for one in batch if one.kept is not None]
        inbox = self._bot.transport.inbox
        if inbox is None or len(kept) < len(batch):
            return []
        answer = await inbox.keep_here(kept)
        return [] if answer is None else self._are_kept(*answer)

    def _are_kept(self, before: int, runs: list[str]) -> list[str]:
        if before:
            self._keep_until = time.monotonic() + KEEP_SECONDS
        return runs

    # --- in the thread

    def _go(self, batch: Sequence[_Waiting]) -> list[str | Exception]:
        found = list[str | Exception]()
        for keeping, some in groupby(batch, lambda one: one.kept is not None):
            group = list(some)
            found += self._keep(group) if keeping else self._start(group)
        return found

    def _keep(self, batch: Sequence[_Waiting]) -> list[str | Exception]:
        inbox = self._bot.transport.inbox
        assert inbox is not None
        try:
            return list(self._are_kept(*inbox.keep([one.kept for one in batch if one.kept])))
        except LumiaError as error:
            return [error] * len(batch)

    def _start(self, batch: Sequence[_Waiting]) -> list[str | Exception]:
        found: list[Any] = [None] * len(batch)
        left = list(range(len(batch)))
        for _ in range(PLANNED_AT_MOST):
            self._send([batch[at] for at in left], left, found)
            left = [at for at in left if isinstance(found[at], StaleRoutesError)]
            if not left:
                return found
            self._plan_anew([batch[at] for at in left])
        for at in left:
            found[at] = batch[at].asked.unsettled()
        return found

    def _send(self, batch: Sequence[_Waiting], places: Sequence[int], found: list[Any]) -> None:
        """Commit a batch, whose plans may be of several tables, and put run ids and errors in their places."""
        begin = 0
        while begin < len(batch):
            end = begin + 1
            while end < len(batch) and batch[end].number == batch[begin].number:
                end += 1
            answers = self._bot.transport.start_each(
                [one.requests for one in batch[begin:end]], routes=batch[begin].number
            )
            for at, answer in zip(places[begin:end], answers, strict=True):
                found[at] = answer if isinstance(answer, Exception) else answer[0].run_id
            begin = end
            stale = next((answer for answer in answers if isinstance(answer, StaleRoutesError)), None)
            if stale is not None:  # what was planned later must not overtake these
                for at in places[begin:]:
                    found[at] = stale
                return

    def _plan_anew(self, batch: Sequence[_Waiting]) -> None:
        with self._bot.activated():
            self._bot.refresh_routes()
            table = self._bot.table
            for one in batch:
                one.requests, one.number = one.asked.requests(self._bot, table), table.number


async def start(
    id: str,
    content: Box[Any],
    *,
    flow: str = "pipe",
    also: Sequence[tuple[str, Box[Any]]] = (),
    **options: Unpack[StartOptions],
) -> str:
    """Start a run from a route or a resident and return its id once it is stored; never blocks the gateway.

    flow: pipe or event; everything else as for `lumia.pipe.start`, and so are the errors. It is committed together with
    what other requests start at the same moment. Raises `BusyError` (429) when too many wait. While many wait, what is
    stored is the start itself, in the inbox: the run is known at once, and begins when those accepted before it have.
    """
    gateway = current()
    wanted = _FLOWS[flow]
    if content.is_arc or any(box.is_arc for _, box in also):
        return await call(wanted.start, id, content, also=also, **options)
    return await gateway.intake.start(wanted.ask(id, content, also=also, **options))
