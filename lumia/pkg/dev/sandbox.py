"""One process in which a plugin is tried, seen from outside: whatever the plugin does, only that process suffers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MAX_LINE = 8 << 20
"""Characters of one event; a longer one is not read to its end, which ends the process."""
_OURS = re.compile(r"LUMIA_(?!_)\w*")
_FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)')
_STACK_SECONDS = 1.0

Listener = Callable[["Sandbox", dict[str, Any]], None]


@dataclass(frozen=True)
class Bounds:
    """What a tried plugin may take.

    seconds: for one message; loading: seconds for loading it, once Python has started; memory: bytes (Linux only).
    """

    seconds: float = 30.0
    loading: float = 30.0
    memory: int = 1 << 30


class Sandbox:
    """A process of its own group, with an environment that leads to no real bot.

    listener: gets each event of the process (see `child`), and from here `output` (a line that it printed) and `ended`
    (with its exit code, negative for a signal), in threads of this object. warm: Python has started in it.
    """

    def __init__(self, listener: Listener, bounds: Bounds) -> None:
        self._listener = listener
        self.warm = False
        self._stacks = tempfile.NamedTemporaryFile("r", prefix="lumia-stacks-", encoding="utf-8")  # noqa: SIM115
        reading, writing = os.pipe()
        command = [sys.executable, "-P", "-m", "lumia.pkg.dev.child", str(writing), self._stacks.name]
        self._process = subprocess.Popen(
            [*command, str(bounds.memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            start_new_session=True,
            env=environment(),
        )
        os.close(writing)
        assert self._process.stdin is not None
        self._stdin, self._writing = self._process.stdin, threading.Lock()
        self._printing = self._thread(self._print)
        self._reading = self._thread(self._read, os.fdopen(reading, "r", encoding="utf-8", errors="replace"))

    def _thread(self, target: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        return thread

    def tell(self, command: str, **arguments: Any) -> None:
        """Give the process a command; one that has ended takes none."""
        with self._writing, contextlib.suppress(OSError, ValueError):
            self._stdin.write(json.dumps({"do": command, **arguments}).encode() + b"\n")
            self._stdin.flush()

    def open(self, root: Path, plugins: Sequence[Path], store: Mapping[str, Any]) -> None:
        """Let the process load plugins: the event `ready` or `failed` follows."""
        self.tell("open", root=str(root), plugins=[str(folder) for folder in plugins], store=dict(store))

    def busy_at(self, inside: Sequence[Path]) -> list[tuple[str, int, str]]:
        """Return file, line and function of what runs in folders `inside` at this moment, one place for each thread."""
        before = self._stacks.tell()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        waited, until, text = threading.Event(), time.monotonic() + _STACK_SECONDS, ""
        while time.monotonic() < until:
            waited.wait(0.02)
            self._stacks.seek(before)
            text, earlier = self._stacks.read(), text
            if text and text == earlier:
                break
        return _places(text, inside)

    def is_alive(self) -> bool:
        """Tell whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process and everything it started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def join(self, seconds: float = 5.0) -> None:
        """Wait until its last event was told."""
        self._reading.join(seconds)

    def close(self, seconds: float = 3.0) -> None:
        """Let the plugins unload and end the process; after `seconds` it is killed."""
        self.tell("close")
        with self._writing, contextlib.suppress(OSError):
            self._stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()
        self.join(seconds)

    def _read(self, events: IO[str]) -> None:
        with events:
            while line := events.readline(MAX_LINE):
                try:
                    event = json.loads(line)
                except ValueError:  # the plugin wrote into a pipe that isn't its own
                    break
                if isinstance(event, dict):
                    self.warm |= event.get("t") == "warm"
                    self._listener(self, event)
        code = self._ended()
        self._listener(self, {"t": "ended", "code": code})

    def _ended(self) -> int:
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:  # it closed its pipe and lives on: of no use to anybody
            self.kill()
        code = self._process.wait()
        self.kill()  # what it started and left behind
        self._printing.join(1.0)
        self._stacks.close()
        with self._writing, contextlib.suppress(OSError):
            self._stdin.close()
        return code

    def _print(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            while line := stdout.readline(4096):
                self._listener(self, {"t": "output", "text": line.decode("utf-8", "replace").rstrip("\n")})


def environment() -> dict[str, str]:
    """Return this process's environment without what leads to a real bot or registry; settings (LUMIA__…) stay."""
    kept = {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}


def _places(text: str, inside: Sequence[Path]) -> list[tuple[str, int, str]]:
    """Return the innermost frame inside the folders of each thread of a faulthandler's dump."""
    found = []
    for thread in text.split("\n\n"):
        frames = [match for match in map(_FRAME.match, thread.splitlines()) if match]
        own = next((one for one in frames if any(Path(one["file"]).is_relative_to(place) for place in inside)), None)
        if own is not None:
            found.append((own["file"], int(own["line"]), own["function"]))
    return found


def ended_because(code: int) -> str:
    """Say how a process ended: by a signal (`segmentation fault`) or an exit code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.strsignal(-code) or f"signal {-code}"
    except ValueError:
        return f"signal {-code}"
