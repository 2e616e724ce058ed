"""The process a plugin is tried in: a bot in memory, told by JSON lines what to do (started by `sandbox`).

Commands come on standard input, events go to the pipe whose number is the first argument; what the plugin prints goes
where its author sees it. Commands: open, say, start, close. Events: warm, ready, failed, said, refused, step, reply,
done, state.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lumia
from lumia import runs
from lumia.box import Box
from lumia.bus import cron_id, event, pipe
from lumia.errors import LumiaError
from lumia.journal import JournalEntry, described
from lumia.loader import Handler
from lumia.plugin import PluginFailure, failure_of
from lumia.testing import Bot

NAME = "pkg_dev"
"""The plugin of the chat's own handler: it is shown nowhere."""
THREADS = 4
CPU_SECONDS = 3600
MAX_STATE = 1 << 20
"""Bytes of the store that a reload takes over; a larger one stays behind."""
_GLANCE = 0.5
_BATCH = 500


class Events:
    """Writes events, one JSON object a line, from any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, kind: str, **fields: Any) -> None:
        """Write one event."""
        line = json.dumps({"t": kind, **fields}, default=repr).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._fd, line) :]


class _Talk(Bot):
    """The bot that is tried; its store begins with what an earlier one left."""

    def __init__(self, *what: Any, root: Path, store: Mapping[str, Any]) -> None:
        super().__init__(*what, root=root, name=NAME)
        self._kept = store

    def _load(self, folder: Path) -> None:
        self.transport.load_store(self._kept)
        super()._load(folder)


class Child:
    """One bot in this process, from `open` to `close`."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._said: dict[str, int] = {}
        self._lock = threading.Lock()
        self._state = ""
        self._bot: _Talk

    def open(self, root: str, plugins: list[str], store: Mapping[str, Any]) -> bool:
        """Load the plugins and begin to serve; what is wrong with one is told by `failed`."""
        bot = _Talk(*map(Path, plugins), self._heard(), root=Path(root), store=store)
        try:
            bot.__enter__()
        except BaseException as error:
            self._events.send("failed", failures=[_failure(one) for one in _failures(bot, error, Path(plugins[0]))])
            return False
        self._bot = bot
        loaded = bot.runtime.plugins
        assert loaded is not None
        self._events.send(
            "ready",
            handlers=[_handler(one) for one in loaded.handlers() if one.plugin != NAME],
            warnings=[text for text in loaded.warnings if not text.startswith(tuple(plugins))],  # it has no tag yet
            versions={name: plugin.version for name, plugin in loaded.plugins.items() if name != NAME},
        )
        bot.transport.serve(bot.runtime, THREADS)
        threading.Thread(target=self._follow, args=(bot.transport.cursor(),), daemon=True).start()
        return True

    def _heard(self) -> Any:
        @event.consumer_re("msg.send, dest=*")
        def show(src: str, content: Box[Any]) -> None:
            said = content.into()
            media = said.get("media") or () if isinstance(said, dict) else ()
            kinds = [str(item.get("kind", "file")) for item in media if isinstance(item, dict)]
            self._events.send("reply", to=src.partition("dest=")[2], text=lumia.payloads.text_of(said), media=kinds)

        return show

    def say(self, n: int, text: str, sender: str, group: str) -> None:
        """Accept a chat message of the console."""
        self._begin(n, lambda: _accepted(text, sender, group))

    def start(self, n: int, flow: str, id: str, content: Any) -> None:
        """Start any pipeline or event; flow `cron` starts what the schedule of handler `id`, or tick `id`, would."""
        if flow == "cron":
            flow, id = "event", id if id.startswith("cron.") else cron_id(id)
            content = {"schedule": id, "due": lumia.system.now()}
        begin = pipe.start if flow == "pipe" else event.start
        self._begin(n, lambda: begin(id, Box.any(content)))

    def _begin(self, n: int, begin: Callable[[], str]) -> None:
        with self._lock:  # so that the end of a run is not seen before its beginning is noted
            try:
                run_id = begin()
            except Exception as error:
                self._events.send("refused", n=n, text=described(error))
                return
            self._said[run_id] = n
            self._events.send("said", n=n, run_id=run_id)

    def _follow(self, cursor: str) -> None:
        transport = self._bot.transport
        while transport.health().ok:
            ended = self._ended()  # before the journal is read, so that every step is told before its run's end
            entries = transport.tail(cursor, 0.0 if ended else _GLANCE, _BATCH)
            with self._lock:
                pass  # whoever began a run has told its number before its steps are told
            for entry in entries:
                cursor = entry.cursor
                if entry.kind == "step" and not entry.handler.startswith(f"{NAME}."):
                    self._events.send("step", **_step(entry))
            self._keep_state()
            if len(entries) < _BATCH:
                self._finish(ended)

    def _ended(self) -> list[tuple[int, str, runs.RunResult | None]]:
        with self._lock:
            found = [(n, run_id, runs.result(run_id)) for run_id, n in self._said.items()]
        return [(n, run_id, result) for n, run_id, result in found if result is None or result.outcome is not None]

    def _finish(self, ended: Iterable[tuple[int, str, runs.RunResult | None]]) -> None:
        for n, run_id, found in ended:
            with self._lock:
                del self._said[run_id]
            self._events.send("done", n=n, run_id=run_id, **_told(found))

    def _keep_state(self) -> None:
        state = json.dumps(self._bot.transport.dump_store())
        if state != self._state and len(state) <= MAX_STATE:
            self._state = state
            self._events.send("state", store=json.loads(state))

    def close(self) -> None:
        """Unload the plugins."""
        self._bot.__exit__(None, None, None)


def _accepted(text: str, sender: str, group: str) -> str:
    bot_name = str(lumia.config.get("lumia").bot.name)
    named = lumia.payloads.names_bot(text, bot_name)
    msg = lumia.payloads.message(
        platform="console",
        account="console",
        chat={"kind": "group", "id": group} if group else {"kind": "private", "id": sender},
        sender={"id": sender, "name": sender, "role": "owner"},
        text=text,
        message_id=lumia.system.new_id(),
        mentions=[{"id": "console", "name": bot_name}] if named else [],
        mentions_bot=named or not group,
    )
    return lumia.adapters.accept("console", msg, msg)


def _told(found: runs.RunResult | None) -> dict[str, Any]:
    if found is None:
        return {"outcome": "cancelled", "reason": "its record is gone", "ms": 0.0}
    return {"outcome": found.outcome, "reason": found.reason, "ms": found.ms}


def _step(entry: JournalEntry) -> dict[str, Any]:
    named = ("root_id", "id", "handler", "outcome", "reason", "ms", "attempt")
    return {name: getattr(entry, name) for name in named} | {"trace": entry.detail.get("trace", "")}


def _handler(handler: Handler) -> dict[str, Any]:
    mark = handler.mark
    return {"name": handler.name, "kind": mark.kind, "id": mark.id, "priv": mark.priv, "source": handler.source}


def _failures(bot: Bot, error: BaseException, folder: Path) -> Iterator[PluginFailure]:
    """Yield why a bot couldn't be opened."""
    runtime = getattr(bot, "runtime", None)
    known = [] if runtime is None or runtime.plugins is None else runtime.plugins.failures
    if known:
        yield from known
    else:
        yield failure_of(folder.name, "config" if isinstance(error, LumiaError) else "open", folder, error)


def _failure(failure: PluginFailure) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in ("name", "stage", "file", "line", "message", "traceback")}


def _restrict(memory: int) -> None:
    """Bound what this process may use. memory: bytes of data, which macOS doesn't enforce."""
    for kind, limit in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_CORE, 0)):
        _soft, hard = resource.getrlimit(kind)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, hard))


def main() -> None:
    """Serve one bot. Arguments: number of the events' pipe, file for stacks at SIGUSR1, bytes of memory."""
    pipe_fd, stacks, memory = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    commands = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a plugin that reads its standard input finds nothing there
    os.set_inheritable(pipe_fd, False)
    faulthandler.register(signal.SIGUSR1, file=open(stacks, "w", encoding="utf-8"), all_threads=True)  # noqa: SIM115
    _restrict(memory)
    events = Events(pipe_fd)
    with Bot():
        pass  # imports what every bot needs, so that opening one is a matter of the plugin
    events.send("warm")
    _serve(Child(events), commands)


def _serve(child: Child, commands: Any) -> None:
    opened = False
    try:
        for line in commands:
            told = json.loads(line)
            name = told.pop("do")
            if name == "close":
                break
            done = getattr(child, name)(**told)
            if name == "open":
                opened = bool(done)
                if not opened:
                    break
        if opened:
            child.close()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # threads of the plugin that never end hold up nothing


if __name__ == "__main__":
    main()
