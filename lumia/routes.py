"""Routes, the index that finds them and the plans they make (spec §4.3–4.4, §5.2; DESIGN §2, §6)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from lumia.marks import DEFAULT_QUEUE, ISOLATED_PREFIX, Retry

DEFAULT_RETRY = Retry()
_STAGE = {"interceptor": 0, "chain": 1, "consumer": 2, "cron": 2, "pipe": 0}


@dataclass(frozen=True)
class Route:
    """One handler's way to be reached.

    kind: pipe, consumer, chain, interceptor or cron. id: exact id, or a pattern when `glob`. timeout: seconds, None for
    the bot's default. hard: the limit is enforced by ending the process (prefork queues). source: file and line.
    """

    kind: str
    id: str
    handler: str
    plugin: str
    generation: str = ""
    glob: bool = False
    priv: int = 0
    order: int = 0
    queue: str = DEFAULT_QUEUE
    timeout: float | None = None
    hard: bool = False
    retry: Retry = DEFAULT_RETRY
    source: str = ""

    @property
    def flow(self) -> str:
        """Return "pipe" for pipelines and "event" for everything that events reach."""
        return "pipe" if self.kind == "pipe" else "event"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form used in the route table."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Route:
        """Return the route that `as_dict` described."""
        return cls(**{**data, "retry": Retry(**data["retry"])})


@dataclass(frozen=True)
class PlanStep:
    """One handler of a plan with the options it had when the run started."""

    handler: str
    kind: str
    generation: str
    queue: str
    timeout: float | None
    hard: bool
    retry: Retry


@dataclass(frozen=True)
class Plan:
    """The ordered handlers of a run, resolved once when it starts; `digest` names its content."""

    steps: tuple[PlanStep, ...]
    text: str
    digest: str

    @classmethod
    def of(cls, steps: Iterable[PlanStep]) -> Plan:
        """Return the plan of these steps."""
        steps = tuple(steps)
        text = json.dumps([_packed(step) for step in steps], separators=(",", ":"), ensure_ascii=False)
        return cls(steps, text, hashlib.sha256(text.encode()).hexdigest()[:16])

    @property
    def queue(self) -> str:
        """Return the queue of its first step, the default one for a plan without steps."""
        return self.steps[0].queue if self.steps else DEFAULT_QUEUE

    def on(self, queue: str) -> Plan:
        """Return the same plan with its steps on `queue`, but for those of isolated plugins."""
        return _moved(self, queue)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Return the plan whose JSON text was stored."""
        return _parse(text)


def _packed(step: PlanStep) -> list[Any]:
    retry = step.retry
    options = [step.queue, step.timeout, step.hard, retry.attempts, retry.backoff, retry.max_delay]
    # The usual lane policy is left out, so that a plan's digest stays what it was before there was one.
    return [step.handler, step.kind, step.generation, *options, *([retry.lane] if retry.lane != "hold" else [])]


@lru_cache(maxsize=4096)
def _moved(plan: Plan, queue: str) -> Plan:
    return Plan.of(
        step if step.queue.startswith(ISOLATED_PREFIX) else replace(step, queue=queue) for step in plan.steps
    )


@lru_cache(maxsize=1024)
def _parse(text: str) -> Plan:
    return Plan.of(_unpacked(*row) for row in json.loads(text))


def _unpacked(
    handler: str, kind: str, generation: str, queue: str, timeout: float | None, hard: bool, *retry: Any
) -> PlanStep:
    return PlanStep(handler, kind, generation, queue, timeout, hard, Retry(*retry))


@lru_cache(maxsize=16384)
def pattern(glob: str) -> re.Pattern[str]:
    """Return the compiled form of a glob; `*` matches any text, every other character stands for itself.

    Each part between two stars is looked for once (atomic groups), so no id makes matching slow.
    """
    first, *rest = glob.split("*")
    if not rest:
        return re.compile(re.escape(first))
    middle = "".join(f"(?>.*?{re.escape(part)})" for part in rest[:-1] if part)
    return re.compile(f"{re.escape(first)}{middle}.*{re.escape(rest[-1])}", re.DOTALL)


class _Globs:
    """Globs found by the literal text before their first and after their last `*`."""

    def __init__(self, buckets: dict[str, dict[str, list[Route]]]) -> None:
        self._buckets = buckets
        self._heads = sorted({len(head) for head in buckets})
        self._tails = {head: sorted({len(tail) for tail in tails}) for head, tails in buckets.items()}

    def matching(self, id: str) -> list[Route]:
        found: list[Route] = []
        for length in self._heads:
            if length > len(id):
                break
            head = id[:length]
            for end in self._tails.get(head, ()):
                if length + end > len(id):
                    break
                routes = self._buckets[head].get(id[len(id) - end :], ())
                found += [route for route in routes if pattern(route.id).fullmatch(id)]
        return found


_Found = tuple[dict[tuple[str, str], list[Route]], dict[str, _Globs]]


def _build(routes: Sequence[Route]) -> _Found:
    exact: dict[tuple[str, str], list[Route]] = {}
    globs: dict[str, dict[str, dict[str, list[Route]]]] = {"pipe": {}, "event": {}}
    for route in routes:
        if not route.glob or "*" not in route.id:
            exact.setdefault((route.flow, route.id), []).append(route)
            continue
        head, tail = route.id.split("*", 1)[0], route.id.rsplit("*", 1)[-1]
        globs[route.flow].setdefault(head, {}).setdefault(tail, []).append(route)
    return exact, {flow: _Globs(buckets) for flow, buckets in globs.items()}


class RouteIndex:
    """Finds the plan of an id; built at the first dispatch, its cost does not grow with the number of handlers."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._found: _Found | None = None
        self._plans: dict[tuple[str, str], Plan] = {}

    def matching(self, flow: str, id: str) -> list[Route]:
        """Return the routes of `id` in the order they run: stage, then priv high to low, then registration."""
        if self._found is None:
            # Threads may build it twice; what they assign is complete and equal.
            self._found = _build(self.routes)
        exact, globs = self._found
        found = exact.get((flow, id), []) + globs[flow].matching(id)
        return sorted(found, key=lambda route: (_STAGE[route.kind], -route.priv, route.order))

    def plan(self, flow: str, id: str) -> Plan:
        """Return the plan of `id`; an id nobody handles has an empty one."""
        known = self._plans.get((flow, id))
        if known is None:
            known = Plan.of(_step(route) for route in self.matching(flow, id))
            if len(self._plans) >= 8192:
                self._plans.clear()
            self._plans[flow, id] = known
        return known

    def single(self, handler: str) -> Plan | None:
        """Return a plan with `handler` as its only step, or None when there is no such handler."""
        for route in self.routes:
            if route.handler == handler:
                return Plan.of([_step(route)])
        return None


def _step(route: Route) -> PlanStep:
    options = (route.queue, route.timeout, route.hard, route.retry)
    return PlanStep(route.handler, route.kind, route.generation, *options)


@dataclass(frozen=True)
class Schedule:
    """A cron entry: expression, IANA time zone, what to do with runs that were missed, and the event it fires."""

    name: str
    expression: str
    tz: str = "UTC"
    missed: str = "skip"


@dataclass(frozen=True)
class RouteTable:
    """What workers publish after loading plugins; gateway, CLI and beat only read it.

    number: counts publications. plugins: name → generation.
    """

    number: int
    routes: tuple[Route, ...]
    schedules: tuple[Schedule, ...]
    plugins: dict[str, str]

    @property
    def queues(self) -> tuple[str, ...]:
        """Return every queue a route asks for, the default one first."""
        asked = sorted({route.queue for route in self.routes} - {DEFAULT_QUEUE})
        return (DEFAULT_QUEUE, *asked)

    def dump(self) -> str:
        """Return the JSON text without the number, which the transport counts."""
        return json.dumps(
            {
                "routes": [route.as_dict() for route in self.routes],
                "schedules": [asdict(schedule) for schedule in self.schedules],
                "plugins": self.plugins,
            },
            separators=(",", ":"),
            sort_keys=True,
        )

    @classmethod
    def load(cls, number: int, text: str) -> RouteTable:
        """Return the table whose `dump` is `text`."""
        data = json.loads(text)
        routes = tuple(Route.from_dict(route) for route in data["routes"])
        return cls(number, routes, tuple(Schedule(**item) for item in data["schedules"]), data["plugins"])
