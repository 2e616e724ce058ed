"""A small OpenAI-compatible server on loopback: chat completions and embeddings, with faults on demand.

    with OpenAIServer() as server:
        server.script(Fault.status(429, retry_after=7), "I am back")      # the next two answers, in order
        models = Models({"main": {"model": "openai-chat:any", "base_url": server.url}}, {})
        ...
        server.requests[0].body["messages"]

Without a script it echoes the last user message, fills a structured output from `server.output`, and gives each text an
embedding. Everything it was asked is in `requests`.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Fault:
    """One wrong answer: `code`, `headers` and `raw` body as given, after `delay` seconds; or a cut connection."""

    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes = b""
    delay: float = 0.0
    cut: bool = False

    @classmethod
    def status(cls, code: int, message: str = "scripted", *, retry_after: float | None = None) -> Fault:
        """An OpenAI-style error with an HTTP status."""
        body = {"error": {"message": message, "type": "scripted", "code": None, "param": None}}
        headers = {"Content-Type": "application/json"}
        if retry_after is not None:
            headers["Retry-After"] = f"{retry_after:g}"
        return cls(code, headers, json.dumps(body).encode())

    @classmethod
    def garbage(cls) -> Fault:
        """200 with a body that isn't JSON."""
        return cls(headers={"Content-Type": "application/json"}, raw=b"<html>hello</html>\xff\xfe")

    @classmethod
    def truncated(cls) -> Fault:
        """200 with half a JSON document."""
        return cls(headers={"Content-Type": "application/json"}, raw=b'{"id": "x", "choices": [{"mess')

    @classmethod
    def empty(cls) -> Fault:
        """200 with JSON that holds no answer."""
        return cls(headers={"Content-Type": "application/json"}, raw=b"{}")

    @classmethod
    def hang(cls, seconds: float = 60.0) -> Fault:
        """No answer for `seconds`, or until the server is closed."""
        return cls(code=503, delay=seconds)

    @classmethod
    def broken(cls) -> Fault:
        """The connection is closed without an answer."""
        return cls(cut=True)


@dataclass(frozen=True)
class Asked:
    """One request the server got; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Answer = str | Fault | Callable[[dict[str, Any]], Any]


class OpenAIServer:
    """The server; a context manager. `url` is what goes into `base_url`."""

    def __init__(
        self, *, delay: float = 0.0, output: dict[str, Any] | None = None, tokens: tuple[int, int] = (11, 7)
    ) -> None:
        self.delay = delay
        self.output = output or {}
        self.tokens = tokens
        self.requests: list[Asked] = []
        self.closing = threading.Event()
        self._script: deque[Answer] = deque()
        self._lock = threading.Lock()
        server = self

        class Handler(_Handler):
            owner = server

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL, `/v1` included."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def script(self, *answers: Answer) -> None:
        """Give these answers to the next requests: a text, a fault, or a function of the request body."""
        self._script.extend(answers)

    def answer(self, asked: Asked) -> Fault | dict[str, Any]:
        """Record a request and return what to send."""
        with self._lock:
            self.requests.append(asked)
            planned = self._script.popleft() if self._script else None
        if self.delay:
            self.closing.wait(self.delay)
        if isinstance(planned, Fault):
            return planned
        if asked.path.endswith("/embeddings"):
            return planned(asked.body) if callable(planned) else self._embeddings(asked.body)
        if not asked.path.endswith("/chat/completions"):
            return Fault.status(404, f"no such path: {asked.path}")
        return self._completion(asked.body, planned(asked.body) if callable(planned) else planned)

    def _completion(self, body: dict[str, Any], planned: Any) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": planned}
        if planned is None:
            message["content"] = _last_user(body)
        if body.get("tools") and planned is None:
            function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps(self.output)}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body.get("model"),
            "choices": [choice],
            "usage": self._usage(),
        }

    def _usage(self) -> dict[str, int]:
        asked, given = self.tokens
        return {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given}

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        packed = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": _pack(vector) if packed else vector}
            for index, vector in enumerate(map(vector_of, texts))
        ]
        usage = {"prompt_tokens": self.tokens[0], "total_tokens": self.tokens[0]}
        return {"object": "list", "model": body.get("model"), "data": data, "usage": usage}


def vector_of(text: str) -> list[float]:
    """The embedding this server gives: eight letter counts, normalised."""
    counts = [1.0 + sum(ord(char) % 8 == slot for char in text) for slot in range(8)]
    length = math.sqrt(sum(count * count for count in counts))
    return [count / length for count in counts]


def _pack(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _last_user(body: dict[str, Any]) -> str:
    said = [message["content"] for message in body.get("messages", []) if message["role"] == "user"]
    return said[-1] if said else ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class _Handler(BaseHTTPRequestHandler):
    owner: OpenAIServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # header and body in one packet, or the client waits for a delayed acknowledgement

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.owner.answer(Asked(self.path, headers, json.loads(raw)))
        try:
            self._send(answer)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, answer: Fault | dict[str, Any]) -> None:
        if isinstance(answer, dict):
            answer = Fault(headers={"Content-Type": "application/json"}, raw=json.dumps(answer).encode())
        if answer.delay:
            self.owner.closing.wait(answer.delay)
        if answer.cut:
            self.close_connection = True
            return
        self.send_response(answer.code)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.raw))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests read `requests`."""
