"""A TCP proxy on a loopback port that cuts its first connection after so many bytes of the answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Cutting:
    """What the proxy does. after: bytes of answers it lets through before it cuts; None: it never does.

    cuts: how many connections it has cut; each `after` is for one connection.
    """

    port: int
    goal: tuple[str, int]
    after: int | None = None
    cuts: int = 0
    _threads: list[threading.Thread] = field(default_factory=list)

    def serve(self, listening: socket.socket) -> None:
        """Take connections until the listening socket is closed."""
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                self._begin(self._carry, client)

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.goal) as server:
            self._begin(_pump, client, server)
            with suppress(OSError):
                while data := server.recv(65536):
                    if self.after is not None and len(data) >= self.after:
                        data, self.after, self.cuts = data[: self.after], None, self.cuts + 1
                        client.sendall(data)
                        break
                    if self.after is not None:
                        self.after -= len(data)
                    client.sendall(data)
            for end in (client, server):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _begin(self, function: object, *args: object) -> None:
        thread = threading.Thread(target=function, args=args, daemon=True)  # type: ignore[arg-type]
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        """Wait until every connection has ended."""
        for thread in self._threads:
            thread.join(5)


def _pump(source: socket.socket, goal: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            goal.sendall(data)
    with suppress(OSError):
        goal.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting(goal: tuple[str, int]) -> Iterator[Cutting]:
    """Run a proxy to `goal` for a block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = Cutting(listening.getsockname()[1], goal)
        thread = threading.Thread(target=proxy.serve, args=(listening,), daemon=True)
        thread.start()
        yield proxy
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)
