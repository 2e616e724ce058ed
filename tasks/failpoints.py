"""Faults on purpose at the boundaries of the scripts, for the chaos campaign (docs/chaos.md).

`LUMIA_FAILPOINTS="commit.before=kill@17,claim.after=kill@5,commit.after=resend@*"` makes this process fail there:
before the 17th commit is sent, after the 5th claim was answered, and so on. Without the variable scripts are called
plainly.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError

from lumia.errors import LumiaError

ENVIRONMENT = "LUMIA_FAILPOINTS"
MOMENTS = ("before", "after")
ACTIONS = ("kill", "resend", "pause", "error")
REPEATABLE = frozenset({"start", "claim", "commit", "write", "publish", "bury"})
"""Scripts that promise to give the first answer again when they are sent again."""
EXAMPLE = "commit.before=kill@17,claim.after=pause(500)@*"
_POINT = re.compile(
    r"(?P<script>[a-z_]+)\.(?P<moment>\w+)=(?P<action>[a-z]+)(?:\((?P<ms>\d+)\))?(?:@(?P<count>\d+|\*))?"
)

Call = Callable[..., Any]
log = logging.getLogger("lumia")


class FailpointError(LumiaError):
    """A failpoint is malformed, or a script that was sent again answered something else."""


@dataclass(frozen=True)
class Failpoint:
    """One fault. count: the how many-th call of the script in this process, 0 for each; ms: how long a pause lasts."""

    script: str
    moment: str
    action: str
    count: int = 1
    ms: int = 0

    def meets(self, script: str, moment: str, count: int) -> bool:
        """Tell whether the fault is due now."""
        return (self.script, self.moment) == (script, moment) and self.count in (0, count)


def parse(text: str, scripts: Iterable[str]) -> tuple[Failpoint, ...]:
    """Return the failpoints a text describes; raises `FailpointError` naming the part that is wrong."""
    known = tuple(scripts)
    return tuple(_parsed(part.strip(), known) for part in text.split(",") if part.strip())


def _parsed(part: str, scripts: tuple[str, ...]) -> Failpoint:
    found = _POINT.fullmatch(part)
    if found is None:
        raise FailpointError(f"{ENVIRONMENT}: {part!r} is no failpoint; write them as in {EXAMPLE}")
    for name, allowed in (("script", scripts), ("moment", MOMENTS), ("action", ACTIONS)):
        if found[name] not in allowed:
            raise FailpointError(f"{ENVIRONMENT}: {part!r}: {name} is one of {', '.join(allowed)}, got {found[name]!r}")
    if found["action"] == "resend" and found["moment"] == "before":
        raise FailpointError(f"{ENVIRONMENT}: {part!r}: there is nothing to send again before a script was sent")
    if (found["ms"] is not None) != (found["action"] == "pause"):
        raise FailpointError(f"{ENVIRONMENT}: {part!r}: a pause, and nothing else, has milliseconds: pause(500)")
    if found["count"] == "0":
        raise FailpointError(f"{ENVIRONMENT}: {part!r}: calls are counted from 1; @* is each of them")
    count = 0 if found["count"] == "*" else int(found["count"] or 1)
    return Failpoint(found["script"], found["moment"], found["action"], count, int(found["ms"] or 0))


def around(call: Call, scripts: Iterable[str], text: str | None = None) -> Call:
    """Return `call` itself, or with the faults of `text` (default: of the environment) around it.

    Raises `FailpointError` for a malformed text.
    """
    given = os.environ.get(ENVIRONMENT, "") if text is None else text
    return Failing(call, parse(given, scripts)) if given else call


class Failing:
    """Calls scripts, and fails where it is told to."""

    def __init__(self, call: Call, points: tuple[Failpoint, ...]) -> None:
        self._call: Any = call  # `Scripts`, which has `each` beside
        self._points = points
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, script: str, *args: Any) -> Any:
        """Run `script` with the faults that are due; raises redis-py's connection error for an `error`."""
        count = self._counted(script)
        for point in self._due(script, "before", count):
            _hit(point, count)
        answer = self._call(script, *args)
        for point in self._due(script, "after", count):
            if point.action == "resend":
                self._again(script, args, answer)
            else:
                _hit(point, count)
        return answer

    async def here(self, script: str, *args: Any) -> Any:
        """Run `script` on the running event loop, which goes on during a pause, with the faults that are due."""
        count = self._counted(script)
        for point in self._due(script, "before", count):
            await asyncio.to_thread(_hit, point, count)
        answer = await self._call.here(script, *args)
        for point in self._due(script, "after", count):
            if point.action == "resend":
                await self._call.here(script, *args)
            else:
                await asyncio.to_thread(_hit, point, count)
        return answer

    def each(self, script: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run `script` once for each of `calls` in one trip, with the faults due at each; an `error` is one's answer.

        The faults before it come before the trip, those after it when all have been answered.
        """
        answers: list[Any] = [None] * len(calls)
        first = self._counted(script, len(calls))
        for at in range(len(calls)):
            answers[at] = self._met(script, "before", first + at)
        sent = [at for at in range(len(calls)) if answers[at] is None]
        for at, answer in zip(sent, self._call.each(script, [calls[at] for at in sent]), strict=True):
            answers[at] = answer
        for at in sent:
            answers[at] = self._met(script, "after", first + at, calls[at], answers[at]) or answers[at]
        return answers

    def _met(self, script: str, moment: str, count: int, args: Sequence[Any] = (), answer: Any = None) -> Any:
        """Return the error that the faults due now end in, or None."""
        try:
            for point in self._due(script, moment, count):
                if point.action == "resend":
                    self._again(script, tuple(args), answer)
                else:
                    _hit(point, count)
        except RedisConnectionError as error:
            return error
        return None

    def _counted(self, script: str, calls: int = 1) -> int:
        """Return the how many-th call of a script the first of these is."""
        with self._lock:
            first = self._counts[script] + 1
            self._counts[script] += calls
        return first

    def _due(self, script: str, moment: str, count: int) -> list[Failpoint]:
        return [point for point in self._points if point.meets(script, moment, count)]

    def _again(self, script: str, args: tuple[Any, ...], first: Any) -> None:
        second = self._call(script, *args)
        if script in REPEATABLE and second != first:
            raise FailpointError(f"{script} sent again answered {second!r}, at first {first!r}")


def _hit(point: Failpoint, count: int) -> None:
    if point.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    log.warning("failpoint: %s %s, call %d: %s", point.moment, point.script, count, point.action)
    if point.action == "pause":
        time.sleep(point.ms / 1000)
    else:
        raise RedisConnectionError(f"failpoint: the connection broke {point.moment} {point.script}")
