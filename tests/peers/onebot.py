"""A OneBot v11 implementation as NapCat and as Lagrange behave, with faults on demand.

    with OneBot("10001", token="t") as qq:                 # NapCat's manners; lagrange=True for the other's
        qq.connect(site.ws)                                # reverse WebSocket: qq is the client, as in production
        qq.say("hello", group="12")                        # somebody else's message, reported as an event
        qq.wait_sent()["params"]["message"]                # what the bot sent, in the order it came
        qq.cut()                                           # the connection is gone; messages go on piling up

    qq.serve()                                             # forward WebSocket and HTTP API: qq is the server
    qq.report(url, event, secret)                          # an HTTP report

Chats have a history: what is said while nobody is connected is found by `get_group_msg_history`. `fault(action, …)`
scripts the next answers: `fail(retcode, message)`, `DROP` (done, but the connection is cut before the answer), `LOSE`
(cut before anything was done), `SILENT` (done, no answer), `SLOW` (done, answered on the next connection), `ASYNC`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx
import websockets
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode
from websockets.http11 import Request, Response

T = TypeVar("T")
Event = dict[str, Any]
DROP, LOSE, SILENT, SLOW, ASYNC = "drop", "lose", "silent", "slow", "async"
START = 1_788_000_000
THREW, NO_ACTION, BAD_TOKEN = 1200, 1404, 1403


@dataclass(frozen=True)
class Failure:
    """An answer that says no."""

    retcode: int
    message: str = ""


def fail(retcode: int = THREW, message: str = "EventChecker Failed") -> Failure:
    """An answer with `status` failed."""
    return Failure(retcode, message)


@dataclass
class Line:
    """One open socket. role: universal, api or event."""

    socket: Any
    role: str
    reading: asyncio.Task[None] | None = None


@dataclass
class Sent:
    """What the bot asked for: action, params, and the message id it got."""

    action: str
    params: dict[str, Any]
    message_id: int = 0


@dataclass
class PeerLoop:
    """A thread with an event loop; several peers may share one."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self.loop.run_forever, name="onebot peer", daemon=True)
        self.thread.start()

    def run(self, doing: Coroutine[Any, Any, T], timeout: float = 10.0) -> T:
        return self.begin(doing).result(timeout)

    def begin(self, doing: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(doing, self.loop)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()


class OneBot:
    """One QQ account. format: array or string. heartbeat: milliseconds, 0 for none. history: whether it can be had."""

    def __init__(
        self, self_id: str = "10001", *, token: str = "", lagrange: bool = False, format: str = "array",
        heartbeat: int = 0, history: bool = True, shared: PeerLoop | None = None,
    ) -> None:  # fmt: skip
        self.self_id, self.token, self.lagrange, self.format = self_id, token, lagrange, format
        self.heartbeat, self.has_history = heartbeat, history
        self.online = True
        self.beaten = 0
        self.sent: list[Sent] = []
        self.asked: list[dict[str, Any]] = []
        self.faults: dict[str, deque[Any]] = defaultdict(deque)
        self.chats: dict[str, list[Event]] = defaultdict(list)
        self.lines: list[Line] = []
        self.closed: list[tuple[int, str]] = []
        self.extra: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.parts: dict[str, list[Any]] = {}
        self._late: list[str] = []
        self._next = random.randrange(10**9)
        self._loop = shared or PeerLoop()
        self._owned = shared is None
        self._server: Server | None = None
        self._http: ThreadingHTTPServer | None = None
        self._beats: set[asyncio.Task[None]] = set()
        self._lock = threading.Condition()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Leave: sockets, server and thread."""
        self._loop.run(self._leave())
        if self._owned:
            self._loop.close()

    async def _leave(self) -> None:
        for task in list(self._beats):
            task.cancel()
        for line in list(self.lines):
            await line.socket.close()
        if self._http is not None:
            await asyncio.to_thread(self._http.shutdown)
            self._http.server_close()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    # --- connecting

    def connect(self, ws: str, *, role: str = "Universal", path: str = "", headers: Mapping[str, str] | None = None,
                timeout: float = 10.0) -> Line:  # fmt: skip
        """Open a reverse connection to a gateway (`ws://host:port`); raises what `websockets.connect` does."""
        return self._loop.run(self._connect(ws, role, path, headers), timeout)

    async def _connect(self, ws: str, role: str, path: str, headers: Mapping[str, str] | None) -> Line:
        default = {"universal": "/onebot/v11/ws", "api": "/onebot/v11/api", "event": "/onebot/v11/event"}
        named = {"X-Self-ID": self.self_id, "x-client-role": role}
        if self.token or not self.lagrange:  # NapCat sends an empty Bearer
            named["Authorization"] = f"Bearer {self.token}"
        socket = await connect(
            ws + (path or default[role.lower()]), additional_headers={**named, **(headers or {})}, compression=None,
            user_agent_header="OneBot/11", open_timeout=5 if self.lagrange else 2, max_size=50 * 2**20, proxy=None,
        )  # fmt: skip
        line = Line(socket, role.lower())
        await self._opened(line)
        line.reading = asyncio.get_running_loop().create_task(self._read(line))
        return line

    async def _opened(self, line: Line) -> None:
        self.lines.append(line)
        if line.role != "api":
            await line.socket.send(self._dumped(self.meta("lifecycle", sub_type="connect")))
            if self.heartbeat:
                task = asyncio.get_running_loop().create_task(self._beat(line))
                self._beats.add(task)
                task.add_done_callback(self._beats.discard)
        for text in self._late if line.role != "event" else ():
            await line.socket.send(text)
        self._late = self._late if line.role == "event" else []

    async def _beat(self, line: Line) -> None:
        while self.heartbeat and line in self.lines:
            await asyncio.sleep(self.heartbeat / 1000)
            if self.heartbeat:
                with suppress(websockets.ConnectionClosed):
                    await line.socket.send(self._dumped(self.beat()))
                    self.beaten += 1

    async def _read(self, line: Line) -> None:
        try:
            async for data in line.socket:
                await self._request(line, json.loads(data))
        except websockets.ConnectionClosed:
            pass
        finally:
            if line in self.lines:
                self.lines.remove(line)
            with self._lock:
                self.closed.append((line.socket.close_code or 1006, line.socket.close_reason or ""))
                self._lock.notify_all()

    def serve(self, port: int = 0) -> str:
        """Listen as a forward WebSocket server; returns its URL."""
        return self._loop.run(self._serve(port))

    async def _serve(self, port: int) -> str:
        self._server = await serve(
            self._served, "127.0.0.1", port, process_request=self._admitted, compression=None, max_size=50 * 2**20
        )
        return f"ws://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"

    def _authorized(self, request: Request) -> bool:
        query = parse_qs(urlsplit(request.path).query).get("access_token", [""])[0]
        given = query or request.headers.get("Authorization", "").removeprefix("Bearer ")
        return not self.token or hmac.compare_digest(given, self.token)

    def _admitted(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.lagrange and not self._authorized(request):
            return connection.respond(HTTPStatus.FORBIDDEN, "no")
        return None

    async def _served(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        if not self._authorized(connection.request):
            refused = {"status": "failed", "retcode": BAD_TOKEN, "data": None, "message": "token验证失败", "echo": None}
            await connection.send(json.dumps(refused))
            return
        role = "api" if urlsplit(connection.request.path).path == "/api" else "universal"
        line = Line(connection, role)
        await self._opened(line)
        await self._read(line)

    def serve_http(self) -> str:
        """Listen as an HTTP API; returns its URL."""
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                peer._posted(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Keep quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{self._http.server_port}"

    def _posted(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        if self.token and handler.headers.get("Authorization", "") != f"Bearer {self.token}":
            _respond(handler, 403, {"message": "token verify failed!"})
            return
        action = urlsplit(handler.path).path.strip("/")
        fault = self.faults[action].popleft() if self.faults[action] else None
        if isinstance(fault, HTTPStatus):
            _respond(handler, fault, {"message": "scripted"})
            return
        answer = self._answer(action, json.loads(body or b"{}"), fault) if fault != LOSE else {}
        if fault in (DROP, LOSE):
            handler.close_connection = True
        else:
            # NapCat says 200 and 400 here for what is 1200 and 1400 on a socket, and answers unknown actions with 404.
            answer["retcode"] = {1200: 200, 1400: 400}.get(answer["retcode"], answer["retcode"])
            _respond(handler, 404 if answer["retcode"] == NO_ACTION else 200, answer)

    def cut(self) -> None:
        """Tear every connection down without a close frame."""
        self._loop.run(self._cut())

    async def _cut(self) -> None:
        for line in list(self.lines):
            line.socket.transport.abort()
            self.lines.remove(line)

    def cut_within(self, frame: Event, share: float) -> None:
        """Send this share of a frame's bytes, from 0 to 1, and tear every connection down."""
        whole = WireFrame(Opcode.TEXT, self._dumped(frame).encode()).serialize(mask=True)
        self._loop.run(self._cut_within(whole[: round(len(whole) * share)]))

    async def _cut_within(self, data: bytes) -> None:
        for line in self.lines:
            line.socket.transport.write(data)
            await asyncio.sleep(0)
        await self._cut()

    def freeze(self) -> None:
        """Stop reading and answering on every connection, pings too, as behind a dead router."""
        self.heartbeat = 0
        self._loop.run(self._freeze())

    async def _freeze(self) -> None:
        for line in self.lines:
            line.socket.transport.pause_reading()

    # --- events

    def message(self, text: str | list[dict[str, Any]], *, group: str = "", user: str = "20002", **more: Any) -> Event:
        """Return a message event and keep it in its chat's history; text: an array, or plain text."""
        said = [{"type": "text", "data": {"text": text}}] if isinstance(text, str) else text
        id = self._id()
        event: Event = {
            "time": self._now(),
            "self_id": int(self.self_id),
            "post_type": "message",
            "message_type": "group" if group else "private",
            "sub_type": "normal" if group else "friend",
            "message_id": id,
            "user_id": int(user),
            "message": said if self.format == "array" else _cq(said),
            "raw_message": _cq(said),
            "font": 0 if self.lagrange else 14,
            "sender": {"user_id": int(user), "nickname": f"user {user}", "card": "", "role": "member"},
            **({"group_id": int(group)} if group else {}),
        }
        if self.lagrange:
            event["anonymous"] = None
        else:
            event |= {"message_seq": id, "real_id": id, "real_seq": str(self._next), "message_format": self.format}
        event |= more
        self.chats[f"group-{group}" if group else f"private-{user}"].append(event)
        return event

    def say(self, text: str | list[dict[str, Any]], *, group: str = "", user: str = "20002", **more: Any) -> Event:
        """Let somebody say something; whoever is connected hears it at once."""
        event = self.message(text, group=group, user=user, **more)
        self.emit(event)
        return event

    def notice(self, type: str, **fields: Any) -> Event:
        """Report a notice."""
        event = {"time": self._now(), "self_id": int(self.self_id), "post_type": "notice", "notice_type": type}
        event |= fields
        self.emit(event)
        return event

    def meta(self, type: str, **fields: Any) -> Event:
        """Return a meta event."""
        head = {"time": self._now(), "self_id": int(self.self_id), "post_type": "meta_event", "meta_event_type": type}
        return {**head, **fields}

    def beat(self) -> Event:
        """Return a heartbeat."""
        return self.meta("heartbeat", status={"online": self.online, "good": True}, interval=self.heartbeat)

    def emit(self, frame: Event | str) -> None:
        """Send a frame as it is to every socket that carries events."""
        self._loop.run(self._emit(frame if isinstance(frame, str) else self._dumped(frame)))

    async def _emit(self, text: str) -> None:
        for line in list(self.lines):
            if line.role != "api":
                await line.socket.send(text)

    def report(self, url: str, event: Event | bytes, secret: str = "", *, headers: Mapping[str, str] | None = None
               ) -> httpx.Response:  # fmt: skip
        """Post an event (HTTP POST), signed when there is a secret."""
        body = event if isinstance(event, bytes) else self._dumped(event).encode()
        named = {"Content-Type": "application/json", "X-Self-ID": self.self_id}
        if secret:
            named["X-Signature"] = "sha1=" + hmac.new(secret.encode(), body, hashlib.sha1).hexdigest()
        return httpx.post(url, content=body, headers={**named, **(headers or {})}, trust_env=False, timeout=10)

    # --- actions

    def fault(self, action: str, *what: Any) -> None:
        """Script the next answers to an action."""
        self.faults[action].extend(what)

    def wait_sent(self, number: int = 1, timeout: float = 10.0) -> list[Sent]:
        """Return the messages the bot has sent, once there are so many."""
        with self._lock:
            done = self._lock.wait_for(lambda: len(self.sent) >= number, timeout)
        assert done, f"{len(self.sent)} of {number} messages were sent within {timeout} s"
        return list(self.sent)

    def texts(self) -> list[str]:
        """Return the texts of what the bot has sent."""
        return [_plain(sent.params["message"]) for sent in self.sent]

    async def _request(self, line: Line, request: dict[str, Any]) -> None:
        action, params, echo = request["action"], request.get("params") or {}, request.get("echo", "")
        fault = self.faults[action].popleft() if self.faults[action] else None
        if fault == LOSE:
            line.socket.transport.abort()
            return
        answer = self._answer(action, params, fault)
        text = self._dumped({**answer, "echo": echo})
        if fault == DROP:
            line.socket.transport.abort()
        elif fault == SLOW:
            self._late.append(text)
            line.socket.transport.abort()
        elif fault != SILENT:
            for part in self.parts.get(action, ()):
                await line.socket.send(self._dumped({**_ok(part), "stream": "stream-action", "echo": echo}))
            await line.socket.send(text)

    def _answer(self, action: str, params: dict[str, Any], fault: Any) -> dict[str, Any]:
        self.asked.append({"action": action, "params": params})
        if isinstance(fault, Failure):
            return _failed(fault.retcode, fault.message)
        if action in ("send_group_msg", "send_private_msg", "send_msg"):
            data = self._send(action, params)
            return {"status": "async", "retcode": 1, "data": None} if fault == ASYNC else _ok(data)
        if action in self.extra:
            return _ok(self.extra[action](params))
        if action in ("get_group_msg_history", "get_friend_msg_history") and self.has_history:
            return self._history(action, params)
        simple = {
            "get_login_info": {"user_id": int(self.self_id), "nickname": "Lumia"},
            "get_status": {"online": self.online, "good": True},
            "delete_msg": None,
        }
        return _ok(simple[action]) if action in simple else _failed(NO_ACTION, f"不支持的Api {action}")

    def _send(self, action: str, params: dict[str, Any]) -> dict[str, Any]:
        group = str(params.get("group_id", "")) if action != "send_private_msg" else ""
        event = self.message(params["message"], group=group, user=self.self_id)
        if not group:
            self.chats[f"private-{params['user_id']}"].append(self.chats[f"private-{self.self_id}"].pop())
        event["post_type"] = "message_sent"
        with self._lock:
            self.sent.append(Sent(action, params, event["message_id"]))
            self._lock.notify_all()
        return {"message_id": event["message_id"]}

    def _history(self, action: str, params: dict[str, Any]) -> dict[str, Any]:
        chat = f"group-{params['group_id']}" if "group_id" in params else f"private-{params['user_id']}"
        found, count = self.chats[chat], int(params.get("count", 20))
        before = params.get("message_id" if self.lagrange else "message_seq")
        if before not in (None, "", 0, "0"):
            at = next((n for n, event in enumerate(found) if str(event["message_id"]) == str(before)), -1)
            found = found[: at + 1]
        if not found:
            return _failed(THREW, f"消息{before}不存在")
        return _ok({"messages": found[-count:]})

    # --- parts

    def _id(self) -> int:
        """An int32 that says nothing about the order, as the hashes of both implementations."""
        self._next += 1
        number = int.from_bytes(hashlib.md5(f"{self.self_id}/{self._next}".encode()).digest()[:4], "big", signed=True)
        return number or 1

    @staticmethod
    def _now() -> int:
        return int(time.time())

    @staticmethod
    def _dumped(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)


def _respond(handler: BaseHTTPRequestHandler, status: int, value: Any) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def _ok(data: Any) -> dict[str, Any]:
    return {"status": "ok", "retcode": 0, "data": data, "message": "", "wording": "", "stream": "normal-action"}


def _failed(retcode: int, message: str) -> dict[str, Any]:
    return {"status": "failed", "retcode": retcode, "data": None, "message": message, "wording": message}


def _cq(message: list[dict[str, Any]]) -> str:
    def safe(text: Any) -> str:
        return str(text).replace("&", "&amp;").replace("[", "&#91;").replace("]", "&#93;")

    parts = []
    for segment in message:
        data = segment.get("data") or {}
        if segment["type"] == "text":
            parts.append(safe(data["text"]))
        else:
            named = "".join(f",{key}={safe(value).replace(',', '&#44;')}" for key, value in data.items())
            parts.append(f"[CQ:{segment['type']}{named}]")
    return "".join(parts)


def _plain(message: Any) -> str:
    assert isinstance(message, list), "user text is sent as an array, never as a string"
    return "".join(str(part["data"]["text"]) for part in message if part["type"] == "text")
