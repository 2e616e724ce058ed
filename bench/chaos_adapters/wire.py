"""A TCP proxy on a loopback port that cuts its connections after so many bytes of one direction."""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

Direction = Literal["up", "down"]
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends a reset, as a machine does that lost its connection."""


class Wire:
    """A proxy to `goal`, a loopback port that may change; "up" is what clients send, "down" what they are answered.

    carried: bytes let through so far, by direction. cuts: how many times it has cut.
    """

    def __init__(self, goal: int = 0) -> None:
        self.goal = goal
        self.carried: Counter[str] = Counter()
        self.cuts = 0
        self._left: dict[str, int] = {}
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def cut_after(self, direction: Direction, count: int) -> None:
        """Let `count` more bytes of a direction through, then reset every connection."""
        with self._lock:
            self._left[direction] = count

    def calm(self) -> None:
        """Cut no more."""
        with self._lock:
            self._left.clear()

    def reset(self) -> None:
        """Cut every connection now."""
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            _abort(end)

    def close(self) -> None:
        """Take no more connections and cut those there are."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.reset()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.goal), timeout=5)
        except OSError:
            _abort(client)
            return
        server.settimeout(None)
        with self._lock:
            self._open |= {client, server}
        threading.Thread(target=self._pump, args=(server, client, "down"), daemon=True).start()
        self._pump(client, server, "up")

    def _pump(self, source: socket.socket, goal: socket.socket, direction: Direction) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                through, over = self._allowed(direction, len(data))
                if through:
                    goal.sendall(data[:through])
                if over:
                    self.reset()
                    return
            goal.shutdown(socket.SHUT_WR)
            return
        for end in (source, goal):
            self._forget(end)

    def _allowed(self, direction: Direction, count: int) -> tuple[int, bool]:
        """Return how many of so many bytes go through, and whether that was the end."""
        with self._lock:
            left = self._left.get(direction)
            through = count if left is None else min(count, left)
            self.carried[direction] += through
            if left is None or count < left:
                if left is not None:
                    self._left[direction] = left - count
                return through, False
            del self._left[direction]
            self.cuts += 1
            return through, True

    def _forget(self, end: socket.socket) -> None:
        with self._lock:
            self._open.discard(end)
        with suppress(OSError):
            end.close()


def _abort(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        end.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        end.close()


@contextmanager
def wire(goal: int = 0) -> Iterator[Wire]:
    """Run a proxy for a block."""
    running = Wire(goal)
    try:
        yield running
    finally:
        running.close()
