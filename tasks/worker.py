"""The Celery worker process: loads plugins, publishes their routes, serves their queues, executes steps."""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from celery import Celery

from lumia.box import Box
from lumia.errors import LumiaError, PluginLoadError, StaleRoutesError, UnknownRunError
from lumia.executor import StepListener
from lumia.following import Follower
from lumia.generations import Changed
from lumia.isolation import isolated_queues
from lumia.loading import marks
from lumia.marks import ISOLATED_PREFIX
from lumia.opening import open_following, start_plugins, taking
from lumia.ports import Claim, RunRequest
from lumia.quarantine import STAGE as QUARANTINE
from lumia.routes import RouteTable
from lumia.runtime import Runtime
from lumia.system import new_id
from tasks.alone import Alone
from tasks.archive.thread import ArchiveThread
from tasks.backend import redis_url, worker_name
from tasks.events import TaskEvents
from tasks.inbox import InboxThread
from tasks.keeper import BEAT_SECONDS, Keeper, look_once_more
from tasks.keys import FAILURES
from tasks.lists import shared
from tasks.pool import TaskPool
from tasks.queues import add_consumer, cancel_consumer, consume
from tasks.transport import RedisTransport, connect
from tasks.turns import Share, Turns
from tasks.watch import Watch, leave_after, leave_to_be_replaced

BEHIND_SECONDS = 10.0
"""After so long the main process of a prefork pool tries again to load a deployment that it couldn't."""


class StepFailed(Exception):
    """The delivered step failed; its retry or dead letter is committed, Celery only has to show it."""


class LumiaWorker:
    """One worker: the main process of a threads pool, or main and children of a prefork pool."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._bot: Runtime | None = None
        self._glance: RedisTransport | None = None
        self._keeper: Keeper | None = None
        self._archive: ArchiveThread | None = None
        self._inbox: InboxThread | None = None
        self._consumer: Any = None
        self._events: Any = None
        self._watch = Watch()
        self._alone = Alone()
        self._turns = Turns()
        self._ailing: dict[str, int] = {}
        self._quarantined: list[str] = []
        self._name = ""
        self._explicit = False
        self._served: set[str] = set()
        self._follower: Follower | None = None
        self._deployment = 0
        self._behind = (0, 0.0)

    @property
    def bot(self) -> Runtime:
        """Return the bot this process runs."""
        assert self._bot is not None, "the worker has not been initialised"
        return self._bot

    @property
    def transport(self) -> RedisTransport:
        """Return the bot's transport."""
        found = self.bot.transport
        assert isinstance(found, RedisTransport)
        return found

    def prepare(self, explicit_queues: bool) -> None:
        """Load the plugins (without starting them), publish the routes, choose the queues."""
        self._explicit = explicit_queues
        self._bot, self._deployment = open_following("all", start=False)
        self._app.conf.worker_concurrency = self._bot.limits.concurrency
        table = self._publish()
        if not explicit_queues:
            self._served = self._wanted(self.transport)
            consume(self._app, sorted(self._served))
        self._register(table)
        self._note_ailing()

    def refuse_isolated(self, queues: str | Sequence[str]) -> None:
        """Raise `PluginLoadError` when this worker was given the queue of an isolated plugin: it has its own worker."""
        names = queues.split(",") if isinstance(queues, str) else queues
        for name in sorted(isolated_queues(self.bot.plugins).intersection(names)):
            plugin = name.removeprefix(ISOLATED_PREFIX)
            raise PluginLoadError(
                f"{plugin} is isolated, and its queue has a worker of its own: `lumia isolated {plugin}`"
            )

    def execute_here(self, slots: int) -> None:
        """Start the plugins and the keeper: this process executes `slots` steps at once; a prefork child, one."""
        name = worker_name()
        self.bot.worker = self.transport.worker = name
        self.transport.groups.is_quick = self._turns.is_quick
        plugins = self.bot.plugins
        assert plugins is not None
        before = len(plugins.plugins)
        with self.bot.activated():
            start_plugins(self.bot, plugins)
            if len(plugins.plugins) < before:
                self._publish()
        self._report_failures()
        self._keeper = Keeper(self.bot, self.transport, self._refresh, self._watch, slots)
        self._keeper.start()
        self._follow()
        self._archive = ArchiveThread(self.bot.root, self.transport, self.bot.config)
        self._archive.start()
        self._inbox = InboxThread(self.bot, self.transport)
        self._inbox.start()

    def _follow(self) -> None:
        """Take part in deployments: plugins are exchanged while this process runs."""
        takes = taking(self.bot, "all", switched=self._switched, hung=leave_to_be_replaced)
        self._follower = Follower(self.bot, takes, self._deployment)
        self._follower.start()

    def _switched(self, changed: Changed) -> None:
        assert self.bot.plugins is not None
        self._register(self.bot.describe(self.bot.plugins))
        self._report_failures()

    def _report_failures(self) -> None:
        """Tell `lumia status` and `lumia doctor` what failed to load; the newest worker's word counts."""
        assert self.bot.plugins is not None
        failures = self.bot.plugins.failures
        key = self.transport.prefix + FAILURES
        if failures:
            self.transport.redis.set(key, json.dumps([self.bot.redact(str(failure)) for failure in failures]))
        else:
            self.transport.redis.delete(key)
        self._note_ailing()

    def _note_ailing(self) -> None:
        """Remember the plugins that their settings kept from loading, and the state of their files."""
        failures = self.bot.plugins.failures if self.bot.plugins is not None else []
        self._ailing = _stamps(self.bot, [failure.name for failure in failures if failure.stage == "config"])
        self._quarantined = [failure.name for failure in failures if failure.stage == QUARANTINE]

    def _leave_if_repaired(self) -> None:
        """End when what kept a plugin from loading was mended: its settings, or somebody released it.

        The next worker loads it; a prefork child would only be forked again from the same parent.
        """
        if self._consumer is None or self.bot.draining:
            return
        if self._ailing and _stamps(self.bot, list(self._ailing)) != self._ailing:
            self._leave(f"settings of {', '.join(self._ailing)} were changed")
        elif released := [name for name in self._quarantined if not marks(self.bot.root, name)]:
            self._leave(f"{', '.join(released)} was released from quarantine")

    def _leave(self, why: str) -> None:
        self._ailing, self._quarantined = {}, []
        self.bot.log.warning("%s: this worker ends so that the next one loads it", why)
        os.kill(os.getpid(), signal.SIGTERM)

    def ready(self, consumer: Any) -> None:
        """Remember the consumer whose queues can be changed and whose events are sent.

        The main process of a prefork pool executes nothing, so it has no keeper; it looks for new routes by Celery's
        timer: a thread of its own would be copied, locks held, into children that are forked later.
        """
        self._consumer = consumer
        self._name = worker_name()
        if isinstance(consumer.pool, TaskPool):
            consumer.pool.has_room = lambda: not self._turns.awaited
            self._turns.freed = consumer.pool.wake
        if self._keeper is None:
            self._glance = RedisTransport(connect(redis_url(self.bot.root), timeout=1.0, tries=0), worker="main")
            consumer.timer.call_repeatedly(BEAT_SECONDS, self._refresh_in_main)

    def stop(self) -> None:
        """Sign off and unload."""
        if self._inbox is not None:
            self._inbox.stop()
            self._inbox = None
        if self._archive is not None:
            self._archive.stop()
            self._archive = None
        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        if self._keeper is not None:
            self._keeper.stop()
            self._keeper = None
        if self._bot is not None:
            self._bot.close()
            self._bot = None
            gc.collect()  # a child of a pool ends without asking what is left, so live resources are released here

    def shut_down(self) -> None:
        """Sign off when Celery has closed its connection; what it had popped and not begun is pushed again."""
        if self._bot is not None and self._consumer is not None:
            look_once_more(self.transport, self._bot.log)
        self.stop()

    def drain(self) -> None:
        """Take no more runs than are being executed, and leave for good when they don't end in time."""
        if self._bot is not None:
            self._bot.draining = True
            leave_after(self._bot.limits.drain)

    def execute(self, run_id: str, step: int, seq: int, hostname: str = "") -> str:
        """Execute the step of a message and whatever this process may go on with; returns what became of it.

        Raises `StepFailed` when the delivered step failed.
        """
        bot = self.bot
        with bot.activated(), self._turns.share() as turn:
            claim = self.transport.claim(run_id, step, seq)
            if claim is None:
                return "dropped: committed or claimed elsewhere"
            if not self._may_execute(claim):
                self.bot.executor.put_back(claim, 0.0)
                return "put back"
            events = TaskEvents(self._dispatcher(hostname), claim)
            try:
                self._process(claim, events, turn)
            finally:
                events.send()
        if events.failure:
            raise StepFailed(events.failure.strip().splitlines()[-1])
        return "committed"

    def _process(self, claim: Claim, events: StepListener, turn: Share) -> None:
        if self._alone.wants(claim, self.bot.limits):
            turn.leave()
            self._alone.execute(self.bot, claim, events)
        else:
            with self._watch.over(turn.over(self._heard(events, claim)), self.bot.limits) as listener:
                self.bot.executor.process(claim, listener)

    def _may_execute(self, claim: Claim) -> bool:
        """Tell whether a step is one for this process."""
        queue = claim.plan.steps[claim.step].queue
        return not queue.startswith(ISOLATED_PREFIX) or queue not in isolated_queues(self.bot.plugins)

    def _heard(self, listener: StepListener, claim: Claim) -> StepListener:
        """Return who hears of the steps that a message brings along."""
        return listener

    def revoked(self, task_id: str) -> None:
        """Cancel the run of a message that was revoked, as by Flower's button: Celery has thrown the message away."""
        run_id = task_id.partition(".")[0]
        with self.bot.activated(), suppress(UnknownRunError):
            self.transport.cancel(run_id, f"revoked in Celery (task {task_id})")

    def _dispatcher(self, hostname: str) -> Any:
        if self._consumer is not None:
            return self._consumer.event_dispatcher
        if self._events is None and hostname:
            self._events = self._app.events.Dispatcher(
                self._app.connection_for_write(), hostname=hostname, enabled=self._app.conf.worker_send_task_events
            )
        return self._events

    def _publish(self) -> RouteTable:
        assert self.bot.plugins is not None
        mine = self.bot.install(self.bot.plugins)
        try:
            table = self.bot.transport.publish(mine, deployment=self._loaded)
        except StaleRoutesError:
            # Another deployment is active by now, and this process will follow; or the broker was emptied.
            emptied = not self.bot.transport.deployments().look().active
            published = None if emptied else self.bot.transport.routes()
            table = published or self.bot.transport.publish(mine)
        self.bot.use_routes(table)
        return table

    @property
    def _loaded(self) -> int:
        """Return the deployment whose plugins this process has."""
        return self._follower.number if self._follower is not None else self._deployment

    def _follow_in_main(self, glance: RedisTransport) -> None:
        """Load what is active by now for the children that this process will fork; it executes nothing itself."""
        standing = glance.deployments().look()
        if standing.active in (0, self._deployment):
            return
        if self._behind[0] == standing.active and time.monotonic() < self._behind[1]:
            return
        wanted = glance.deployments().wanted(standing.active)
        if wanted is None:
            return
        takes = taking(self.bot, "all", switched=self._switched)
        try:
            failures = self.bot.generations.prepare(lambda keep: takes.load(wanted, keep), start=False)
        except LumiaError as error:
            self._note_behind(standing.active, str(error))
            return
        if failures:
            self._note_behind(standing.active, "; ".join(str(failure) for failure in failures))
            return
        changed = self.bot.generations.switch()
        self._deployment = standing.active
        self._switched(changed)
        self.bot.generations.retire(())

    def _note_behind(self, number: int, why: str) -> None:
        """Say that children begin with the plugins before, and have to catch up; it is tried again after a while."""
        self._behind = number, time.monotonic() + BEHIND_SECONDS
        self.bot.log.error("children of this process begin with the plugins before deployment %d: %s", number, why)

    def _refresh_in_main(self) -> None:
        """Refresh without ever holding up Celery's loop for long."""
        assert self._glance is not None
        try:
            with self.bot.activated():
                self._follow_in_main(self._glance)
                if self._glance.routes_number() == self.bot.table.number:
                    self._leave_if_repaired()
                    self._serve_new(self._glance)
                else:
                    self._refresh()
        except LumiaError as error:
            self.bot.log.warning("looking for new routes: %s", error)
        except Exception:
            self.bot.log.exception("looking for new routes failed; the next second tries again")

    def _refresh(self) -> None:
        self._leave_if_repaired()
        if self.transport.routes_number() != self.bot.table.number:
            table = self.transport.routes()
            if table is None:  # the broker was emptied
                table = self._publish()
            self.bot.use_routes(table)
        self._serve_new(self.transport)

    def _serve_new(self, transport: RedisTransport) -> None:
        """Serve queues that were published, or named by a start, since this worker has begun; tell which it serves."""
        taking = self._consumer.task_consumer if self._consumer is not None else None  # None without a connection
        if taking is not None:
            transport.tell_shared(self._name, {queue.name for queue in list(taking.queues)})
        if self._consumer is not None and not self._explicit:
            wanted = self._wanted(transport)
            for name in wanted - self._served:
                add_consumer(self._consumer, name)
            for name in (self._served - wanted) & isolated_queues(self.bot.plugins):
                cancel_consumer(self._consumer, name)
            self._served = wanted

    def _wanted(self, transport: RedisTransport) -> set[str]:
        """Return the queues a worker of all shared ones serves; those of isolated plugins have workers of their own."""
        return set(shared(transport.queues())) - isolated_queues(self.bot.plugins)

    def _register(self, table: RouteTable) -> None:
        for route in table.routes:
            if route.handler not in self._app.tasks:
                self._app.task(name=route.handler, ignore_result=True)(_single(self, route.handler))


def _single(worker: LumiaWorker, handler: str) -> Any:
    def run_alone(content: Any = None) -> str:
        """Start a run with this handler as its only step; `content` is a JSON value."""
        plan = worker.bot.routes.single(handler)
        assert plan is not None
        run_id = new_id()
        wire = Box.any(content).dump(worker.bot.secret)
        kind = "pipe" if plan.steps[0].kind == "pipe" else "event"
        worker.transport.start([RunRequest(run_id, kind, f"task.{handler}", plan, wire, root_id=run_id)])
        return run_id

    return run_alone


def _stamps(bot: Runtime, plugins: list[str]) -> dict[str, int]:
    """Return when the settings files of these plugins were last changed, 0 for an absent one."""
    files = {name: bot.root / "config" / f"{name}.toml" for name in plugins}
    return {name: file.stat().st_mtime_ns if file.exists() else 0 for name, file in files.items()}


def is_prefork(pool: Any) -> bool:
    """Tell whether a worker's pool class runs steps in child processes."""
    return "prefork" in str(getattr(pool, "__module__", pool)) or str(pool) in ("processes", "prefork")
