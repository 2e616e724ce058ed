"""The HTTP side of the Slack in tests/peers/slack.py."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from tests.peers.slack import SlackPeer


@dataclass
class Fault:
    """What one call meets. cut: "before" or "after" the method had its effect the connection ends without an answer."""

    status: int = 200
    body: dict[str, Any] | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: str = ""
    delay: float = 0.0

    @classmethod
    def error(cls, code: str, **more: Any) -> Fault:
        """`{"ok": false}` with this error, the usual way Slack refuses."""
        return cls(body={"ok": False, "error": code, **more})

    @classmethod
    def limited(cls, seconds: int) -> Fault:
        """429 with Retry-After."""
        return cls(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": str(seconds)})


@dataclass(frozen=True)
class Call:
    """One request that came in. token: what the Authorization header said."""

    method: str
    arguments: dict[str, Any]
    token: str
    content_type: str = ""


class Server(ThreadingHTTPServer):
    """Serves one `SlackPeer`."""

    daemon_threads = True
    request_queue_size = 256
    owner: SlackPeer


class Handler(BaseHTTPRequestHandler):
    """Speaks HTTP for the peer: methods as JSON, form or query, uploads, files, and answers to commands."""

    server: Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.startswith("/api/"):
            self._method(path.removeprefix("/api/"), dict(parse_qsl(urlsplit(self.path).query)))
            return
        data, media_type = self.server.owner.files.get(path, (b"", ""))
        if self._token() != self.server.owner.bot_token or not media_type:
            # Slack shows its login page, as 200, to whoever brings no token.
            data, media_type = b"<!DOCTYPE html><title>Sign in</title>", "text/html; charset=utf-8"
        self._send(200, {"Content-Type": media_type}, data)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if path.startswith("/upload/"):
            self._uploaded(path.rpartition("/")[2], data)
        elif path.startswith(("/commands/", "/actions/")):
            self._answered(path, data)
        else:
            query = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
            self._method(path.removeprefix("/api/"), {**query, **self._arguments(data)})

    def _arguments(self, data: bytes) -> dict[str, Any]:
        if data and "json" in self.headers.get("Content-Type", ""):
            found: dict[str, Any] = json.loads(data)
            return found
        return dict(parse_qsl(data.decode(), keep_blank_values=True))

    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _method(self, method: str, arguments: dict[str, Any]) -> None:
        token, kind = self._token() or arguments.get("token", ""), self.headers.get("Content-Type", "")
        self._finish(self.server.owner.take(method, arguments, token, kind))

    def _uploaded(self, file_id: str, data: bytes) -> None:
        owner = self.server.owner
        found = owner.take_raw("upload")
        if found is None:
            owner.uploads[file_id] = data
            self._send(200, {"Content-Type": "text/plain"}, b"OK - %d" % len(data))
        else:
            self._finish(found)

    def _answered(self, path: str, data: bytes) -> None:
        found = self.server.owner.take_raw("response_url")
        if found is None:
            self.server.owner.answers.append((path, json.loads(data)))
            self._send(200, {"Content-Type": "text/plain"}, b"ok")
        else:
            self._finish(found)

    def _finish(self, answer: tuple[int, dict[str, str], bytes] | None) -> None:
        if answer is None:
            self.close_connection = True
            return
        self._send(*answer)

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests read `calls`."""
