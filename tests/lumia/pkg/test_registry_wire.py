"""What a registry can do to a connection, over real sockets: it costs no more than the time and size allowed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lumia.errors import RegistryError
from lumia.pkg.registry import Registry
from lumia.pkg.registry_wire import Wire
from tests.support.registry import Answer, fake_registry

Talk = Callable[[socket.socket, threading.Event], None]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def speaking(talk: Talk) -> Iterator[str]:
    """Serve one connection after the other with `talk`, and yield the address."""
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(65536)
                    talk(connection, over)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def dripping(beginning: bytes, drop: bytes) -> Talk:
    """Say `beginning`, then `drop` every few milliseconds, for some seconds."""

    def talk(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(beginning)
        for _ in range(400):
            if over.wait(0.01):
                return
            connection.sendall(drop)

    return talk


@pytest.mark.parametrize(
    "beginning, drop",
    [
        pytest.param(b"HTTP/1.1 200", b" ", id="status line"),
        pytest.param(HEAD, b"X: y\r\n", id="headers"),
        pytest.param(HEAD + b"Content-Length: 100000\r\n\r\n", b" ", id="body"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n[\r\n", id="chunks"),
        pytest.param(HEAD + b"Connection: close\r\n\r\n", b" ", id="body without a length"),
    ],
)
def test_a_drip_ends_with_the_time_of_the_request(beginning: bytes, drop: bytes) -> None:
    with speaking(dripping(beginning, drop)) as url:
        began = time.monotonic()
        with pytest.raises(RegistryError, match=r"took longer than 0\.2 s to answer; try again later"):
            Wire(url, seconds=0.2).get("/pkg/dice")
        assert time.monotonic() - began < 2


def test_an_answer_without_end_is_cut_off_at_its_limit() -> None:
    sent = 0

    def talk(connection: socket.socket, over: threading.Event) -> None:
        nonlocal sent
        connection.sendall(HEAD + b"Content-Length: 10000000000\r\n\r\n")
        while not over.is_set():
            sent += connection.send(b" " * 65536)

    with speaking(talk) as url, pytest.raises(RegistryError, match="more than 1000000 bytes"):
        Wire(url, max_bytes=1_000_000).get("/pkg/dice")
    assert sent < 50_000_000


def test_a_registry_that_sends_its_asker_in_circles_is_asked_once(tmp_path: Path) -> None:
    with fake_registry() as server:
        server.answers["/pkg/dice"] = Answer(b"", 302, {"Location": f"{server.url}/pkg/dice"})
        with pytest.raises(RegistryError, match="says it is elsewhere"):
            Registry(server.url, tmp_path).info("dice")
        assert len(server.asked) == 1


def test_one_that_is_away_is_told_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(RegistryError, match=f"^the registry http://127.0.0.1:{port} can't be reached: Connection refu"):
        Wire(f"http://127.0.0.1:{port}").get("/pkg/dice")


def test_one_that_hangs_up_can_not_be_reached() -> None:
    with speaking(lambda connection, over: None) as url, pytest.raises(RegistryError, match="can't be reached"):
        Wire(url).get("/pkg/dice")
