"""`lumia.pipe` and `lumia.event`: mark handlers, start runs (spec §4–5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar, Unpack

from lumia import system
from lumia.box import Box, require
from lumia.context import StepContext, active
from lumia.errors import ArcError, BoxError, FlowError, LaneError, PayloadError, StaleRoutesError
from lumia.ids import child_id
from lumia.lanes import LaneOptions, Rate
from lumia.lanes import options as lane_options
from lumia.marks import (
    DEFAULT_QUEUE,
    MAX_NAME,
    NORMAL,
    PRIORITIES,
    PRIVATE_PREFIX,
    Function,
    Mark,
    Retry,
    is_name,
    is_queue,
    is_seconds,
    marker,
)

if TYPE_CHECKING:
    from lumia.ports import Kept, RunRequest
    from lumia.routes import Plan
    from lumia.runtime import Runtime, Table

F = TypeVar("F", bound=Function)


MAX_LANE_DELAY = 60.0
"""Seconds an attached child may be delayed inside a lane, which waits for it: pauses within a reply, not reminders."""


class Decorator(Protocol):
    """Marks a function and returns it unchanged, so its type stays what it was."""

    def __call__(self, fn: F, /) -> F:
        """Mark `fn`."""


class _Flow:
    """Starting runs of one flow; `Pipe` and `Event` add their decorators."""

    _flow = ""

    def start(
        self,
        id: str,
        content: Box[Any],
        *,
        key: str | None = None,
        dedup: str | None = None,
        detach: bool = False,
        delay: float = 0.0,
        priority: int | None = None,
        also: Sequence[tuple[str, Box[Any]]] = (),
        cap: int | None = None,
        overflow: str = "reject",
        max_age: float = 0.0,
        stale: str = "drop",
        collect: float = 0.0,
        max_wait: float = 0.0,
        rate: Rate | None = None,
        queue: str | None = None,
    ) -> str:
        """Start a run and return its id.

        In a handler the run starts when the step is committed; elsewhere it is accepted before this returns, or an
        error says why not.

        key: the lane, one run of a lane is in flight (default in a handler: its own lane). dedup: a second start under
        this text within the window returns the first run. detach: the run does not belong to this one's tree. delay:
        seconds. priority: 0 urgent, 3 normal, 6 low, 9 bulk. also: events accepted in the same atomic step.

        cap, overflow: how many runs may wait in the lane, and what happens to one too many. max_age, stale: seconds a
        run may wait for its turn, and what happens then. collect, max_wait: seconds in which a burst is collected into
        one run. rate: how often such a run may be started. See docs/lanes.md and `lumia.lanes.LaneOptions`.

        queue: where every step of this run is executed, whatever its handlers ask for; see docs/bus.md.

        Raises `BoxError` for content that is no Box, `PayloadError` for a malformed id, key or queue, `LaneError` when
        an attached child asks for another lane, `ArcError` for a live resource whose run can't be executed here and
        now, `BackendUnavailableError` when nothing could be accepted, `LaneFullError` and `RateLimitedError` where that
        is the declared policy (in a handler they fail the step, which is tried again).
        """
        options = _options(
            key=key, dedup=dedup, detach=detach, delay=delay, priority=priority, cap=cap, overflow=overflow,
            max_age=max_age, stale=stale, collect=collect, max_wait=max_wait, rate=rate, queue=queue,
        )  # fmt: skip
        step = active("start()")
        if step is not None:
            return _start_in_step(step, self._flow, id, content, options, also)
        return _start_now(self._flow, id, content, options, also)

    def ask(
        self,
        id: str,
        content: Box[Any],
        *,
        also: Sequence[tuple[str, Box[Any]]] = (),
        **options: Unpack[StartOptions],
    ) -> Asked:
        """Return the start that `start` would make outside of a step, for the gateway to commit with others."""
        if options.keys() <= _USUAL:  # what every message of a chat comes with
            given = _Options(options.get("key"), options.get("dedup"), False, 0.0, options.get("priority"))
            return Asked(self._flow, id, content, given, also)
        return Asked(self._flow, id, content, _options(**options), also)


class StartOptions(TypedDict, total=False):
    """The options of `start`, for those who pass them on."""

    key: str | None
    dedup: str | None
    detach: bool
    delay: float
    priority: int | None
    cap: int | None
    overflow: str
    max_age: float
    stale: str
    collect: float
    max_wait: float
    rate: Rate | None
    queue: str | None


_USUAL = {"key", "dedup", "priority"}


class _Options:
    __slots__ = ("dedup", "delay", "detach", "key", "lane", "priority", "queue", "rate")

    def __init__(
        self, key: str | None, dedup: str | None, detach: bool, delay: float, priority: int | None,
        lane: LaneOptions | None = None, rate: Rate | None = None, queue: str | None = None,
    ) -> None:  # fmt: skip
        for what, text in (("key", key), ("dedup", dedup)):
            if text not in (None, ""):
                check_name(what, text)
        if not is_seconds(delay):
            raise PayloadError(f"delay is seconds from 0 up, got {delay!r}")
        if priority is not None and (isinstance(priority, bool) or priority not in PRIORITIES):
            raise PayloadError(f"priority is one of {PRIORITIES} (0 is served first), got {priority!r}")
        if rate is not None and not isinstance(rate, Rate):
            raise PayloadError(f"rate is a lumia.Rate, as lumia.Rate(20, per=60), got {rate!r}")
        if delay and (rate is not None or (lane is not None and lane.collect)):
            raise PayloadError("a run has a delay, or waits for its rate or for the end of its burst: leave one out")
        self.key, self.dedup, self.detach, self.delay, self.priority = key, dedup or "", detach, delay, priority
        if queue is not None and not is_queue(queue):
            raise PayloadError(f"queue is a printable name of 1 to {MAX_NAME} characters without ':', got {queue!r}")
        self.lane, self.rate, self.queue = lane, rate, queue


def _options(
    *, cap: int | None = None, overflow: str = "reject", max_age: float = 0.0, stale: str = "drop",
    collect: float = 0.0, max_wait: float = 0.0, rate: Rate | None = None, key: str | None = None,
    dedup: str | None = None, detach: bool = False, delay: float = 0.0, priority: int | None = None,
    queue: str | None = None,
) -> _Options:  # fmt: skip
    lane = None
    if (cap, overflow, max_age, stale, collect, max_wait) != (None, "reject", 0.0, "drop", 0.0, 0.0):
        lane = lane_options(
            cap=cap, overflow=overflow, max_age=max_age, stale=stale, collect=collect, max_wait=max_wait
        )
    return _Options(key, dedup, detach, delay, priority, lane, rate, queue)


def check_name(what: str, text: object) -> str:
    """Return `text` when it can be an id or a key: 1 to 512 printable characters; raises `PayloadError`."""
    if not is_name(text):
        shown = repr(text) if len(repr(text)) < 80 else repr(text)[:77] + "…"
        raise PayloadError(f"{what} must be 1 to {MAX_NAME} printable characters, got {shown}")
    return str(text)


def check_pause(step: StepContext, delay: object) -> None:
    """Raise `FlowError` unless a handler may put its successor off by `delay` seconds."""
    handler = step.step.handler
    if not isinstance(delay, (int, float)) or not is_seconds(delay):
        raise FlowError(f"next() in {handler}: delay is seconds from 0 to {MAX_LANE_DELAY:g}, got {delay!r}")
    if delay > MAX_LANE_DELAY:
        raise FlowError(
            f"next() in {handler}: its lane would wait {delay:g} s for it, {MAX_LANE_DELAY:g} s is the most; start a "
            "run of its own for what comes later: lumia.pipe.start(…, delay=…, detach=True)"
        )
    if delay and step.claim.arc:
        raise FlowError(f"next() in {handler}: this run has a live resource and goes on at once; leave out delay")


def _request(
    bot: Any, run_id: str, flow: str, id: str, content: Box[Any], options: _Options, *, hold: bool = False,
    table: Table | None = None, in_line: bool = False,
) -> RunRequest:  # fmt: skip
    check_name("id", id)
    require(content, f"start({id!r})")
    plan = (table or bot.table).index.plan(flow, id)
    if options.queue is not None:
        plan = _moved(id, plan, options.queue)
    if hold:
        from lumia.held import plan_of  # only a live replay needs it

        plan = plan_of(plan, id, hold=hold)
    if flow == "pipe" and not plan.steps:
        bot.log.warning("start(%r): nothing handles this pipeline; the run ends at once", id)
    if content.is_arc:
        _check_inline(bot, id, plan, options)
    if options.lane is not None:
        _check_lane(id, content, options.lane, options.key)
    wire = "" if content.is_arc else content.dump(bot.secret)
    from lumia.ports import RunRequest  # see lumia.store

    return RunRequest(
        run_id, flow, id, plan, wire, key="" if content.is_arc else options.key or "", dedup=options.dedup,
        delay=options.delay, priority=NORMAL if options.priority is None else options.priority,
        root_id=run_id, attached=False, arc=content.is_arc and bool(plan.steps), lane=options.lane, rate=options.rate,
        in_line=in_line,
    )  # fmt: skip


def _moved(id: str, plan: Plan, queue: str) -> Plan:
    """Return the plan on another queue; raises `PayloadError` where its steps need a process of their own."""
    hard = [step.handler for step in plan.steps if step.hard]
    if hard and queue.startswith(PRIVATE_PREFIX):
        raise PayloadError(
            f"start({id!r}): {hard[0]} has a hard limit, which ends its process; on the queue {queue!r} that would be "
            "the gateway: leave out hard=True, or queue"
        )
    return plan.on(queue)


def _check_lane(id: str, content: Box[Any], lane: LaneOptions, key: str | None) -> None:
    if not key and (lane.cap is not None or lane.collect):
        raise PayloadError(f"start({id!r}): cap and collect are about a lane; name it with key=")
    if lane.collect and content.transport != "json":
        raise BoxError(
            f"start({id!r}): a burst is collected into one list, so its Boxes hold JSON values; this one holds a "
            f"{content.inner_type().__qualname__}: box plain values, or leave out collect"
        )


def _check_inline(bot: Any, id: str, plan: Plan, options: _Options) -> None:
    """Refuse a live resource where its run could not be executed here and now."""
    elsewhere = [step.handler for step in plan.steps if step.queue != DEFAULT_QUEUE]
    absent = [step.handler for step in plan.steps if bot.handler(step) is None]
    if elsewhere or absent:
        why = f"{elsewhere[0]}, which runs on another queue" if elsewhere else f"{absent[0]}, not loaded here"
        raise ArcError(f"start({id!r}): a live resource can't leave its process, so it can't reach {why}")
    if options.delay > 0:
        raise ArcError(f"start({id!r}): a live resource can't wait, its run is executed here and now; leave out delay")
    if options.rate is not None or options.lane is not None:
        raise ArcError(f"start({id!r}): a live resource can't wait for a lane or a rate; leave these options out")


PLANNED_AT_MOST = 8
"""How often a start is planned anew because the route table has changed meanwhile."""


class Asked:
    """A start outside of a step: what is to be accepted at once, with the ids it keeps when it is planned anew.

    in_line: it keeps the order of its lane, and asks for nothing that only its plan can tell: it may be kept first.
    """

    __slots__ = ("_also", "_content", "_flow", "_ids", "_options", "id", "in_line")

    def __init__(
        self, flow: str, id: str, content: Box[Any], options: _Options, also: Sequence[tuple[str, Box[Any]]] = ()
    ) -> None:
        self.id = id
        self.in_line = bool(options.key) and not (
            options.lane or options.rate or options.delay or options.queue or content.is_arc
        )
        for _, box in also:
            self.in_line = self.in_line and not box.is_arc
        self._flow, self._content, self._options, self._also = flow, content, options, also
        self._ids = [system.new_id()]

    @property
    def boxes(self) -> list[Box[Any]]:
        """Return the Boxes, that of the run first."""
        return [self._content, *(box for _, box in self._also)]

    def requests(self, bot: Any, table: Table) -> list[RunRequest]:
        """Return what a transport is asked for, planned with `table`; raises what `start` says of wrong arguments."""
        self._ids += [system.new_id() for _ in range(1 + len(self._also) - len(self._ids))]
        run, *more = self._ids
        found = [
            _request(bot, run, self._flow, self.id, self._content, self._options, table=table, in_line=self.in_line)
        ]
        twin = _Options(None, "", False, 0.0, self._options.priority)
        for one, (name, box) in zip(more, self._also, strict=True):
            found.append(_request(bot, one, "event", name, box, twin, table=table))
        return found

    def kept(self, bot: Runtime) -> Kept:
        """Return what an inbox is asked to keep of a start that is `in_line`; raises what `start` says of it."""
        from lumia import inbox  # see lumia.store

        options, wire = self._options, _wire(bot, self.id, self._content)
        also = [(name, _wire(bot, name, box)) for name, box in self._also]
        text = inbox.write(self._flow, self.id, options.key or "", options.priority, wire, also)
        return inbox.Kept(self._ids[0], options.dedup, text)

    def unsettled(self) -> StaleRoutesError:
        """Return the error for a route table that doesn't stand still."""
        return StaleRoutesError(
            f"start({self.id!r}): the route table changed {PLANNED_AT_MOST} times meanwhile; try again"
        )


def _wire(bot: Runtime, id: str, content: Box[Any]) -> str:
    check_name("id", id)
    return require(content, f"start({id!r})").dump(bot.secret)


def _start_now(flow: str, id: str, content: Box[Any], options: _Options, also: Sequence[tuple[str, Box[Any]]]) -> str:
    from lumia import runtime

    bot, asked = runtime.current(), Asked(flow, id, content, options, also)
    for _ in range(PLANNED_AT_MOST):
        table = bot.table
        requests = asked.requests(bot, table)
        try:
            started = bot.transport.start(requests, routes=table.number)
        except StaleRoutesError:
            bot.refresh_routes()
            continue
        if not started[0].duplicate:
            _run_inline(bot, requests, asked.boxes)
        return str(started[0].run_id)
    raise asked.unsettled()


def _run_inline(bot: Any, requests: Sequence[RunRequest], boxes: Sequence[Box[Any]]) -> None:
    for request, box in zip(requests, boxes, strict=True):
        if request.arc:
            bot.run_inline(request.run_id, box)


def _start_in_step(
    step: StepContext, flow: str, id: str, content: Box[Any], options: _Options, also: Sequence[tuple[str, Box[Any]]]
) -> str:
    run_id = _buffer(step, flow, id, content, options)
    for name, box in also:
        _buffer(step, "event", name, box, _Options(None, "", options.detach, 0.0, options.priority))
    return run_id


def _buffer(step: StepContext, flow: str, id: str, content: Box[Any], options: _Options) -> str:
    claim = step.claim
    if options.key and claim.key and options.key != claim.key and not options.detach:
        raise LaneError(
            f"{step.step.handler} runs in lane {claim.key!r} and starts {id!r} in lane {options.key!r}: two runs could "
            "wait for each other's lane; pass detach=True, or leave key out to stay in this lane"
        )
    if claim.key and options.delay > MAX_LANE_DELAY and not options.detach:
        raise LaneError(
            f"{step.step.handler} starts {id!r} in {options.delay:g} s, and its lane {claim.key!r} would wait for it; "
            f"pass detach=True for delays over {MAX_LANE_DELAY:g} s"
        )
    _check_apart(step, id, options)
    options.key = options.key or claim.key
    run_id = child_id(claim.run_id, claim.step, step.ordinal())
    base = _request(step.runtime, run_id, flow, id, content, options, hold=claim.hold)
    if base.arc and options.dedup:
        raise ArcError(
            f"start({id!r}) in {step.step.handler}: whether a run is a duplicate is known at the commit, and by then a "
            "live resource has to be executed; leave out dedup"
        )
    attached = not options.detach
    from lumia.ports import RunRequest  # see lumia.store

    request = RunRequest(
        run_id, flow, id, base.plan, base.box, key=base.key, dedup=base.dedup, delay=base.delay,
        priority=claim.priority if options.priority is None else options.priority, arc=base.arc,
        cause=f"{claim.run_id}/{claim.step}", parent=claim.run_id, root_id=claim.root_id if attached else run_id,
        attached=attached, inside=attached and bool(base.key) and base.key == claim.key, hold=claim.hold,
        lane=base.lane, rate=base.rate,
    )  # fmt: skip
    step.starts.append(request)
    if base.arc:
        step.arcs[run_id] = content.clone()
    return run_id


def _check_apart(step: StepContext, id: str, options: _Options) -> None:
    """Refuse an attached child that would keep its tree, and so the lane, waiting for others."""
    within = bool(step.claim.key) and (options.rate is not None or options.lane is not None)
    if not options.detach and (within or (options.lane is not None and options.lane.collect)):
        raise LaneError(
            f"{step.step.handler} starts {id!r} as a part of its own run, where it doesn't wait for a lane or a burst; "
            "pass detach=True, or leave out rate and the options of the lane"
        )


class Pipe(_Flow):
    """`lumia.pipe`: the breakable message flow (spec §5)."""

    _flow = "pipe"

    def on(
        self, id: str, priv: int = 0, *, queue: str | None = None, retry: Retry | int | None = None,
        timeout: float | None = None, hard: bool = False,
    ) -> Decorator:  # fmt: skip
        """Mark a stage of pipeline `id`; higher `priv` runs earlier, ties in registration order."""
        return marker("pipe", id, priv=priv, queue=queue, retry=retry, timeout=timeout, hard=hard or None)

    def on_re(
        self, glob: str, priv: int = 0, *, queue: str | None = None, retry: Retry | int | None = None,
        timeout: float | None = None, hard: bool = False,
    ) -> Decorator:  # fmt: skip
        """Mark a stage of every pipeline whose id matches `glob`; its first parameter is `src: str`."""
        return marker("pipe", glob, glob=True, priv=priv, queue=queue, retry=retry, timeout=timeout, hard=hard or None)


def _both(kind: str, what: str) -> tuple[Callable[..., Decorator], Callable[..., Decorator]]:
    def exact(
        self: Event, id: str, priv: int = 0, *, queue: str | None = None, retry: Retry | int | None = None,
        timeout: float | None = None, hard: bool = False,
    ) -> Decorator:  # fmt: skip
        return marker(kind, id, priv=priv, queue=queue, retry=retry, timeout=timeout, hard=hard or None)

    def globbed(
        self: Event, glob: str, priv: int = 0, *, queue: str | None = None, retry: Retry | int | None = None,
        timeout: float | None = None, hard: bool = False,
    ) -> Decorator:  # fmt: skip
        return marker(kind, glob, glob=True, priv=priv, queue=queue, retry=retry, timeout=timeout, hard=hard or None)

    exact.__doc__ = f"Mark {what} of event `id`; higher `priv` runs earlier."
    globbed.__doc__ = f"Mark {what} of every event whose id matches `glob`; its first parameter is `src: str`."
    return exact, globbed


class Event(_Flow):
    """`lumia.event`: notifications, ordered transforms and interceptors (spec §4)."""

    _flow = "event"
    consumer, consumer_re = _both("consumer", "a subscriber that gets its own copy")
    chain, chain_re = _both("chain", "a transform that may return a new Box")
    interceptor, interceptor_re = _both("interceptor", "a guard that may block the event")


pipe = Pipe()
event = Event()

TICKS = {"cron.1m": "* * * * *", "cron.5m": "*/5 * * * *", "cron.15m": "*/15 * * * *", "cron.1h": "0 * * * *",
         "cron.1d": "0 0 * * *"}  # fmt: skip
"""The built-in ticks: event id → cron expression, in UTC."""


def cron(
    expression: str, *, tz: str = "UTC", missed: str = "skip", queue: str | None = None,
    retry: Retry | int | None = None, timeout: float | None = None, hard: bool = False,
) -> Decorator:  # fmt: skip
    """Mark a function to be run at the times of a cron expression.

    expression: five fields, or six with seconds last. tz: IANA time zone. missed: what happens to runs that were due
    while no beat ran: `skip` them, run `once`, or `all`. The Box holds {"schedule", "due"} (due: seconds since 1970).
    """
    return marker(
        "cron", expression, tz=tz, missed=missed, queue=queue, retry=retry, timeout=timeout, hard=hard or None
    )


def cron_id(handler: str) -> str:
    """Return the event id under which a `lumia.cron` handler is fired."""
    return f"cron.at.{handler}"


def event_id(mark: Mark, handler: str) -> str:
    """Return the event id or pattern a mark listens to."""
    return cron_id(handler) if mark.kind == "cron" else mark.id
