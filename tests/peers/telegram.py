"""A Bot API server on loopback: polling, webhooks, chats, files, flood control, and faults on demand.

    with TelegramServer() as telegram:
        config = {"telegram": {"accounts": {"main": {"token": telegram.token, "api_url": telegram.url}}}}
        ...
        telegram.say("hello", chat=GROUP)                            # an update; GROUP is in telegram_chats.py
        telegram.script("sendMessage", Fault.flood(7))               # the next answer to this method
        until(lambda: telegram.sent)                                 # the messages the bot made
        telegram.calls                                               # everything it was asked

It speaks as facts of the Bot API 10.3 say: offsets confirm, a second poller ends the first one's poll with 409, a
webhook gets one update per POST with its secret header and is tried again until it answers 2xx. Webhooks may be plain
http here, as with a local Bot API server.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from tests.peers.telegram_chats import Chats, Refusal
from tests.peers.telegram_forms import read_parameters
from tests.peers.telegram_updates import Updates

TOKEN = "123456789:AAFakeTokenOfTheTestServer_0123456789"


@dataclass(frozen=True)
class Fault:
    """One wrong answer. cut: the connection is closed, "before" the call took effect or "after" it; delay: seconds."""

    code: int = 500
    description: str = "Internal Server Error"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cut: str = ""
    delay: float = 0.0
    raw: bytes | None = None

    @classmethod
    def flood(cls, seconds: int) -> Fault:
        """429: come back after `seconds`."""
        return cls(429, f"Too Many Requests: retry after {seconds}", {"retry_after": seconds})

    @classmethod
    def refuse(cls, code: int, description: str) -> Fault:
        """An answer with an error, such as 403 `Forbidden: bot was blocked by the user`."""
        return cls(code, description)

    @classmethod
    def slow(cls, seconds: float) -> Fault:
        """No fault: the call is carried out and answered, after `seconds`."""
        return cls(delay=seconds)

    @classmethod
    def garbage(cls) -> Fault:
        """A proxy's page instead of an answer."""
        return cls(502, raw=b"<html>Bad Gateway</html>")


@dataclass(frozen=True)
class Call:
    """One call the server got. files: field → (name, bytes)."""

    method: str
    params: dict[str, Any]
    files: dict[str, tuple[str, bytes]]


class TelegramServer:
    """The server; a context manager. `url` is what goes into `api_url`.

    retry: seconds before a webhook is tried again for the first time; doubled up to 16 times that.
    """

    def __init__(self, *, token: str = TOKEN, username: str = "lumia_bot", privacy: bool = True,
                 retry: float = 0.05) -> None:  # fmt: skip
        self.token = token
        self.me = {"id": int(token.partition(":")[0]), "is_bot": True, "first_name": "Lumia", "username": username}
        self.privacy = privacy
        self.calls: list[Call] = []
        self.chats = Chats(self.me)
        self.closing = threading.Event()
        self.updates = Updates(retry, self.closing)
        self.files: dict[str, tuple[str, bytes]] = {}
        self._script: dict[str, deque[Fault]] = defaultdict(deque)
        server = self

        class Handler(_Handler):
            owner = server

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The messages the bot made, as they are now, in order; deleted ones are gone."""
        return self.chats.made()

    @property
    def texts(self) -> list[str]:
        """Their texts and captions."""
        return [str(message.get("text", message.get("caption", ""))) for message in self.sent]

    def of(self, method: str) -> list[Call]:
        """Return the calls of one method."""
        return [call for call in self.calls if call.method == method]

    def script(self, method: str, *faults: Fault) -> None:
        """Answer the next calls of a method so; without faults, forget what was still to come."""
        if not faults:
            self._script[method].clear()
        self._script[method].extend(faults)

    def say(self, text: str = "", *, chat: Mapping[str, Any] | None = None, sender: Mapping[str, Any] | None = None,
            kind: str = "message", **fields: Any) -> dict[str, Any]:  # fmt: skip
        """Let somebody say something; returns the update. Mentions, commands and links get their entities."""
        return self.push({kind: self.chats.said(text, chat, sender, **fields)})

    def push(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """Add an update, with an update_id unless it has one; returns it."""
        return self.updates.add(update)

    def migrate(self, chat_id: int) -> int:
        """Make a group a supergroup: both service messages, and an error for who sends to the old id."""
        new, old_message, new_message = self.chats.migrate(chat_id)
        self.push({"message": old_message})
        self.push({"message": new_message})
        return new

    def file(self, data: bytes, path: str = "documents/file_0.bin") -> str:
        """Keep a file and return its file_id."""
        file_id = f"BQAC{len(self.files):04d}"
        self.files[file_id] = (path, data)
        return file_id

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.updates.stop()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    # --- what it answers

    def answer(self, call: Call) -> dict[str, Any] | Fault:
        """Record a call, let it take effect and return the answer."""
        self.calls.append(call)
        fault = self._script[call.method].popleft() if self._script[call.method] else None
        if fault is not None and fault.cut != "after":
            if fault.delay:
                self.closing.wait(fault.delay)
            if fault.cut or fault.raw is not None or not fault.delay:
                return fault
        try:
            answer = {"ok": True, "result": self._result(call)}
        except Refusal as refusal:
            return Fault(refusal.code, refusal.description, refusal.parameters)
        return fault if fault is not None and fault.cut else answer

    def _result(self, call: Call) -> Any:
        method = call.method.lower()
        if method == "getme":
            return {**self.me, "can_join_groups": True, "can_read_all_group_messages": not self.privacy,
                    "supports_inline_queries": False}  # fmt: skip
        if method == "getfile":
            return self._file(str(call.params.get("file_id")))
        own = getattr(self.updates, method, None) or getattr(self.chats, method, None)
        if own is None or not method.startswith(("get", "set", "send", "delete", "edit", "answer", "close", "log")):
            raise Refusal(404, "Not Found")
        return own(call.params, call.files)

    def _file(self, file_id: str) -> dict[str, Any]:
        if file_id not in self.files:
            raise Refusal(400, "Bad Request: invalid file_id")
        path, data = self.files[file_id]
        if len(data) > 20 * 1024 * 1024:
            raise Refusal(400, "Bad Request: file is too big")
        return {"file_id": file_id, "file_unique_id": file_id[-4:], "file_size": len(data), "file_path": path}

    def content(self, path: str) -> bytes | None:
        """Return the bytes behind a file_path."""
        return next((data for known, data in self.files.values() if known == path), None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class _Handler(BaseHTTPRequestHandler):
    owner: TelegramServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        path = unquote(url.path)
        files_of, calls_of = f"/file/bot{self.owner.token}/", f"/bot{self.owner.token}/"
        try:
            if path.startswith(files_of):
                data = self.owner.content(path.removeprefix(files_of))
                self._send(404 if data is None else 200, data or b"", "application/octet-stream")
            elif not path.startswith(calls_of):
                known_form = path.startswith("/bot") and ":" in path
                self._say(Fault(401, "Unauthorized") if known_form else Fault(404, "Not Found"))
            else:
                params, files = read_parameters(self.headers.get("Content-Type", ""), url.query, raw)
                self._say(self.owner.answer(Call(path.removeprefix(calls_of), params, files)))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _say(self, answer: dict[str, Any] | Fault) -> None:
        if isinstance(answer, dict):
            self._send(200, json.dumps(answer).encode())
        elif answer.cut:
            self.close_connection = True
        elif answer.raw is not None:
            self._send(answer.code, answer.raw, "text/html")
        else:
            body = {"ok": False, "error_code": answer.code, "description": answer.description}
            more = {"parameters": dict(answer.parameters)} if answer.parameters else {}
            self._send(answer.code, json.dumps({**body, **more}).encode())

    def _send(self, code: int, body: bytes, media_type: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests read `calls`."""
