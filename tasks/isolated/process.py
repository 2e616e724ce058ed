"""One process of an isolated plugin, seen from its worker: started, given steps, measured, ended with all it made."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from lumia.isolation import limits_of
from lumia.isolation_describing import own_environ
from lumia.isolation_env import Environment
from lumia.plugin import Plugin
from tasks.isolated.child import SOCKET
from tasks.supervise.account import shimmed

MIB = 1024 * 1024
CLOSE_SECONDS = 3.0
"""How long a process may take to unload its plugin."""
LINE_BYTES = 64 * 1024
"""How long what a process tells may be: one line about one step."""
_OF = "LUMIA_ISOLATED_OF"
"""Names, in the environment of all that a plugin's processes start, the worker they belong to."""
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of whatever a process of the plugin leaves behind, where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process:
    """A process that executes one step at a time. ended_for: why its worker has ended it, "" when it didn't.

    Make it in a thread that stays: the system ends the process when that thread is gone.
    """

    def __init__(self, root: Path, plugin: Plugin, env: Environment) -> None:
        mine, theirs = socket.socketpair()
        limits = limits_of(plugin.manifest)
        command = (str(env.python), "-P", "-m", "tasks.isolated.child", plugin.name, plugin.generation,
                   str(limits.memory_mb))  # fmt: skip
        try:
            self._popen = subprocess.Popen(
                shimmed(command, "--parent", str(os.getpid()), "--die", str(int(signal.SIGKILL)), "--cwd", str(root)),
                env={**own_environ(root, plugin.name), SOCKET: str(theirs.fileno()), _OF: str(os.getpid())},
                stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), start_new_session=True,
            )  # fmt: skip
        except OSError:
            mine.close()
            raise
        finally:
            theirs.close()
        self._socket = mine
        self._left = b""
        self.started = time.monotonic()
        self.ended_for = ""
        self.fresh = True

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Tell whether it runs."""
        return self._popen.poll() is None

    def send(self, text: str) -> bool:
        """Give it a step; False when it is gone."""
        self.fresh = False
        try:
            self._socket.sendall(text.encode() + b"\n")
        except OSError:
            return False
        return True

    def told(self, seconds: float) -> dict[str, Any] | None:
        """Return the next thing it tells; None when it tells nothing within `seconds`, or is gone.

        A process that tells what can't be read, or without end, is ended: anything in it can write to its socket.
        """
        until = time.monotonic() + seconds
        while b"\n" not in self._left:
            try:
                ready, _, _ = select.select([self._socket], [], [], max(0.0, until - time.monotonic()))
                got = self._socket.recv(65536) if ready else b""
            except (OSError, ValueError):  # the second: it was ended meanwhile
                got = b""
            if not got:
                return None
            self._left += got
            if b"\n" not in self._left[:LINE_BYTES] and len(self._left) > LINE_BYTES:
                self._garbled(f"a line of more than {LINE_BYTES // 1024} KiB")
                return None
        line, _, self._left = self._left.partition(b"\n")
        with suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict):
                return told
        self._garbled("a line that can't be read")
        return None

    def _garbled(self, what: str) -> None:
        self._left = b""
        self.kill(f"{what} was written to the socket on which its process tells what became of a step")

    def used(self) -> tuple[int, int]:
        """Return the bytes of memory and the number of processes that it and all it started have."""
        own = psutil.Process(self.pid)
        all_ = [own, *own.children(recursive=True)]
        sizes = [_of(one) for one in all_]
        return sum(sizes), sum(size > 0 for size in sizes)

    def memory(self) -> int:
        """Return the bytes of memory that it has by itself: quicker than `used`."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def kill(self, why: str = "") -> None:
        """End it, and everything it started that can still be found."""
        self.ended_for = self.ended_for or why
        below: list[psutil.Process] = []
        with suppress(psutil.Error):
            below = psutil.Process(self.pid).children(recursive=True)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for one in below:
            with suppress(psutil.Error):
                one.kill()

    def close(self) -> None:
        """Let it unload its plugin; end it when it takes too long."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(CLOSE_SECONDS)
        self.bury()

    def bury(self) -> int:
        """End what is left of it and return its exit code."""
        self.kill()
        code = self._popen.wait()
        self._socket.close()
        return code


def _of(process: psutil.Process) -> int:
    """Return the memory of a process, what it shares with others by its share; 0 for one that is gone or a zombie."""
    try:
        shared: Any = process.memory_full_info() if sys.platform == "linux" else process.memory_info()
        return int(getattr(shared, "pss", shared.rss))
    except psutil.Error:
        return 0


def ending(code: int) -> str:
    """Say how a process ended by itself, as the rest of a sentence."""
    if code >= 0:
        return f"ended its process with exit code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        why = "; perhaps the machine was short of memory" if name == "SIGKILL" else ""
        return f"killed its process ({name}{why})"
    return f"killed its process (signal {-code})"


def strays(known: set[int]) -> list[psutil.Process]:
    """Return what a plugin's process left behind and this one has adopted; they are told by what they inherited."""
    return [one for one in psutil.Process().children() if one.pid not in known and _is_of_plugin(one)]


def _is_of_plugin(process: psutil.Process) -> bool:
    try:
        return process.environ().get(_OF) == str(os.getpid())
    except psutil.Error:
        return False
