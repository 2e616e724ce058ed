"""One bot in one process: its folder, configuration, plugins, services and transport.

Nothing here is global but the choice of the active bot: two bots can live in one process (and do, in tests).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lumia.asyncloop import AsyncLoop
from lumia.embedding import Embedding
from lumia.errors import BackendUnavailableError, NotRunningError
from lumia.executor import Executor, expected_type
from lumia.generations import Generations
from lumia.marks import DEFAULT_QUEUE
from lumia.ports import Limits, Transport
from lumia.routes import DEFAULT_RETRY, PlanStep, Route, RouteIndex, RouteTable, Schedule
from lumia.system import Clock, RealClock

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from lumia.adapters.states import Board
    from lumia.blobs import Blobs
    from lumia.box import Box
    from lumia.config import ConfigStore
    from lumia.loader import Handler, Plugin, PluginSet
    from lumia.mcp import ToolServer
    from lumia.models import Models
    from lumia.ports import Claim
    from lumia.recording import Source
    from lumia.services import Services

_here: ContextVar[Runtime | None] = ContextVar("lumia_bot", default=None)
_process: list[Runtime] = []


LEDGER_THREADS = 4
MAX_SEEKING = 5
"""How often a step is handed on to find a process that still has the generation it was planned with."""


def active() -> Runtime | None:
    """Return the active bot, or None."""
    found = _here.get()
    return found if found is not None else (_process[-1] if _process else None)


def current() -> Runtime:
    """Return the active bot; raises `NotRunningError` when there is none."""
    bot = active()
    if bot is None:
        raise NotRunningError(
            "no bot is active in this process; handlers, gateway and commands have one, a script opens one with "
            "lumia.runtime.open_bot(), a test uses lumia.testing.Bot"
        )
    return bot


@dataclass(frozen=True)
class Loaded:
    """A handler as this process can call it. expects: the T of `Box[T]`, None when undeclared."""

    name: str
    fn: Callable[..., Any]
    glob: bool
    plugin: str
    generation: str
    expects: Any = None


@dataclass(frozen=True)
class Table:
    """The route table this process plans with."""

    number: int
    index: RouteIndex
    queues: tuple[str, ...]


class Activated:
    """A block in which a bot is the active one; what `Runtime.activated` returns, quicker than a generator's."""

    __slots__ = ("_bot", "_token")
    _token: Token[Runtime | None]

    def __init__(self, bot: Runtime) -> None:
        self._bot = bot

    def __enter__(self) -> Runtime:
        self._token = _here.set(self._bot)
        return self._bot

    def __exit__(self, *exc: object) -> None:
        _here.reset(self._token)


@dataclass
class Runtime:
    """One bot in one process.

    worker: this process's name in claims and the journal. board: how the accounts of adapters fare here. draining:
    it takes no more runs than it has. player: gives, in a replay, what answers the steps of a claim instead of the
    world; None for a claim lets them use it.
    """

    root: Path
    base: Path
    transport: Transport
    secret: bytes
    config: ConfigStore | None = None
    plugins: PluginSet | None = None
    services: Services | None = None
    blobs: Blobs | None = None
    models: Models | None = None
    clock: Clock = field(default_factory=RealClock)
    limits: Limits = field(default_factory=Limits)
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    redact: Callable[[str], str] = str
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("lumia"))
    handlers: dict[str, Loaded] = field(default_factory=dict)
    tool_servers: Mapping[str, ToolServer] = field(default_factory=dict)
    draining: bool = False
    player: Callable[[Claim], Source | None] | None = None
    board: Board | None = None
    _table: Table | None = None
    _loop: AsyncLoop | None = None
    _beside: ThreadPoolExecutor | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.executor = Executor(self)
        self.embedding = Embedding(self)
        self.generations = Generations(self)

    @property
    def table(self) -> Table:
        """Return the route table to plan with; raises `BackendUnavailableError` before a worker has published one."""
        if self._table is None:
            self.refresh_routes()
        assert self._table is not None
        return self._table

    @property
    def planned(self) -> Table | None:
        """Return the route table to plan with, None while none has been read: `table` would wait for the broker."""
        return self._table

    @property
    def routes(self) -> RouteIndex:
        """Return the index of the routes this process plans with."""
        return self.table.index

    def refresh_routes(self) -> None:
        """Read the published route table."""
        table = self.transport.routes()
        if table is None:
            raise BackendUnavailableError(
                "no worker has published its handlers yet, so nothing can be accepted; start one with `lumia up` or "
                "`celery -A tasks worker`"
            )
        self.use_routes(table)

    def use_routes(self, table: RouteTable) -> None:
        """Plan with `table` from now on."""
        self._table = Table(table.number, RouteIndex(table.routes), table.queues)

    def install(self, plugins: PluginSet) -> RouteTable:
        """Make the handlers of loaded plugins callable and return the table that describes them."""
        self.plugins = plugins
        self.handlers = {one.name: one for plugin in plugins.plugins.values() for one in self.loaded(plugin)}
        self.tool_servers = _tool_servers(plugins)
        return self.describe(plugins)

    def describe(self, plugins: PluginSet) -> RouteTable:
        """Return the table that describes the handlers of loaded plugins."""
        generations = {name: plugin.generation for name, plugin in plugins.plugins.items()}
        return route_table(plugins.handlers(*EVENT_KINDS), generations)

    def loaded(self, plugin: Plugin) -> list[Loaded]:
        """Return the handlers of a plugin as they can be called."""
        return [_loaded(handler) for handler in plugin.handlers if handler.mark.kind in EVENT_KINDS]

    def handler(self, step: PlanStep) -> Loaded | None:
        """Return the handler of a plan's step as loaded here, or None when it was removed.

        It is of the generation the plan names, if that is here, else of the one at work.
        """
        found = self.handlers.get(step.handler)
        if found is None or found.generation != step.generation:
            found = self.generations.find(step) or found
        return _held() if found is None and step.handler == "lumia.held" else found

    def is_behind(self, step: PlanStep, handbacks: int = 0) -> bool:
        """Tell whether the handler of a plan's step, as it was planned with, is to be had and not loaded here.

        It is where it is published, and where another live process still has it, unless that was tried often enough.
        A handler that nobody publishes any more was removed, and a plan older than what is there runs with that.
        """
        mine = self.handlers.get(step.handler)
        if (mine is not None and mine.generation == step.generation) or self.generations.find(step) is not None:
            return False
        table = self.transport.routes()
        generations = {route.generation for route in table.routes if route.handler == step.handler} if table else set()
        if step.generation in generations:
            return True
        if handbacks < MAX_SEEKING and self.generations.is_elsewhere(step):
            return True
        return bool(generations) and mine is None

    def run_inline(self, run_id: str, box: Box[Any]) -> None:
        """Execute an Arc run that was just started by this process."""
        with self.activated():
            self.executor.process_inline(self.transport.begin_inline(run_id), box)

    def run_async(self, coroutine: Any, limit: float, handler: str) -> Any:
        """Run an async handler on this process's event loop."""
        with self._lock:
            if self._loop is None:
                self._loop = AsyncLoop()
        return self._loop.run(coroutine, limit, handler)

    def beside(self) -> ThreadPoolExecutor:
        """Return the threads in which async handlers have the ledger written, so that the event loop goes on."""
        with self._lock:
            if self._beside is None:
                from concurrent.futures import ThreadPoolExecutor

                self._beside = ThreadPoolExecutor(LEDGER_THREADS, "lumia-ledger")
        return self._beside

    def activate(self) -> Runtime:
        """Make this the process's bot."""
        _process.append(self)
        return self

    def activated(self) -> Activated:
        """Make this the active bot for a block."""
        return Activated(self)

    def deactivate(self) -> Runtime:
        """Make this no longer the process's bot; `activated()` still makes it the active one of a block."""
        if self in _process:
            _process.remove(self)
        return self

    def close(self) -> None:
        """Unload plugins and release what the bot holds."""
        self.deactivate()
        with ExitStack() as last:
            last.callback(self.transport.close)
            if self.board is not None:
                last.callback(self.board.close)
            if self._beside is not None:
                last.callback(self._beside.shutdown)
            if self._loop is not None:
                last.callback(self._loop.close)
            self.embedding.stop()
            if self.plugins is not None:
                with self.activated():
                    self.generations.close()
                    self.plugins.close()


def _tool_servers(plugins: PluginSet) -> Mapping[str, ToolServer]:
    from lumia.mcp import KIND

    tools = plugins.handlers(KIND)
    if not tools:
        return {}
    from lumia.mcp_local import servers

    return servers(tools)


def _held() -> Loaded:
    from lumia import held

    return Loaded(held.HANDLER, held.held, False, "lumia", "")


def open_bot(
    root: Path | str | None = None, *, load: str = "none", transport: Transport | None = None, start: bool = True
) -> Runtime:
    """Open the bot of `root` in this process and make it the active one, see `lumia.opening.open_bot`."""
    from lumia import opening

    return opening.open_bot(root, load=load, transport=transport, start=start)


EVENT_KINDS = frozenset({"pipe", "consumer", "chain", "interceptor", "cron"})


def _loaded(handler: Handler) -> Loaded:
    return Loaded(
        handler.name, handler.fn, handler.mark.glob, handler.plugin, handler.generation, expected_type(handler.fn)
    )


def route_table(handlers: list[Handler], plugins: Mapping[str, str]) -> RouteTable:
    """Return the routes and schedules of handlers, in their plugins' load order."""
    from lumia.bus import TICKS

    routes = tuple(_route(handler, order) for order, handler in enumerate(handlers))
    ticks = [Schedule(name, expression) for name, expression in TICKS.items()]
    timed = [_schedule(handler) for handler in handlers if handler.mark.kind == "cron"]
    return RouteTable(0, routes, (*ticks, *timed), dict(plugins))


def _route(handler: Handler, order: int) -> Route:
    from lumia.bus import event_id
    from lumia.marks import retry_of

    mark, options = handler.mark, handler.mark.options
    return Route(
        mark.kind, event_id(mark, handler.name), handler.name, handler.plugin, handler.generation, glob=mark.glob,
        priv=mark.priv, order=order, queue=options.get("queue", DEFAULT_QUEUE), timeout=options.get("timeout"),
        hard=bool(options.get("hard")), retry=retry_of(options.get("retry")) or DEFAULT_RETRY, source=handler.source,
    )  # fmt: skip


def _schedule(handler: Handler) -> Schedule:
    from lumia.bus import cron_id

    options = handler.mark.options
    return Schedule(cron_id(handler.name), handler.mark.id, options.get("tz", "UTC"), options.get("missed", "skip"))
