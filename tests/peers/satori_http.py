"""The sockets of the Satori server on loopback: HTTP and WebSocket on one port, cut where a test says so."""

from __future__ import annotations

import json
import re
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from websockets.exceptions import WebSocketException
from websockets.server import ServerProtocol
from websockets.sync.server import Server as Sockets
from websockets.sync.server import ServerConnection


@dataclass(frozen=True)
class Fault:
    """A wrong answer. cut: `before` the request has its effect, or `after` it."""

    status: int = 0
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    cut: str = ""


@dataclass(frozen=True)
class Asked:
    """One request. headers: names in lower case; files: name, media type and bytes of each upload."""

    path: str
    headers: dict[str, str]
    body: Any
    files: tuple[tuple[str, str, bytes], ...] = ()


class Owner(Protocol):
    """Who answers."""

    def answer(self, asked: Asked) -> tuple[int, Any, dict[str, str], str]:
        """Return (status, body, headers, cut) for a request."""

    def serve(self, line: ServerConnection) -> None:
        """Serve a WebSocket until it ends."""


def _nothing(connection: socket.socket, address: Any) -> None:
    """Serve nobody."""


class Server(ThreadingHTTPServer):
    """Serves on a free loopback port."""

    daemon_threads = True
    request_queue_size = 64
    owner: Owner

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.sockets = Sockets(self.socket, _nothing)  # accepts nobody: connections want one to belong to

    def server_close(self) -> None:
        """Stop listening."""
        super().server_close()
        for pair in (self.sockets.shutdown_watcher, self.sockets.shutdown_notifier):
            pair.close()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Hand a WebSocket's handshake to websockets, all else to http.server."""
        if request.recv(64, socket.MSG_PEEK).startswith((b"GET /v1/events", b"GET /satori/v1/events")):
            with suppress(OSError, WebSocketException, EOFError):
                line = ServerConnection(request, ServerProtocol(), self.sockets, ping_interval=None, close_timeout=1)
                line.handshake()
                self.owner.serve(line)
            return
        super().finish_request(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Hands requests to the owner and writes what it says."""

    server: Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body, files = _read(raw, headers.get("content-type", ""))
        status, told, more, cut = self.server.owner.answer(Asked(self.path, headers, body, files))
        if cut:
            self.close_connection = True
            return
        data = (
            told if isinstance(told, bytes) else told.encode() if isinstance(told, str) else json.dumps(told).encode()
        )
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_POST = _serve  # noqa: N815 - the names http.server looks for

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests read `asked`."""


def _read(raw: bytes, content_type: str) -> tuple[Any, tuple[tuple[str, str, bytes], ...]]:
    if not content_type.startswith("multipart/form-data"):
        return (json.loads(raw) if raw else {}), ()
    boundary = content_type.partition("boundary=")[2].strip('"').encode()
    files = []
    for part in raw.split(b"--" + boundary)[1:-1]:
        head, _, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name, kind = re.search(rb'name="([^"]*)"', head), re.search(rb"(?i)content-type: ([^\r\n]+)", head)
        assert name, head
        files.append((name[1].decode(), kind[1].decode() if kind else "", data.removesuffix(b"\r\n")))
    return {}, tuple(files)


def started(owner: Owner) -> tuple[Server, threading.Thread]:
    """Listen on a free port."""
    server = Server()
    server.owner = owner
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="satori peer")
    thread.start()
    return server, thread
