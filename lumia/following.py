"""Following deployments: what one process does while the bot's plugins change (docs/hot-reload.md).

It looks at the record several times a second, which is its sign of life. Whatever can take long (syncing the root,
importing, `on_load`, `on_unload`) is done beside, so that the looks go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lumia.deployment import Member, Standing, Wanted, place_of
from lumia.errors import LumiaError
from lumia.generations import Changed
from lumia.journal import described

if TYPE_CHECKING:
    from lumia.plugin import Plugin, PluginSet
    from lumia.routes import RouteTable
    from lumia.runtime import Runtime

LOOK_SECONDS = 0.25
RETIRE_SECONDS = 1.0
"""How often it is asked whether old generations are still needed."""
HUNG_SECONDS = 10.0
"""A load that goes on so long and whose deployment was decided doesn't end any more."""
JOB_SECONDS = 120.0
"""Anything else that is done beside (catching up, going back, unloading) and takes so long doesn't end any more."""


@dataclass(frozen=True)
class Taking:
    """How a process takes what a deployment brings.

    load: returns the plugins it should have, taking over from a set what hasn't changed, not started. bring: syncs this
    machine's bot root to what deployment `number` wants; restore: takes it back to the active one. switched: hears of
    every switch. busy: tells of an old generation that is needed although no run is planned with it. hung: what is done
    beside does not end, so this process can take no deployment any more. took: hears of each that is active.
    kind: worker, gateway or isolated (`lumia.isolation`); a worker's routes are those that are published.
    """

    kind: Literal["worker", "gateway", "isolated"]
    load: Callable[[Wanted, PluginSet], PluginSet]
    bring: Callable[[Wanted, int], None] = lambda wanted, number: None
    restore: Callable[[Wanted | None, int], None] = lambda wanted, number: None
    switched: Callable[[Changed], None] = lambda changed: None
    busy: Callable[[Plugin], bool] = lambda plugin: False
    hung: Callable[[], None] = lambda: None
    took: Callable[[Wanted], None] = lambda wanted: None


@dataclass
class _Job:
    """Something that is done beside. reasons: why it came to nothing."""

    kind: str
    number: int
    since: float
    reasons: tuple[str, ...] = ()
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class _Answer:
    number: int
    said: Literal["loading", "ready", "failed"]
    reasons: tuple[str, ...] = ()
    table: RouteTable | None = None


class Follower:
    """Follows the deployments of `bot` in this process. number: the one whose plugins it has loaded."""

    def __init__(self, bot: Runtime, taking: Taking, number: int = 0) -> None:
        self._bot, self._taking = bot, taking
        self._deployments = bot.transport.deployments()
        self._place = place_of(bot.root)
        self._name = bot.worker  # who serves queues, too, may take another one later
        self.number = number
        self._answered = self._prepared = self._missed = self._brought = 0
        self._late = False
        self._unsaid: _Answer | None = None
        self._job: _Job | None = None
        self._told_hung = self._away = False
        self._retired = 0.0
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="lumia-deployments", daemon=True)

    def start(self) -> None:
        """Take part from now on; while the broker is away, as soon as it is back."""
        self._bot.generations.needed = self._wake.set
        try:
            self._deployments.attend(self._member())
        except LumiaError as error:
            self._bot.log.warning("looking for deployments: %s", error)
        self._thread.start()

    def stop(self) -> None:
        """Take part no more, and sign off."""
        self._ending.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        try:
            self._deployments.leave(self._name)
        except LumiaError as error:
            self._bot.log.warning("signing off from deployments: %s", error)

    def _run(self) -> None:
        with self._bot.activated():
            while not self._ending.is_set():
                self._try()
                self._wake.wait(LOOK_SECONDS)
                self._wake.clear()

    def _try(self) -> None:
        try:
            self.look()
            self._away = False
        except LumiaError as error:
            if not self._away:
                self._bot.log.warning("looking for deployments: %s", error)
            self._away = True
        except Exception:
            self._bot.log.exception("following deployments failed; the next look tries again")

    def _member(self) -> Member:
        bot = self._bot
        return Member(self._name, self._taking.kind, self._place, self.number, bot.generations.held())

    # --- one look

    def look(self) -> None:
        """Do what is next; called again and again."""
        standing = self._deployments.attend(self._member())
        if self._unsaid is not None:
            standing = self._say(self._unsaid)
        job = self._job
        if job is not None and not job.done.is_set():
            self._watch_over(job, standing)
            return
        if job is not None:
            self._job = None
            standing = self._finished(job, standing)
        self._follow(standing)

    def _follow(self, standing: Standing) -> None:
        if self._prepared and standing.active == self._prepared:
            self._switch(standing.active)
        elif self._prepared and (standing.number != self._prepared or standing.state != "preparing"):
            number, self._prepared = self._prepared, 0
            self._begin("drop", number, self._drop)
        elif self._prepared:
            return
        elif standing.active not in (0, self.number, self._missed):
            self._begin("catch up", standing.active, lambda: self._load(standing.active))
        elif standing.state == "preparing" and standing.number != self._answered:
            self._answered = standing.number
            self._say(_Answer(standing.number, "loading"))
            self._begin("prepare", standing.number, lambda: self._load(standing.number))
        elif standing.state == "rolled back" and self._brought == standing.number:
            self._brought = 0
            self._begin("restore", standing.active, lambda: self._restore(standing.active))
        elif self._bot.generations.older and standing.state != "preparing":
            self._retire(standing)

    def _begin(self, kind: str, number: int, do: Callable[[], tuple[str, ...]]) -> None:
        job = self._job = _Job(kind, number, time.monotonic())
        self._told_hung = False

        def run() -> None:
            try:
                with self._bot.activated():
                    job.reasons = do()
            except LumiaError as error:
                job.reasons = (str(error),)
            except BaseException as error:  # whatever a plugin does while it is loaded
                self._bot.log.exception("deployment %s: to %s failed", number, kind)
                job.reasons = (described(error),)
            finally:
                job.done.set()
                self._wake.set()

        threading.Thread(target=run, name=f"lumia-deployment-{number}", daemon=True).start()

    def _finished(self, job: _Job, standing: Standing) -> Standing:
        reasons = tuple(self._bot.redact(reason) for reason in job.reasons)
        for reason in reasons:
            self._bot.log.error("deployment %s can't be taken over here: %s", job.number, reason)
        if job.kind == "prepare":
            self._prepared = 0 if reasons else job.number
            said: Literal["failed", "ready"] = "failed" if reasons else "ready"
            return self._say(_Answer(job.number, said, reasons, self._table()))
        if job.kind == "catch up" and reasons:
            self._missed = job.number
            self._alarm(f"{self._name} can't load deployment {job.number}: {reasons[0]}",
                        "mend it or roll it back with `pkg rollback`, or restart this process")  # fmt: skip
        elif job.kind == "catch up":
            self._prepared, self._late = job.number, True
        return standing

    def _say(self, answer: _Answer) -> Standing:
        self._unsaid = answer
        said = self._deployments.answer(
            answer.number, self._name, answer.said, answer.reasons, answer.table
        )  # repeated at the next look when nobody hears it
        self._unsaid = None
        return said

    def _table(self) -> RouteTable | None:
        return self._bot.generations.prepared if self._taking.kind == "worker" else None

    def _watch_over(self, job: _Job, standing: Standing) -> None:
        undecided = standing.number == job.number and standing.state == "preparing"
        loads = job.kind == "prepare"
        took, limit = time.monotonic() - job.since, HUNG_SECONDS if loads else JOB_SECONDS
        if self._told_hung or (loads and undecided) or took < limit:
            return
        self._told_hung = True
        if loads:
            self._alarm(f"deployment {job.number} is still being loaded in {self._name} although it is over",
                        "a plugin hangs while it is imported or in on_load; restart this process")  # fmt: skip
        else:
            self._alarm(f"{self._name} has tried to {job.kind} for {took:.0f} s (deployment {job.number}), and takes "
                        "no other deployment meanwhile", "a plugin hangs, mostly in on_unload or on_load, or a "
                        "repository does not answer; restart this process")  # fmt: skip
        self._taking.hung()

    def _alarm(self, what: str, fix: str) -> None:
        self._bot.log.error("%s; %s", what, fix)
        self._bot.transport.alarm(f"deployment in {self._name}", what, fix)

    # --- what is done beside

    def _load(self, number: int) -> tuple[str, ...]:
        wanted = self._deployments.wanted(number)
        if wanted is None:
            return (f"deployment {number} isn't kept any more",)
        self._brought = number
        self._taking.bring(wanted, number)
        failures = self._bot.generations.prepare(lambda keep: self._taking.load(wanted, keep))
        return tuple(str(failure) for failure in failures)

    def _drop(self) -> tuple[str, ...]:
        self._bot.generations.drop()
        return ()

    def _restore(self, number: int) -> tuple[str, ...]:
        self._taking.restore(self._deployments.wanted(number), number)
        return ()

    def _retire(self, standing: Standing) -> None:
        now = time.monotonic()
        if now < self._retired + RETIRE_SECONDS:
            return
        self._retired = now
        if all(member.active == standing.active for member in self._deployments.members()):
            in_use = self._deployments.in_use()
            if self._bot.generations.is_idle(in_use, self._taking.busy):
                self._begin("retire", standing.active, lambda: self._unload(in_use))

    def _unload(self, in_use: frozenset[tuple[str, str]]) -> tuple[str, ...]:
        self._bot.generations.retire(in_use, self._taking.busy)
        return ()

    # --- switching

    def _switch(self, number: int) -> None:
        self._prepared = self._missed = self._brought = 0
        table = self._table()
        changed = self._bot.generations.switch()
        self.number = number
        late, self._late = self._late, False
        published = self._bot.transport.routes()
        if table is not None and (published is None or late):  # perhaps nobody was there to give the routes
            published = self._bot.transport.publish(table, deployment=number)
        if published is not None:
            self._bot.use_routes(published)
        names = sorted({plugin.name for plugin in (*changed.gone, *changed.fresh)})
        self._bot.log.info("deployment %d is at work here: %s", number, ", ".join(names) or "nothing changed here")
        self._bot.transport.alarm(f"deployment in {self._name}", "", "")
        self._deployments.attend(self._member())
        self._note(number)
        self._taking.switched(changed)

    def _note(self, number: int) -> None:
        """Have this machine remember that a deployment is active; that it can't, is nothing to stop for."""
        try:
            wanted = self._deployments.wanted(number)
            if wanted is not None:
                self._taking.took(wanted)
        except (LumiaError, OSError) as error:
            self._bot.log.warning("deployment %d can't be noted: %s", number, error)
