"""Actions that wait for their answer, told apart by their echo.

The answer may come on another socket than the one the request went out on: NapCat answers on whichever reverse
connection it has by then, so a cut is no verdict until the peer had time to come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import lumia

from .errors import UnknownOutcomeError
from .frames import Answer

MAX_PARTS = 10_000


@dataclass
class Waiting:
    """One action. on: the socket it went out on. parts: the frames of a stream so far."""

    action: str
    echo: str
    on: object
    answer: asyncio.Future[Answer]
    parts: list[Answer] = field(default_factory=list)


class Pending:
    """The actions of one account in this process."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._one_less = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def waiting(self, action: str, on: object) -> Iterator[Waiting]:
        """Keep a place for the answer to an action."""
        found = Waiting(action, lumia.system.new_id(), on, asyncio.get_running_loop().create_future())
        self._waiting[found.echo] = found
        try:
            yield found
        finally:
            self._waiting.pop(found.echo, None)
            found.answer.cancel()
            self._one_less.set()

    def owes(self, on: object) -> bool:
        """Tell whether a socket still has answers to give."""
        return any(found.on is on for found in self._waiting.values())

    async def answered(self) -> None:
        """Wait until an action has ended."""
        self._one_less.clear()
        await self._one_less.wait()

    def take(self, answer: Answer) -> bool:
        """Hand an answer to who waits for it; False when nobody does (any more)."""
        found = self._waiting.get(answer.echo) if isinstance(answer.echo, str) else None
        if found is None or found.answer.done():
            return False
        if answer.last:
            found.answer.set_result(replace(answer, parts=tuple(found.parts)))
        elif len(found.parts) < MAX_PARTS:
            found.parts.append(answer)
        else:
            found.answer.set_exception(UnknownOutcomeError(f"{found.action} streamed more than {MAX_PARTS} frames"))
        return True

    def lose(self, on: object, grace: float) -> None:
        """Note that a socket is gone: what went out on it is unknown unless an answer comes within `grace` seconds."""
        lost = [found for found in self._waiting.values() if found.on is on]
        if lost:
            asyncio.get_running_loop().call_later(grace, self._give_up, lost)

    @staticmethod
    def _give_up(lost: list[Waiting]) -> None:
        for found in lost:
            if not found.answer.done():
                why = f"the connection was cut after {found.action} went out and before its answer came"
                found.answer.set_exception(UnknownOutcomeError(why))
