"""Stands between `pkg` and a hook: `python hook_guard.py DESCRIPTOR SECONDS COMMAND…`; a script of its own.

The hook runs in a process group of its own, which is killed when the time is over, when the hook has ended (nothing it
started stays behind), and when `pkg` dies: the other end of DESCRIPTOR, a socket, is closed then. How it ended is
written there: `exit N`, `signal N`, `timeout` or `error TEXT`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading


def main(descriptor: int, seconds: float, command: list[str]) -> None:
    """Run a hook and tell how it ended."""
    with socket.socket(fileno=descriptor) as control:
        try:
            hook = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
        except OSError as error:
            control.sendall(f"error {error}".encode())
            return
        threading.Thread(target=_watch, args=(control, hook.pid), daemon=True).start()
        try:
            code = hook.wait(seconds)
            result = f"exit {code}" if code >= 0 else f"signal {-code}"
        except subprocess.TimeoutExpired:
            result = "timeout"
        _kill(hook.pid)
        hook.wait()
        with contextlib.suppress(OSError):
            control.sendall(result.encode())


def _watch(control: socket.socket, group: int) -> None:
    with contextlib.suppress(OSError):
        while control.recv(64):
            pass
    _kill(group)
    os._exit(1)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
