"""A conversation with a plugin that is being written: it is reloaded, hangs and crashes while the talk goes on.

Each version runs in a sandbox of its own. A new one is loaded beside the one that answers and takes its place when it
is ready; one that can't be loaded changes nothing. The store goes along, also past a crash.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lumia.pkg.dev.blame import Blame, Failure
from lumia.pkg.dev.notices import Answer, Notice
from lumia.pkg.dev.sandbox import Bounds, Sandbox, ended_because
from lumia.pkg.dev.trial import Trial
from lumia.pkg.dev.watch import Watcher

_GRACE = 1.0
"""Seconds a message that is at work may hold up a new version."""
_LOOK = 0.05
_PYTHON = 30.0
"""Seconds that Python may take to start."""
MAX_PAUSE = 60.0
"""Seconds between two tries of a step, at most."""
_FAILED = ("failed", "retry")
Event = Mapping[str, Any]


class Session:
    """The talk with the plugins of `trial`, as a context manager.

    show: gets every notice, in order, from one thread. watch: load the files anew whenever they are saved.
    spare: keep a process at hand for the next version.
    """

    def __init__(
        self,
        trial: Trial,
        show: Callable[[Notice], None],
        *,
        bounds: Bounds | None = None,
        watch: bool = False,
        spare: bool = True,
    ) -> None:
        self._trial, self._show, self._watch, self._spares = trial, show, watch, spare
        self._bounds = bounds or Bounds()
        self._blame = Blame(trial.plugins)
        self._inbox: queue.Queue[tuple[Sandbox | None, Event]] = queue.Queue()
        self._current: Sandbox | None = None
        self._coming: Sandbox | None = None
        self._spare: Sandbox | None = None
        self._ready: Event | None = None
        self._began = self._until = 0.0
        self._store: Mapping[str, Any] = {}
        self._asked: dict[int, Answer] = {}
        self._numbers = itertools.count(1)
        self._settled = threading.Event()
        self._leaving: list[threading.Thread] = []
        self._watcher: Watcher | None = None
        self._thread = threading.Thread(target=self._run, name="lumia-session", daemon=True)
        self.handlers: list[Event] = []

    def __enter__(self) -> Session:
        """Begin to load the plugins; `wait` tells when that is done."""
        self._thread.start()
        self.reload()
        if self._watch:
            self._watcher = Watcher(list(self._trial.plugins.values()), lambda files: self.reload())
        return self

    def __exit__(self, *error: object) -> None:
        """Let the plugins unload and end every process."""
        if self._watcher is not None:
            self._watcher.stop()
        self._inbox.put((None, {"t": "end"}))
        self._thread.join()
        for thread in self._leaving:
            thread.join()

    # --- what the author does

    def wait(self) -> bool:
        """Wait until what is being loaded works or has failed; tell whether there is a version that answers."""
        self._settled.wait()
        return self._current is not None

    def reload(self) -> None:
        """Load the files as they are now; the version that answers goes on meanwhile."""
        self._settled.clear()
        self._inbox.put((None, {"t": "reload"}))

    def restart(self) -> None:
        """End the process that is at work, and load the files as they are now."""
        self._settled.clear()
        self._inbox.put((None, {"t": "restart"}))

    def say(self, text: str, sender: str = "you", group: str = "") -> Answer:
        """Send a chat message, private unless a group is named; the answer is over when its run has ended."""
        return self._ask({"do": "say", "text": text, "sender": sender, "group": group})

    def start(self, flow: str, id: str, content: Any = None) -> Answer:
        """Start a pipeline (flow `pipe`), an `event`, or what a `cron` mark waits for: id is handler or tick."""
        return self._ask({"do": "start", "flow": flow, "id": id, "content": content})

    def _ask(self, command: Event) -> Answer:
        answer = Answer(time.monotonic() + self._bounds.seconds)
        self._inbox.put((None, {"t": "ask", "answer": answer, "command": command}))
        return answer

    # --- the session's own thread: one thing after the other

    def _run(self) -> None:
        event: Event = {}
        while event.get("t") != "end":
            try:
                sandbox, event = self._inbox.get(timeout=_LOOK)
            except queue.Empty:
                event = {}
            handle = getattr(self, f"_on_{event.get('t')}", None)
            if handle is not None and (sandbox is None or self._concerns(sandbox, event)):
                handle(sandbox, event)
            self._look_at_the_clock()

    def _concerns(self, sandbox: Sandbox, event: Event) -> bool:
        """What an old version still says while it leaves is worth showing; the rest of it is over."""
        return sandbox in (self._current, self._coming) or event["t"] in ("output", "reply")

    def _on_end(self, sandbox: None, event: Event) -> None:
        self._end_answers("dropped", "the talk is over")
        for one in (self._spare, self._coming):
            if one is not None:
                one.kill()
                one.join()
        self._leave()
        self._settled.set()

    def _on_reload(self, sandbox: None, event: Event) -> None:
        if self._coming is not None:
            self._coming.kill()  # overtaken by a newer save
        spare = self._spare if self._spare is not None and self._spare.is_alive() else None
        self._coming, self._spare, self._ready = spare or self._sandbox(), None, None
        self._began = time.monotonic()
        self._until = self._began + self._bounds.loading + (0.0 if self._coming.warm else _PYTHON)
        self._trial.write_settings()
        self._coming.open(self._trial.root, list(self._trial.plugins), self._store)

    def _sandbox(self) -> Sandbox:
        return Sandbox(lambda sandbox, event: self._inbox.put((sandbox, event)), self._bounds)

    def _on_restart(self, sandbox: None, event: Event) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.kill()
        self._end_answers("dropped", "its process was ended")
        self._on_reload(None, {})

    def _on_ask(self, sandbox: None, event: Event) -> None:
        answer: Answer = event["answer"]
        if self._current is None:
            answer.end("unanswerable", "no version of the plugin works yet")
            return
        number = next(self._numbers)
        self._asked[number] = answer
        command = dict(event["command"])
        self._current.tell(command.pop("do"), n=number, **command)

    def _end_answers(self, outcome: str, reason: str) -> None:
        for answer in self._asked.values():
            answer.end(outcome, reason)
        self._asked.clear()

    # --- what sandboxes tell

    def _on_warm(self, sandbox: Sandbox, event: Event) -> None:
        self._until = time.monotonic() + self._bounds.loading

    def _on_ready(self, sandbox: Sandbox, event: Event) -> None:
        self._ready, self._until = event, time.monotonic() + _GRACE

    def _take_over(self, ready: Event) -> None:
        first = self._current is None
        self._end_answers("dropped", "a new version took over before it was done")
        self._leave()
        self._current, self._coming, self._ready = self._coming, None, None
        self.handlers = [{**one, "source": self._blame.known(str(one["source"]))} for one in ready["handlers"]]
        for warning in ready["warnings"]:
            self._tell("warning", self._blame.here(warning))
        versions = ", ".join(f"{name} {version}" for name, version in ready["versions"].items())
        seconds = time.monotonic() - self._began
        self._tell("loaded" if first else "reloaded", versions, detail={"seconds": seconds})
        self._loaded()

    def _leave(self) -> None:
        """Let the version that answers unload, aside."""
        if self._current is not None:
            leaving = threading.Thread(target=self._current.close, daemon=True)
            leaving.start()
            self._leaving.append(leaving)

    def _loaded(self) -> None:
        if self._spares:
            self._spare = self._spare or self._sandbox()  # the next save is not to wait for Python to start
        self._settled.set()

    def _on_failed(self, sandbox: Sandbox, event: Event) -> None:
        failure = self._blame.of_load(event["failures"][0])
        self._give_up(failure.text, failure)

    def _give_up(self, text: str, failure: Failure | None = None) -> None:
        """Go on without the version that was being loaded."""
        if self._coming is not None:
            self._coming.kill()
        self._coming = self._ready = None
        self._tell("broken", text, failure, {"old": self._current is not None})
        self._loaded()

    def _on_ended(self, sandbox: Sandbox, event: Event) -> None:
        why = f"the plugin's process ended: {ended_because(int(event['code']))}"
        if sandbox is self._coming:
            self._give_up(f"{why}, while it was loaded")
        else:
            self._current = None
            self._settled.clear()
            self._tell("crashed", why)
            self._end_answers("crashed", why)
            self._on_reload(None, {})

    def _on_output(self, sandbox: Sandbox, event: Event) -> None:
        self._tell("output", self._blame.here(str(event["text"])))

    def _on_reply(self, sandbox: Sandbox, event: Event) -> None:
        for answer in self._asked.values():
            answer.replies += 1
        media = "".join(f" [{kind}]" for kind in event["media"])
        self._tell("reply", self._blame.here(f"{event['text']}{media}".strip()), detail={"to": str(event["to"])})

    def _on_said(self, sandbox: Sandbox, event: Event) -> None:
        if event["n"] in self._asked:
            self._asked[event["n"]].run_id = str(event["run_id"])

    def _on_refused(self, sandbox: Sandbox, event: Event) -> None:
        self._done(event, "refused", str(event["text"]))

    def _on_done(self, sandbox: Sandbox, event: Event) -> None:
        self._done(event, str(event["outcome"]), str(event["reason"]))

    def _done(self, event: Event, outcome: str, reason: str) -> None:
        answer = self._asked.pop(event["n"], None)
        if answer is not None:
            answer.ms = float(event.get("ms", 0.0))
            answer.end(outcome, self._blame.here(reason))

    def _on_step(self, sandbox: Sandbox, event: Event) -> None:
        raised = event["outcome"] in _FAILED and event["trace"]
        for answer in self._asked.values():
            if answer.run_id == event["root_id"]:
                answer.steps.append(event)
                answer.trouble |= bool(raised)
                pause = MAX_PAUSE if event["outcome"] == "retry" else 0.0
                answer.until = time.monotonic() + self._bounds.seconds + pause
        if raised:
            failure = self._blame.of_step(event)
            if failure.text.startswith("MemoryError"):
                failure = replace(failure, text=f"MemoryError: it may use {self._bounds.memory >> 20} MiB (--memory)")
            self._tell("failed", failure.text, failure, event)

    def _on_state(self, sandbox: Sandbox, event: Event) -> None:
        if sandbox is self._current:
            self._store = event["store"]

    # --- time

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if self._ready is not None:
            if not self._asked or now > self._until:
                self._take_over(self._ready)
        elif self._coming is not None and now > self._until:
            self._give_up(f"not loaded within {self._bounds.loading:g} s{self._where(self._coming)}")
        if self._current is not None and any(answer.until < now for answer in self._asked.values()):
            hung = f"not done within {self._bounds.seconds:g} s{self._where(self._current)}"
            self._settled.clear()
            self._tell("hung", f"{hung}; its process was ended")
            self._end_answers("hung", hung)
            self._on_restart(None, {})

    def _where(self, sandbox: Sandbox) -> str:
        places = sandbox.busy_at(list(self._trial.plugins))
        return "".join(f", at {self._blame.here(file)}:{line} in {name}" for file, line, name in places[:1])

    def _tell(self, kind: str, text: str, failure: Failure | None = None, detail: Event | None = None) -> None:
        self._show(Notice(kind, text, failure, detail or {}))
