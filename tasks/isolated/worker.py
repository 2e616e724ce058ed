"""The worker of one isolated plugin: claims its steps and has them executed by the plugin's own processes.

It never imports the plugin, so nothing the plugin does ends it. A step whose process ends, hangs, or takes more than it
may, is committed here as a failed try that says so, at once: nobody has to miss a heartbeat first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from celery import Celery

from lumia.errors import PluginLoadError
from lumia.executor import StepListener
from lumia.isolation import Isolation, limits_of, queue_of, serve_with
from lumia.opening import open_following, start_plugins
from lumia.paths import find_root
from lumia.plugin import Plugin
from lumia.ports import Claim
from lumia.routes import RouteTable
from tasks.alone import dump
from tasks.backend import worker_name
from tasks.isolated.pool import START_SECONDS, WORKER_ENDS, Pool
from tasks.isolated.pools import Pools
from tasks.isolated.process import Process, ending
from tasks.keeper import Keeper
from tasks.turns import Share
from tasks.worker import LumiaWorker

KILL_SECONDS = 1.0
"""How long after its limit a step's process is ended: one that was told to stop may still commit that by itself."""
PATIENCE_SECONDS = 0.5
"""How long a claimed step waits for a process, before it goes back into its queue."""


class IsolatedWorker(LumiaWorker):
    """A worker of the queue `plugin.<name>` and of nothing else."""

    def __init__(self, app: Celery) -> None:
        super().__init__(app)
        self._pools: Pools | None = None

    def prepare(self, explicit_queues: bool) -> None:
        """Learn what there is to serve; raises `PluginLoadError` for a plugin that isn't isolated, or fails."""
        self._explicit = True
        self._pools = Pools(find_root())
        serve_with(self._pools)
        self._bot, self._deployment = open_following("all", start=False)
        plugin = self.plugin
        if plugin.manifest.isolation is None:
            raise PluginLoadError(f"{plugin.name} is not isolated: the bot's other workers execute it")
        self._app.conf.worker_concurrency = limits_of(plugin.manifest).concurrency

    @property
    def plugin(self) -> Plugin:
        """Return the plugin, as it stands in here."""
        assert self.bot.plugins is not None
        name = self.only
        found = self.bot.plugins.plugins.get(name)
        if found is None:
            reasons = [str(one) for one in self.bot.plugins.failures] or [f"there is no plugin {name!r}"]
            raise PluginLoadError("; ".join(reasons))
        return found

    def refuse_isolated(self, queues: str | Sequence[str]) -> None:
        """Serve what it was given."""

    def execute_here(self, slots: int) -> None:
        """Start the plugin's processes and the keeper."""
        bot, plugin = self.bot, self.plugin
        assert bot.plugins is not None and self._pools is not None
        bot.worker = self.transport.worker = worker_name()
        with bot.activated():
            start_plugins(bot, bot.plugins)
            if plugin.name not in bot.plugins.plugins:  # tried again; its steps say why meanwhile
                self._pools.adopt(plugin)
        self._keeper = Keeper(bot, self.transport, self._refresh, self._watch, slots)
        self._keeper.start()
        self._follow()

    def execute(self, run_id: str, step: int, seq: int, hostname: str = "") -> str:
        """Have the step of a message executed; nothing is claimed before there is a process for it."""
        assert self._pools is not None
        pool = self._pools.of()
        if pool is not None:
            pool.wait_for_one(START_SECONDS)
        return super().execute(run_id, step, seq, hostname)

    def stop(self) -> None:
        """Sign off, and end the plugin's processes."""
        super().stop()
        if self._pools is not None:
            self._pools.close()
            self._pools = None
            serve_with(None)

    def _may_execute(self, claim: Claim) -> bool:
        return claim.plan.steps[claim.step].queue == queue_of(self.only)

    def _process(self, claim: Claim, events: StepListener, turn: Share) -> None:
        turn.leave()
        assert self._pools is not None
        generation = claim.plan.steps[claim.step].generation
        pool = self._pools.of(generation)
        process = pool.take(PATIENCE_SECONDS) if pool is not None else None
        while pool is not None and process is not None and not process.send(dump(claim)):
            pool.drop(process)  # it ended while it was idle
            process = pool.take(PATIENCE_SECONDS)
        if pool is None or process is None:
            self._without_process(claim, pool.broken if pool is not None else "it is being unloaded", events)
            return
        self._wait(pool, process, claim, events)

    def _wait(self, pool: Pool, process: Process, claim: Claim, listener: StepListener) -> None:
        step = claim.plan.steps[claim.step]
        listener.started(claim, step)
        began = time.monotonic()
        limit = step.timeout or self.bot.limits.step_timeout
        told = process.told(limit + KILL_SECONDS)
        seconds = time.monotonic() - began
        if told is not None and "outcome" in told:
            pool.give(process)
            listener.ended(claim, step, str(told["outcome"]), str(told.get("error", "")), seconds)
            return
        hung = process.alive and not process.ended_for and seconds >= limit
        code = pool.drop(process)
        if process.ended_for == WORKER_ENDS:
            return  # the claim is taken over like that of any worker that has left
        why = f"took longer than its {limit:g} s, and its process was ended" if hung else ending(code)
        if process.ended_for:
            why = f"was ended: {process.ended_for}"
        self.bot.log.warning("run %s: %s %s", claim.run_id, step.handler, why)
        self.bot.executor.fail(claim, f"{step.handler} {why}", seconds, listener)

    def _without_process(self, claim: Claim, broken: str, listener: StepListener) -> None:
        """Put back a step that finds all processes starting; one that finds none can start is counted, and fails."""
        if not broken:
            self.bot.executor.put_back(claim, PATIENCE_SECONDS)
            return
        step = claim.plan.steps[claim.step]
        why = f"no process of {self.only} can begin: {broken}"
        listener.started(claim, step)
        if claim.handbacks < self.bot.limits.handbacks:
            self.bot.executor.hand_back(claim, why)
            listener.ended(claim, step, "handback", "", 0.0)
        else:
            self.bot.executor.fail(claim, f"{why}; handed back {claim.handbacks} times", 0.0, listener)

    @property
    def only(self) -> str:
        """Return the name of the plugin."""
        return Isolation.here(self.bot.root).only or ""

    # --- what other workers do and this one leaves to them

    def _publish(self) -> RouteTable:
        table = self.transport.routes() or RouteTable(0, (), (), {})
        self.bot.use_routes(table)
        return table

    def _report_failures(self) -> None:
        """The workers that publish the routes tell what failed."""
