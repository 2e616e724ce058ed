"""A Celery worker in threads of a process that does something else: a gateway serving the queues of its accounts.

The process that holds a connection executes what has to go over it (DESIGN §4). It is a worker like any other: claims,
heartbeats, recovery and what Flower shows are the same. Only its queues come and go with the accounts, it executes with
the plugins the process has loaded, publishes no routes, and installs no signal handlers: who embeds it ends it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from celery import signals
from celery.app import trace
from celery.worker import WorkController, state
from kombu.asynchronous import set_event_loop

from lumia.errors import BackendUnavailableError, LumiaError
from lumia.executor import StepListener
from tasks.app import celery_app, register
from tasks.backend import redis_url
from tasks.keeper import Keeper, look_once_more
from tasks.queues import queue as unacknowledged
from tasks.watch import HUNG_DRAIN_SECONDS, leave_after
from tasks.worker import LumiaWorker

if TYPE_CHECKING:
    from lumia.ports import Claim
    from lumia.routes import PlanStep
    from lumia.runtime import Runtime
    from tasks.transport import RedisTransport

AGAIN_SECONDS = 1.0
"""When a worker that ended by itself, as by Celery's remote control, is started again."""
STOP_SECONDS = 3.0
"""How long the worker's connections may take to close."""
LOOK_SECONDS = 0.02

log = logging.getLogger("lumia")
_state: Any = state


class EmbeddedWorker:
    """Implements `lumia.ports.Embedded`.

    A process has one at a time: Celery keeps some of a worker's state globally.
    """

    def __init__(self, bot: Runtime, transport: RedisTransport, url: str = "") -> None:
        self._bot, self._transport = bot, transport
        self._app = celery_app(url or redis_url(bot.root), bot.root)
        self._app.conf.update(
            worker_concurrency=bot.limits.concurrency, worker_cancel_long_running_tasks_on_connection_loss=True
        )
        queues: Any = self._app.amqp.queues
        self._queues = queues
        self._queues.clear()
        self._queues._consume_from = {}
        self._worker = _Worker(self._app, self)
        register(self._app, self._worker)
        self._lock = threading.Lock()
        self._wanted: set[str] = set()
        self._told: set[str] = set()
        self._synced = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def bot(self) -> Runtime:
        """Return the bot it executes with."""
        return self._bot

    def add(self, queue: str) -> None:
        """Take messages from one more queue; the first one starts the worker."""
        with self._lock:
            self._wanted.add(queue)
            self._queues.select_add(unacknowledged(queue))
            if self._thread is None:
                self._start()
        self._sync_soon()

    def cancel(self, queue: str) -> None:
        """Take no more messages from a queue; what the broker has just given is put back."""
        with self._lock:
            self._wanted.discard(queue)
            self._queues.deselect(queue)
        self._sync_soon()

    def serves(self, queue: str) -> bool:
        """Tell whether a queue's steps are to be executed here now."""
        return queue in self._wanted

    def drain(self, seconds: float) -> bool:
        """Take no more messages, and wait for what is being executed; tell whether it all ended in time."""
        until = time.monotonic() + seconds
        for queue in list(self._wanted):
            self.cancel(queue)
        while not (self._idle() and (self._synced.is_set() or self._worker.consumer is None)):
            if time.monotonic() >= until:
                return self._idle()
            time.sleep(LOOK_SECONDS)
        return True

    def stop(self) -> None:
        """End the worker and sign off; steps that don't end are left to other processes, and end with this one."""
        self._ending.set()
        idle = self._idle()
        if self._thread is not None:
            _state.should_stop = os.EX_OK
            self._sync_soon()
            self._thread.join(STOP_SECONDS)
            self._tell(set())
            if idle:
                look_once_more(self._transport, log)
            self._worker.sign_off()
        signals.task_revoked.disconnect(self._revoked)
        if not idle:
            leave_after(HUNG_DRAIN_SECONDS)

    # --- the worker's thread

    def _start(self) -> None:
        self._bot.worker = self._transport.worker
        signals.task_revoked.connect(self._revoked, weak=True)
        self._thread = threading.Thread(target=self._run, name="lumia-embedded", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._bot.activated():
            while not self._ending.is_set():
                try:
                    self._worker.begin(self._bot.limits.concurrency)
                    self._serve()
                except BackendUnavailableError as error:
                    log.warning("the queues of this process have to wait: %s", error)
                except Exception:
                    log.exception("the embedded worker failed; it is started again")
                else:
                    if not self._ending.is_set():
                        log.warning("the embedded worker ended by itself; it is started again")
                self._ending.wait(AGAIN_SECONDS)

    def _serve(self) -> None:
        _state.should_stop = _state.should_terminate = None
        set_event_loop(None)
        name = f"gateway-{os.getpid()}@{socket.gethostname()}"
        trace.setup_worker_optimizations(self._app, name)
        controller = WorkController(
            app=self._app, hostname=name, ready_callback=self._ready, without_mingle=True, without_gossip=True
        )
        controller.start()

    def _ready(self, consumer: Any) -> None:
        self._worker.ready(consumer)
        log.info("this process serves %s", ", ".join(sorted(self._wanted)) or "no queue any more")
        self._sync()

    def _sync_soon(self) -> None:
        self._synced.clear()
        consumer = self._worker.consumer
        if consumer is not None:
            consumer.call_soon(self._sync)

    def _sync(self) -> None:
        """Begin and end consuming as was asked for; in the thread of Celery's event loop."""
        consumer = self._worker.consumer
        if consumer.task_consumer is None:
            return  # the connection is gone; its successor begins with what is wanted
        try:
            consuming = {queue.name for queue in consumer.task_consumer.queues}
            for name in self._wanted - consuming:
                consumer.add_task_queue(name)
            for name in consuming - self._wanted:
                consumer.cancel_task_queue(name)
        except Exception as error:
            log.warning("queues of this process: %s; tried again", error)
            return
        self._synced.set()

    def _idle(self) -> bool:
        return not state.reserved_requests and not self._worker.executing

    def refresh(self) -> None:
        """Look for what the others did meanwhile, and tell them what this one does; called every second."""
        if not self._synced.is_set():
            self._sync_soon()
        number = self._transport.routes_number()
        if number and number != self._bot.table.number:
            self._bot.refresh_routes()
        self._tell(set(self._wanted))

    def _tell(self, queues: set[str]) -> None:
        gone, self._told = self._told - queues, queues
        if queues or gone:
            try:
                self._transport.tell_served(queues, gone)
            except (LumiaError, OSError) as error:
                log.warning("telling what this process serves: %s", error)

    def _revoked(self, sender: Any = None, request: Any = None, **_: Any) -> None:
        if sender is not None and sender.app is self._app:
            self._worker.revoked(request.id)


class _Worker(LumiaWorker):
    """Executes steps with a bot that was loaded, and is closed, by somebody else."""

    def __init__(self, app: Any, owner: EmbeddedWorker) -> None:
        super().__init__(app)
        self._owner = owner
        self._bot = owner.bot
        self._count = 0
        self._counting = threading.Lock()

    @property
    def consumer(self) -> Any:
        """Return Celery's consumer, None before the first connection."""
        return self._consumer

    @property
    def executing(self) -> int:
        """Return how many messages are being executed."""
        return self._count

    def begin(self, slots: int) -> None:
        """Start the keeper: from now on this process is one that executes."""
        if self._keeper is None:
            keeper = Keeper(self.bot, self.transport, self._refresh, self._watch, slots)
            keeper.start()
            self._keeper = keeper

    def sign_off(self) -> None:
        """End the keeper."""
        if self._keeper is not None:
            self._keeper.stop()
            self._keeper = None

    def execute(self, run_id: str, step: int, seq: int, hostname: str = "") -> str:
        """Execute the step of a message and whatever this process may go on with."""
        with self._counting:
            self._count += 1
        try:
            return super().execute(run_id, step, seq, hostname)
        finally:
            with self._counting:
                self._count -= 1

    def _may_execute(self, claim: Claim) -> bool:
        return self._owner.serves(claim.plan.steps[claim.step].queue)

    def _heard(self, listener: StepListener, claim: Claim) -> StepListener:
        return _WhileServed(listener, lambda: self._may_execute(claim))

    def _refresh(self) -> None:
        self._owner.refresh()


class _WhileServed(StepListener):
    """Passes on what it hears, and ends a batch when its queue is served no longer."""

    def __init__(self, listener: StepListener, served: Callable[[], bool]) -> None:
        self._listener, self._served = listener, served

    def started(self, claim: Claim, step: PlanStep) -> None:
        self._listener.started(claim, step)

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        self._listener.ended(claim, step, outcome, error, seconds)

    def goes_on(self) -> bool:
        return self._served() and self._listener.goes_on()
