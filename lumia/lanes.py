"""What a start may ask of its lane: a cap, an age limit, the collection of a burst, a rate (docs/lanes.md).

Every transport keeps these promises in one atomic step; here are their words, checks and the one formula of the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from lumia.context import active, required
from lumia.errors import BoxError, PayloadError
from lumia.ids import is_message
from lumia.marks import MAX_NAME, is_name, is_seconds

OVERFLOWS = ("reject", "drop_oldest", "drop_newest")
STALE = ("drop", "run")
OVER = ("delay", "reject", "drop")
WINDOWS = 10
"""How many windows a burst may last where no max_wait is given."""
MAX_COUNT = 10**9
MAX_WAITING = 100
"""Waiting runs that a handler can ask for."""
MAX_WAITING_BYTES = 256 * 1024
"""Bytes of their Boxes; so the record of a step holds them."""
_INSTANT = 1e-6  # less is what rounding leaves


@dataclass(frozen=True)
class LaneOptions:
    """What one run asks of its lane; times in seconds.

    cap: runs that may wait in the lane, None for any number; overflow: what happens to one too many: `reject` (the
    start raises `LaneFullError`), `drop_oldest` or `drop_newest`. max_age: how long it may wait for its turn, 0 for
    ever; stale: `drop` it then, or `run` it all the same. collect: how long a burst waits for its next message, 0 for
    none; max_wait: how long after its first one at most. Raises `PayloadError` for what makes no sense.
    """

    cap: int | None = None
    overflow: str = "reject"
    max_age: float = 0.0
    stale: str = "drop"
    collect: float = 0.0
    max_wait: float = 0.0

    def __post_init__(self) -> None:
        if self.cap is not None and not _is_count(self.cap, 0):
            raise PayloadError(f"cap is the number of runs that may wait, from 0 up, got {self.cap!r}")
        for name, value in (("max_age", self.max_age), ("collect", self.collect), ("max_wait", self.max_wait)):
            if not is_seconds(value):
                raise PayloadError(f"{name} is seconds from 0 up, got {value!r}")
        _one_of("overflow", self.overflow, OVERFLOWS)
        _one_of("stale", self.stale, STALE)
        if self.max_wait and self.max_wait < self.collect:
            raise PayloadError(f"max_wait ({self.max_wait:g} s) is shorter than collect ({self.collect:g} s)")

    @property
    def longest(self) -> float:
        """Return how many seconds after its first message a burst ends at the latest."""
        return self.max_wait or self.collect * WINDOWS


@dataclass(frozen=True)
class Rate:
    """At most `count` in `per` seconds, evenly spaced; up to `burst` at once after a pause (GCRA).

    over: what happens to a run over the limit: `delay` it until it is allowed, `reject` it (`RateLimitedError`), or
    `drop` it. name: what the limit is counted under; runs of one id and lane, when empty. Raises `PayloadError` for
    figures that are none.
    """

    count: int
    per: float = 60.0
    burst: int = 1
    over: str = "delay"
    name: str = ""

    def __post_init__(self) -> None:
        if not _is_count(self.count, 1) or not _is_count(self.burst, 1):
            raise PayloadError(f"lumia.Rate: count and burst are from 1 up, got {self.count!r} and {self.burst!r}")
        if not is_seconds(self.per) or not self.per:
            raise PayloadError(f"lumia.Rate: per is seconds above 0, got {self.per!r}")
        _one_of("lumia.Rate: over", self.over, OVER)
        if self.name and not is_name(self.name):
            raise PayloadError(f"lumia.Rate: name is 1 to {MAX_NAME} printable characters")

    @property
    def interval(self) -> float:
        """Return the seconds between two that are evenly spaced."""
        return self.per / self.count

    @property
    def slack(self) -> float:
        """Return the seconds by which one may come early, after a pause."""
        return self.interval * (self.burst - 1)

    def __str__(self) -> str:
        return f"{self.count} per {self.per:g} s" + (f" (burst {self.burst})" if self.burst > 1 else "")


@dataclass(frozen=True)
class Verdict:
    """Whether a limit allows one more now, which then is counted; wait: else, in how many seconds it will."""

    allowed: bool
    wait: float = 0.0

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True)
class LaneInfo:
    """A lane that is not idle. run: the one in flight, "" while a burst is collected only; times in seconds.

    since: when that one got its turn, in seconds since 1970. waiting: runs behind it; oldest: how long the first of
    them has been there. collecting: runs that still wait for their burst to end.
    """

    key: str
    run: str = ""
    since: float = 0.0
    waiting: int = 0
    oldest: float = 0.0
    collecting: int = 0


@dataclass(frozen=True)
class LaneReport:
    """The lanes that are not idle, the longest first, and what all lanes have done since the broker was empty.

    totals: `served` turns, `dropped` by a full lane or a rate, `rejected`, `stale`, `collected` (messages that joined).
    """

    lanes: tuple[LaneInfo, ...]
    totals: Mapping[str, int] = field(default_factory=dict)


TOTALS = ("served", "dropped", "rejected", "stale", "collected")


def gcra(tat: float, now: float, rate: Rate, *, reserve: bool = False) -> tuple[float, float]:
    """Return (wait, the new theoretical arrival time) of one more at `now`; all in seconds.

    It is counted when it needn't wait, or when its later place is to be reserved. tat: the result of the last call, 0
    at first. The generic cell rate algorithm, ITU-T I.371 appendix A.
    """
    tat = max(tat, now)
    wait = tat - rate.slack - now
    wait = wait if wait >= _INSTANT else 0.0
    return wait, tat + rate.interval if reserve or not wait else tat


def limit(name: str, rate: Rate) -> Verdict:
    """Count one more under `name`, in all processes of the bot, and tell whether `rate` allows it.

    It is counted at once, not with the step's commit: a step that is tried again asks again. `rate.over` means nothing
    here. A replay gives the recorded answer and counts nothing. Raises `PayloadError` for a malformed name,
    `BackendUnavailableError`.
    """
    from lumia import runtime
    from lumia.recording import observed

    active("lumia.limit()")
    if not is_name(name):
        raise PayloadError(f"lumia.limit: a name is 1 to {MAX_NAME} printable characters, got {str(name)[:80]!r}")
    if not isinstance(rate, Rate):
        raise PayloadError(f"lumia.limit: the second argument is a lumia.Rate, got {rate!r}")

    def asked() -> list[Any]:
        verdict = runtime.current().transport.limit(name, rate)
        return [verdict.allowed, verdict.wait]

    return Verdict(*observed("limit", name, asked))


def stale_by() -> float:
    """Return by how many seconds the running step's run was over its `max_age` when it got its turn; 0.0 if it wasn't.

    Only a run started with `stale="run"` gets its turn then. Raises `FlowError` outside of handlers.
    """
    return required("lumia.lanes.stale_by()").claim.stale


@dataclass(frozen=True)
class Waiting:
    """A run that waits in a lane. accepted: seconds since 1970.

    content: what its Box holds, for a burst the list of all contents; None when that is no JSON, or is left out since
    the contents asked for are larger than 256 KiB together.
    """

    run_id: str
    id: str
    content: Any
    accepted: float

    @property
    def is_message(self) -> bool:
        """Tell whether it holds a chat message: a run of pipeline `msg`, or of `msg.media.…` that fetches its files."""
        return is_message(self.id)


def waiting(last: int = 20, *, first: int | None = None) -> tuple[Waiting, ...]:
    """Return the runs that wait behind the running step in its own lane, oldest first: the newest `last`, up to 100.

    first: instead, so many of those whose turn comes next. Empty in a run without a lane. Runs that are still put off
    (`delay`, `collect`, a rate) have no place in the lane yet and are not among them. Recorded: a replay gives the same
    answer. Raises `PayloadError` for a number that is none, `FlowError` outside of handlers,
    `BackendUnavailableError`.
    """
    from lumia.recording import observed

    step = required("lumia.lanes.waiting()")
    what, count = ("last", last) if first is None else ("first", first)
    if not _is_count(count, 1) or count > MAX_WAITING:
        raise PayloadError(f"lumia.lanes.waiting: {what} is a number from 1 to {MAX_WAITING}, got {count!r}")
    key, secret = step.claim.key, step.runtime.secret

    def asked() -> list[list[Any]]:
        found = step.runtime.transport.waiting(key, count, MAX_WAITING_BYTES, newest=first is None)
        return [[run_id, id, _content(wire, secret), accepted] for run_id, id, accepted, wire in found]

    rows = observed("waiting", f"{what} {count}", asked) if key else []
    return tuple(Waiting(run_id, id, deepcopy(content), accepted) for run_id, id, content, accepted in rows)


def _content(wire: str, secret: bytes) -> Any:
    """Return what a waiting run's Box holds, if that is JSON; a damaged one fails that run, not this one."""
    from lumia.box import Box

    try:
        box = Box.load(wire, secret) if wire else None
        return box.into() if box is not None and box.transport == "json" else None
    except BoxError:
        return None


def options(**wanted: Any) -> LaneOptions | None:
    """Return the options that were given, None when there is nothing to keep."""
    if all(wanted[name] == default for name, default in _DEFAULTS.items()):
        return None
    return LaneOptions(**wanted)


_DEFAULTS = {name: one.default for name, one in LaneOptions.__dataclass_fields__.items()}


def stale_reason(waited: float, max_age: float) -> str:
    """Return why a run was dropped that waited too long."""
    return f"stale: waited {round(waited, 1):g} s, max_age {max_age:g} s"


def full_reason(key: str, cap: int, *, evicted: bool) -> str:
    """Return why a run was dropped by a full lane."""
    return f"dropped: lane {key} is full (cap {cap})" + (", a newer run took its place" if evicted else "")


def rate_reason(name: str, rate: Rate) -> str:
    """Return why a run was dropped by a rate."""
    return f"dropped: rate limit {name}, {rate}"


def full_text(key: str, waiting: int, cap: int) -> str:
    """Return what a start is told that a full lane refuses."""
    return f"lane {key} is full: {waiting} runs wait and its cap is {cap}; nothing was accepted, try again later"


def limited_text(name: str, rate: str, wait: float) -> str:
    """Return what a start is told that a rate refuses."""
    return f"rate limit {name}, {rate}, is reached; nothing was accepted, the next one may come in {wait:.3g} s"


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_COUNT


def _one_of(what: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise PayloadError(f"{what} is one of {', '.join(allowed)}, got {value!r}")
