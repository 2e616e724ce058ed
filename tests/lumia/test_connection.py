"""Clients that are slow, silent, greedy or too many, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import lumia
from lumia import gateway
from lumia.gateway.connection import MAX_HEAD, Connection, SocketConnection
from lumia.gateway.settings import Settings
from tests.support.gateway import Served, served
from tests.support.wait import until

LIMITS = Settings(head_timeout=0.5, body_timeout=0.5, send_timeout=1.0, connections=12, max_body=65_536)
POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"


@lumia.web.route("/echo", methods=["GET", "POST"])
async def echo(request: gateway.Request) -> gateway.Response:
    return gateway.JSONResponse({"size": len(await request.body())})


@lumia.web.route("/unread", methods=["POST"])
async def unread(request: gateway.Request) -> gateway.Response:
    raise gateway.HTTPException(401, "who are you?")


@lumia.web.route("/endless")
async def endless(request: gateway.Request) -> gateway.Response:
    async def parts() -> Any:
        while True:
            yield b"x" * 65_536
            await asyncio.sleep(0)

    return gateway.StreamingResponse(parts())


@lumia.web.websocket("/flood")
async def flood(websocket: gateway.WebSocket) -> None:
    await websocket.accept()
    while True:
        await websocket.send_bytes(b"x" * 65_536)
        await asyncio.sleep(0)


@lumia.web.websocket("/count")
async def count(websocket: gateway.WebSocket) -> None:
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with served(sys.modules[__name__], settings=LIMITS) as running:
        yield running


@pytest.fixture(autouse=True)
def empty(site: Served) -> Iterator[None]:
    """Every test begins, and leaves the gateway, without connections."""
    yield
    until(lambda: not site.server.server_state.connections, what="every connection is over")


def raw(site: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.port), timeout=10)


def all_of(line: socket.socket) -> bytes:
    """Read until the other end closes."""
    found = b""
    with suppress(ConnectionResetError):
        while part := line.recv(65_536):
            found += part
    return found


def status(answer: bytes) -> str:
    return answer.split(b"\r\n", 1)[0].decode()


def test_the_gateway_uses_the_quick_parser_and_its_own_limits(site: Served) -> None:
    config = site.server.config
    assert isinstance(config.http_protocol_class, type) and issubclass(config.http_protocol_class, Connection)
    assert isinstance(config.ws_protocol_class, type) and issubclass(config.ws_protocol_class, SocketConnection)
    factory = config.get_loop_factory()
    assert factory is not None and "uvloop" in str(factory().__class__)


class TestHeads:
    def test_a_client_that_says_nothing_is_closed(self, site: Served) -> None:
        with raw(site) as line:
            assert all_of(line) == b""

    def test_headers_that_dribble_are_given_up_however_regularly_they_come(self, site: Served) -> None:
        with raw(site) as line:
            line.sendall(POST)
            line.settimeout(0.1)
            answer = b""
            for number in range(200):
                try:
                    line.sendall(b"X-%d: y\r\n" % number)
                    answer = line.recv(4096)
                except TimeoutError:
                    continue
                except OSError:
                    break
                break
            assert status(answer) == "HTTP/1.1 408 Request Timeout"
            assert b"too slowly" in answer

    def test_headers_without_an_end_are_refused(self, site: Served) -> None:
        with raw(site) as line:
            with suppress(OSError):
                line.sendall(POST + b"X: " + b"y" * (MAX_HEAD + 1))
            assert status(all_of(line)).startswith("HTTP/1.1 431")

    def test_a_head_of_nearly_that_size_is_served(self, site: Served) -> None:
        headers = {f"x-{n}": "y" * 1000 for n in range(60)}
        assert site.client.post("/echo", content=b"abc", headers={**headers, "connection": "close"}).status_code == 200

    def test_a_second_request_has_the_same_limits(self, site: Served) -> None:
        with raw(site) as line:
            line.sendall(POST + b"Content-Length: 1\r\n\r\nx")
            assert status(line.recv(4096)) == "HTTP/1.1 200 OK"
            line.sendall(b"POST /ec")
            assert status(all_of(line)) == "HTTP/1.1 408 Request Timeout"

    def test_empty_lines_do_not_keep_a_connection(self, site: Served) -> None:
        with raw(site) as line:
            line.settimeout(0.1)
            ended = time.monotonic() + 8
            while time.monotonic() < ended:
                try:
                    line.sendall(b"\r\n")
                    if line.recv(10) == b"":
                        return
                except TimeoutError:
                    continue
                except OSError:
                    return
            raise AssertionError("still open")


class TestBodies:
    def test_a_body_that_dribbles_is_given_up(self, site: Served) -> None:
        with raw(site) as line:
            line.sendall(POST + b"Content-Length: 10\r\n\r\nx")
            assert status(all_of(line)) == "HTTP/1.1 408 Request Timeout"

    def test_a_body_that_nobody_reads_does_not_keep_a_connection(self, site: Served) -> None:
        with raw(site) as line:
            line.sendall(POST.replace(b"echo", b"unread") + b"Content-Length: 60000\r\n\r\nx")
            assert b"401" in line.recv(4096).split(b"\r\n")[0]
            line.settimeout(0.1)
            ended = time.monotonic() + 8
            while time.monotonic() < ended:
                try:
                    line.sendall(b"x")
                    if line.recv(10) == b"":
                        return
                except TimeoutError:
                    continue
                except OSError:
                    return
            raise AssertionError("still open")

    @pytest.mark.parametrize("length", ["99999999999999999999", "9" * 5000, "-1", "1, 1", "x"])
    def test_a_length_that_is_none_is_refused(self, site: Served, length: str) -> None:
        with raw(site) as line:
            line.sendall(POST + f"Content-Length: {length}\r\n\r\n".encode())
            assert status(line.recv(4096)).split()[1] in ("400", "413")


class TestReaders:
    def test_a_client_that_takes_nothing_is_cut_off(self, site: Served) -> None:
        with raw(site) as line:
            line.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: not site.server.server_state.connections, what="the connection is cut")

    def test_a_websocket_that_takes_nothing_is_cut_off(self, site: Served) -> None:
        with connect(f"{site.ws}/flood", max_queue=1, ping_interval=None, close_timeout=0.2):
            until(lambda: site.server.server_state.connections)
            until(lambda: not site.server.server_state.connections, what="the WebSocket is cut")
            until(lambda: not len(site.gateway.sockets), what="its function has returned")

    def test_a_websocket_that_reads_is_served(self, site: Served) -> None:
        with connect(f"{site.ws}/flood", max_size=None, close_timeout=0.2) as websocket:
            ended = time.monotonic() + 1.5 * LIMITS.send_timeout
            while time.monotonic() < ended:
                assert len(websocket.recv(timeout=10)) == 65_536


class TestNumbers:
    def test_too_many_connections_are_told_to_come_back_and_the_others_go_on(self, site: Served) -> None:
        with ExitStack() as stack:
            lines = [stack.enter_context(connect(f"{site.ws}/count")) for _ in range(LIMITS.connections)]
            with raw(site) as line:
                answer = all_of(line)
            assert status(answer) == "HTTP/1.1 503 Service Unavailable"
            assert b"retry-after: 2" in answer
            lines[0].send("still here")
            assert lines[0].recv(timeout=10) == "still here"
        until(lambda: not site.server.server_state.connections)
        assert httpx.get(f"{site.url}/echo", trust_env=False).status_code == 200

    def test_a_quick_peer_is_read_as_slowly_as_it_may_send(self) -> None:
        rate = Settings(socket_rate=50.0)
        with served(sys.modules[__name__], settings=rate) as running, connect(f"{running.ws}/count") as websocket:
            began = time.monotonic()
            for number in range(100):
                websocket.send(str(number))
            assert [websocket.recv(timeout=10) for _ in range(100)] == [str(number) for number in range(100)]
            assert time.monotonic() - began > 0.9  # fifty at once, the others one by one

    def test_a_waiting_peer_is_sent_away_at_once_when_the_gateway_stops(self) -> None:
        rate = Settings(socket_rate=1.0)
        with served(sys.modules[__name__], settings=rate) as running, connect(f"{running.ws}/count") as websocket:
            for number in range(30):
                websocket.send(str(number))
            assert websocket.recv(timeout=10) == "0"
            running.server.should_exit = True
            with pytest.raises(ConnectionClosed):
                _ = [websocket.recv(timeout=10) for _ in range(30)]
            assert websocket.close_code == 1001


QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class TestFuzz:
    @QUICK
    @given(st.binary(min_size=1, max_size=400))
    def test_no_bytes_break_it(self, site: Served, data: bytes) -> None:
        with raw(site) as line:
            with suppress(OSError):
                line.sendall(data)
                line.shutdown(socket.SHUT_WR)
            answer = all_of(line)
        assert not answer or not status(answer).startswith("HTTP/1.1 5")

    @QUICK
    @given(
        st.sampled_from([b"GET", b"POST", b"PUT", b"BREW", b"CONNECT", b"OPTIONS"]),
        st.binary(max_size=40), st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40)), max_size=6),
        st.binary(max_size=60),
    )  # fmt: skip
    def test_no_request_breaks_it(
        self, site: Served, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        lines = [b"%s /%s HTTP/1.1" % (method, target), b"Host: localhost", b"Content-Length: %d" % len(body)]
        lines += [b"%s: %s" % header for header in headers]
        with raw(site) as line:
            with suppress(OSError):
                line.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
                line.shutdown(socket.SHUT_WR)
            answer = all_of(line)
        assert not answer or not status(answer).startswith("HTTP/1.1 5")

    @QUICK
    @given(st.binary(min_size=1, max_size=200))
    def test_no_websocket_frame_breaks_it(self, site: Served, data: bytes) -> None:
        head = (
            b"GET /count HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        with raw(site) as line:
            line.sendall(head)
            assert status(line.recv(4096)) == "HTTP/1.1 101 Switching Protocols"
            with suppress(OSError):
                line.sendall(data)
                line.shutdown(socket.SHUT_WR)
            all_of(line)

    def test_and_it_still_serves(self, site: Served) -> None:
        assert site.client.post("/echo", content=b"abc", headers={"connection": "close"}).json() == {"size": 3}
