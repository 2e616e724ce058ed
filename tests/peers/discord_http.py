"""The HTTP side of the Discord on loopback: requests read, answers written, connections cut where a test says so."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol


@dataclass(frozen=True)
class Fault:
    """A wrong answer. cut: `before` the request has its effect, or `after` it; delay: seconds before the answer."""

    status: int = 0
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: str = ""

    @classmethod
    def limited(cls, wait: float, *, everything: bool = False, scope: str = "user") -> Fault:
        """A 429."""
        body = {"message": "You are being rate limited.", "retry_after": wait, "global": everything}
        headers = {"Retry-After": str(int(wait) + 1), "X-RateLimit-Scope": "global" if everything else scope}
        return cls(429, body, {**headers, "X-RateLimit-Global": "true"} if everything else headers)

    @classmethod
    def error(cls, status: int, code: int = 0, message: str = "scripted") -> Fault:
        """An error in Discord's form."""
        return cls(status, {"message": message, "code": code})


@dataclass(frozen=True)
class Asked:
    """One request. headers: names in lower case; files: name and bytes of each upload."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    files: tuple[tuple[str, bytes], ...] = ()


class Owner(Protocol):
    """Who answers. files: bytes served as they are, by path: (media type, data)."""

    files: dict[str, tuple[str, bytes]]
    closing: threading.Event

    def answer(self, asked: Asked) -> tuple[int, Any, dict[str, str], Fault]:
        """Return (status, body, headers) for a request, and the fault that was scripted for it."""


class Server(ThreadingHTTPServer):
    """Serves on a free loopback port."""

    daemon_threads = True
    request_queue_size = 64


class Handler(BaseHTTPRequestHandler):
    """Hands requests to `owner` and writes what it says."""

    owner: Owner
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.path.partition("?")[0] in self.owner.files:
            kind, data = self.owner.files[self.path.partition("?")[0]]
            return self._send(200, data, {"Content-Type": kind})
        body, files = _read(raw, headers.get("content-type", ""))
        asked = Asked(self.command, self.path.removeprefix("/api/v10"), headers, body, files)
        status, told, more, fault = self.owner.answer(asked)
        if fault.delay:
            self.owner.closing.wait(fault.delay)
        if fault.cut:
            self.close_connection = True
            return None
        data = b"" if told is None else told if isinstance(told, bytes) else json.dumps(told).encode()
        named = {"Content-Type": "application/json"} if data else {}
        return self._send(status, data, {**named, "Via": "1.1 google", **more})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - the names http.server looks for

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests read `asked`."""


def _read(raw: bytes, content_type: str) -> tuple[Any, tuple[tuple[str, bytes], ...]]:
    if not content_type.startswith("multipart/form-data"):
        return (json.loads(raw) if raw else {}), ()
    boundary = content_type.partition("boundary=")[2].strip('"').encode()
    body: Any = {}
    files = []
    for part in raw.split(b"--" + boundary)[1:-1]:
        head, _, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        data = data.removesuffix(b"\r\n")
        name = re.search(rb'filename="([^"]*)"', head)
        if name:
            files.append((name[1].decode(), data))
        elif b'name="payload_json"' in head:
            body = json.loads(data)
    return body, tuple(files)
