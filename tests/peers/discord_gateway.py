"""Discord's Gateway on loopback (events/gateway.mdx): hello, identify, resume with replay, close codes, faults."""

from __future__ import annotations

import json
import socket
import threading
import time
import zlib
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

PRIVILEGED = (1 << 1) | (1 << 8) | (1 << 15)
CONTENT = 1 << 15


@dataclass
class Session:
    """One session and everything it was sent, so that it can be resumed. acked: the last number a heartbeat told."""

    id: str
    intents: int
    shard: tuple[int, int] = (0, 1)
    seq: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)
    link: Link | None = None
    acked: int | None = None


class Link:
    """One connection of a client."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        asked = urlsplit(socket.request.path)  # type: ignore[union-attr]
        self.path = asked.path
        self.query = {key: values[0] for key, values in parse_qs(asked.query).items()}
        self.session: Session | None = None
        self._lock = threading.Lock()
        self._deflate = zlib.compressobj() if self.query.get("compress") == "zlib-stream" else None
        self._sent: deque[float] = deque()

    def send(self, payload: dict[str, Any], *, only: int | None = None) -> None:
        """Send a payload; only: of its frame no more than so many bytes, then the connection is cut."""
        text = json.dumps(payload)
        with self._lock:
            data: str | bytes = text
            if self._deflate is not None:
                data = self._deflate.compress(text.encode()) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            with suppress(ConnectionClosed, OSError):
                if only is not None:
                    self.socket.socket.sendall(_frame(data)[:only])
                    self.cut()
                elif isinstance(data, bytes) and len(data) > 64:  # a message may come in several frames
                    self.socket.send(data[:40])
                    self.socket.send(data[40:])
                else:
                    self.socket.send(data)

    def close(self, code: int, reason: str = "") -> None:
        """Close with a code, as Discord does."""
        with suppress(ConnectionClosed, OSError):
            self.socket.close(code, reason)

    def cut(self) -> None:
        """End the connection without a word."""
        with suppress(OSError):
            self.socket.socket.shutdown(socket.SHUT_RDWR)

    def too_many(self) -> bool:
        """Tell whether the client sent more than 120 payloads in 60 s."""
        now = time.monotonic()
        self._sent.append(now)
        while self._sent[0] < now - 60:
            self._sent.popleft()
        return len(self._sent) > 120


def _frame(data: str | bytes) -> bytes:
    payload = data.encode() if isinstance(data, str) else data
    head = bytes([0x81 if isinstance(data, str) else 0x82])
    size = len(payload)
    if size < 126:
        return head + bytes([size]) + payload
    return head + (b"\x7e" + size.to_bytes(2) if size < 65536 else b"\x7f" + size.to_bytes(8)) + payload


class Gateway:
    """The server. interval: milliseconds between heartbeats. ack: whether they are answered.

    granted: the privileged intents that are switched on. refuse: close codes for the next identifies. forget: answer
    the next resume with op 9 false. identifies, resumes, beats, closes: what clients did; resumed_at: at which paths.
    """

    def __init__(self, token: str, me: dict[str, Any], application: str) -> None:
        self.token, self.me, self.application = token, me, application
        self.interval, self.ack, self.granted = 45_000, True, PRIVILEGED
        self.guilds: list[dict[str, Any]] = []
        self.refuse: deque[int] = deque()
        self.forget = False
        self.sessions: dict[str, Session] = {}
        self.identifies: list[dict[str, Any]] = []
        self.resumes: list[dict[str, Any]] = []
        self.resumed_at: list[str] = []
        self.beats: list[int | None] = []
        self.closes: list[int | None] = []
        self.links: list[Link] = []
        self.connections = 0
        self._lock = threading.RLock()
        self._server = serve(self._serve, "127.0.0.1", 0, compression=None, max_size=4 * 4096, ping_interval=None)
        self._thread = threading.Thread(target=self._server.serve_forever, name="discord-gateway")
        self._thread.start()
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def close(self) -> None:
        """Stop serving."""
        for link in list(self.links):
            link.cut()
        self._server.shutdown()
        self._thread.join()

    # --- what a test does

    def dispatch(self, type: str, data: dict[str, Any], *, only: int | None = None) -> None:
        """Send an event to every session; a session without a connection gets it when it is resumed."""
        with self._lock:
            for session in self.sessions.values():
                self._dispatch(session, type, data, only=only)

    def reconnect(self) -> None:
        """Ask every client to connect again (op 7)."""
        self._all(lambda link: link.send({"op": 7, "d": None, "s": None, "t": None}))

    def invalidate(self, *, resumable: bool) -> None:
        """End every session, or only its connection (op 9)."""
        if not resumable:
            self.sessions.clear()
        self._all(lambda link: link.send({"op": 9, "d": resumable, "s": None, "t": None}))

    def ask_heartbeat(self) -> None:
        """Ask every client for a heartbeat at once (op 1)."""
        self._all(lambda link: link.send({"op": 1, "d": None, "s": None, "t": None}))

    def end(self, code: int) -> None:
        """Close every connection with a code."""
        self._all(lambda link: link.close(code))

    def cut(self) -> None:
        """Cut every connection."""
        self._all(lambda link: link.cut())

    @property
    def ready(self) -> bool:
        """Tell whether a session has a connection."""
        return any(session.link is not None for session in self.sessions.values())

    def _all(self, act: Any) -> None:
        for link in list(self.links):
            act(link)

    # --- what it does

    def _serve(self, socket: ServerConnection) -> None:
        link = Link(socket)
        with self._lock:
            self.links.append(link)
            self.connections += 1
        try:
            if link.query.get("v") != "10" or link.query.get("encoding") != "json":
                link.close(4012)
                return
            link.send({"op": 10, "d": {"heartbeat_interval": self.interval, "_trace": []}, "s": None, "t": None})
            while True:
                self._receive(link, socket.recv())
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd else None
            self._gone(link, code)
        finally:
            with self._lock:
                self.links.remove(link)
                if link.session is not None and link.session.link is link:
                    link.session.link = None

    def _gone(self, link: Link, code: int | None) -> None:
        with self._lock:
            self.closes.append(code)
            if code in (1000, 1001) and link.session is not None:
                self.sessions.pop(link.session.id, None)

    def _receive(self, link: Link, raw: str | bytes) -> None:
        if len(raw) > 4096:
            return link.close(4002, "too large")
        if link.too_many():
            return link.close(4008, "too fast")
        try:
            payload = json.loads(raw)
            op, data = payload["op"], payload.get("d")
        except (ValueError, KeyError, TypeError):
            return link.close(4002, "no payload")
        with self._lock:
            if op == 1:
                return self._beat(link, data)
            if op == 2:
                return self._identify(link, data)
            if op == 6:
                return self._resume(link, data)
            if op not in (3, 4, 8):
                return link.close(4001, "unknown op")
            return link.close(4003) if link.session is None else None

    def _beat(self, link: Link, seq: int | None) -> None:
        self.beats.append(seq)
        if link.session is not None:
            link.session.acked = seq
        if self.ack:
            link.send({"op": 11, "d": None, "s": None, "t": None})

    def _identify(self, link: Link, data: dict[str, Any]) -> None:
        self.identifies.append(data)
        code = self.refuse.popleft() if self.refuse else self._objection(link, data)
        if code:
            return link.close(code)
        shard = data.get("shard") or [0, 1]
        session = Session(f"{len(self.identifies):032x}", data["intents"], (shard[0], shard[1]), link=link)
        self.sessions[session.id] = link.session = session
        guilds = [guild for guild in self.guilds if (int(guild["id"]) >> 22) % shard[1] == shard[0]]
        ready = {
            "v": 10, "user": self.me, "session_id": session.id, "resume_gateway_url": f"{self.url}/resume",
            "guilds": [{"id": guild["id"], "unavailable": True} for guild in guilds], "private_channels": [],
            "relationships": [], "application": {"id": self.application, "flags": 0}, "shard": shard,
        }  # fmt: skip
        self._dispatch(session, "READY", ready)
        for guild in guilds:
            self._dispatch(session, "GUILD_CREATE", guild)
        return None

    def _objection(self, link: Link, data: dict[str, Any]) -> int:
        intents, shard = data.get("intents"), data.get("shard") or [0, 1]
        if link.session is not None:
            return 4005
        if data.get("token") not in (self.token, f"Bot {self.token}"):
            return 4004
        if not isinstance(data.get("properties"), dict) or not isinstance(intents, int) or intents >= 1 << 30:
            return 4013
        if not 0 <= shard[0] < shard[1]:
            return 4010
        return 4014 if intents & PRIVILEGED & ~self.granted else 0

    def _resume(self, link: Link, data: dict[str, Any]) -> None:
        self.resumes.append(data)
        self.resumed_at.append(link.path.rstrip("/"))
        session = self.sessions.get(data.get("session_id", ""))
        if data.get("token") not in (self.token, f"Bot {self.token}"):
            return link.close(4004)
        if session is None or self.forget:
            self.forget = False
            self.sessions.pop(data.get("session_id", ""), None)
            return link.send({"op": 9, "d": False, "s": None, "t": None})
        if data["seq"] > session.seq:
            return link.close(4007)
        if session.link is not None and session.link is not link:
            session.link.close(4000, "resumed elsewhere")
        link.session, session.link = session, link
        for payload in session.log:
            if payload["s"] > data["seq"]:
                link.send(payload)
        self._dispatch(session, "RESUMED", {"_trace": []})
        return None

    def _dispatch(self, session: Session, type: str, data: dict[str, Any], *, only: int | None = None) -> None:
        session.seq += 1
        payload = {"op": 0, "t": type, "s": session.seq, "d": self._seen_by(session, type, data)}
        session.log.append(payload)
        if session.link is not None:
            session.link.send(payload, only=only)

    def _seen_by(self, session: Session, type: str, data: dict[str, Any]) -> dict[str, Any]:
        """Return what a session may see: without MESSAGE_CONTENT most of a message is empty."""
        if type != "MESSAGE_CREATE" or session.intents & CONTENT or not data.get("guild_id"):
            return data
        if data["author"]["id"] == self.me["id"] or any(user["id"] == self.me["id"] for user in data["mentions"]):
            return data
        return {**data, "content": "", "embeds": [], "attachments": [], "components": []}


__all__ = ["CONTENT", "PRIVILEGED", "Gateway", "Link", "Session"]
