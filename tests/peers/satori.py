"""A Satori v1 server on loopback, written from the protocol (satori.chat): logins, events, HTTP API, faults on demand.

    with Satori() as peer:                            # one login, bot 9 on "mock"; peer.logins has them all
        peer.say("hello", channel="12")               # a person's message, as an event with the next sn
        peer.messages["12"][-1]["content"]            # what the bot sent there
        peer.read("12")                               # the same as people read it
        peer.cut()                                    # the sockets are gone; events pile up and are sent on resuming
        peer.restart()                                # as if the server was: its events are gone, sn begins anew
        peer.fail("message.create", Fault(429, headers={"Retry-After": "7"}))
        peer.post(url, token, event)                  # a WebHook

`kept` is how many events are kept for those who come back. `identified` has the bodies of all IDENTIFY signals.
"""

from __future__ import annotations

import html
import json
import threading
from collections import defaultdict, deque
from contextlib import suppress
from html.parser import HTMLParser
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection

from tests.peers.satori_http import Asked, Fault, started

__all__ = ["Asked", "Fault", "Satori", "escape", "readable"]

EVENT, PING, PONG, IDENTIFY, READY, META = range(6)
TEXT, DIRECT = 0, 1
START = 1_788_000_000_000
Event = dict[str, Any]


def escape(text: str) -> str:
    """Return a text as it stands between tags."""
    return html.escape(text, quote=False)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.text += "\n" if tag == "br" else ""


def readable(content: str) -> str:
    """Return the text of a content; markup is left out."""
    reader = _Reader()
    reader.feed(content)
    reader.close()
    return reader.text


class Satori:
    """A server. path: where it is deployed. without: methods it doesn't have."""

    def __init__(self, token: str = "t0ken", *, path: str = "", kept: int = 1000) -> None:
        self.token, self.path, self.kept = token, path, kept
        self.logins = [self.login("mock", "9", "Bot")]
        self.proxy_urls: list[str] = []
        self.without: set[str] = set()
        self.events: deque[Event] = deque(maxlen=kept)
        self.messages: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.files: dict[str, tuple[str, bytes]] = {}
        self.asked: list[Asked] = []
        self.identified: list[dict[str, Any]] = []
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        self.pings = 0
        self.mute = False
        self._sn = self._ids = 0
        self._lines: list[ServerConnection] = []
        self._lock = threading.RLock()
        self._server, self._thread = started(self)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}{path}"

    @property
    def settings(self) -> dict[str, Any]:
        """What `[accounts.<name>]` says to connect to the first login."""
        who = self.logins[0]
        return {"url": self.url, "token": self.token, "platform": who["platform"], "self_id": who["user"]["id"]}

    @staticmethod
    def login(platform: str, self_id: str, name: str, *, status: int = 1) -> dict[str, Any]:
        """A login as READY names it."""
        user = {"id": self_id, "name": name, "is_bot": True}
        return {"sn": 1, "adapter": platform, "platform": platform, "user": user, "status": status, "features": []}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.cut()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    # --- what happens

    def say(self, text: str = "", *, channel: str = "12", content: str = "", **more: Any) -> Event:
        """Let somebody write. content: markup, instead of a text; id, private, user, login, and parts of the event."""
        with self._lock:
            self._ids += 1
            id, private, login = more.pop("id", f"m{self._ids}"), more.pop("private", False), more.pop("login", 0)
            who = self.logins[login]
            event: Event = {
                "type": "message-created",
                "timestamp": START + self._ids,
                "login": {key: who[key] for key in ("sn", "platform", "user")},
                "channel": {"id": channel, "type": DIRECT if private else TEXT},
                "user": {"id": more.pop("user", "5"), "name": "ada", "nick": "Ada"},
                "message": {"id": id, "content": content or escape(text)},
                **more,
            }
            if not private:
                event.setdefault("guild", {"id": "g1", "name": "Guild"})
            return self.push(event)

    def push(self, event: Event) -> Event:
        """Give an event the next sn, keep it, and send it to everybody."""
        with self._lock:
            self._sn += 1
            event = {"sn": self._sn, **event}
            if not str(event["type"]).startswith("login-"):
                self.events.append(event)
            for line in list(self._lines):
                self._send(line, EVENT, event)
        return event

    def meta(self, *proxy_urls: str) -> None:
        """Change which addresses only this server can fetch."""
        with self._lock:
            self.proxy_urls = list(proxy_urls)
            for line in list(self._lines):
                self._send(line, META, {"proxy_urls": self.proxy_urls})

    def post(self, url: str, token: str, event: Event, opcode: int = EVENT) -> httpx.Response:
        """Post a signal, as a WebHook."""
        headers = {"Authorization": f"Bearer {token}", "Satori-Opcode": str(opcode)}
        return httpx.post(url, json=event, headers=headers, trust_env=False, timeout=10)

    def cut(self) -> None:
        """End all sockets at once, without a word."""
        with self._lock:
            lines, self._lines = self._lines, []
        for line in lines:
            with suppress(OSError):
                line.socket.shutdown(2)

    def restart(self) -> None:
        """Forget what was kept, and count from the beginning."""
        with self._lock:
            self.events.clear()
            self._sn = 0
        self.cut()

    def fail(self, method: str, *faults: Fault) -> None:
        """Let the next requests of a method go wrong."""
        self.faults[method].extend(faults)

    @property
    def connected(self) -> int:
        """How many sockets have identified."""
        return len(self._lines)

    def read(self, channel: str) -> list[str]:
        """What the bot said in a channel, as people read it."""
        return [readable(one["content"]) for one in self.messages[channel]]

    # --- WebSocket

    def _send(self, line: ServerConnection, op: int, body: Any) -> None:
        with suppress(ConnectionClosed, OSError):
            line.send(json.dumps({"op": op, "body": body}))

    def serve(self, line: ServerConnection) -> None:
        """Serve a socket until it ends."""
        try:
            for frame in line:
                signal = json.loads(frame)
                if signal["op"] == PING:
                    self.pings += 1
                    if not self.mute:
                        self._send(line, PONG, {})
                elif signal["op"] == IDENTIFY and not self._identify(line, signal.get("body") or {}):
                    return
        finally:
            with self._lock:
                self._lines = [one for one in self._lines if one is not line]

    def _identify(self, line: ServerConnection, body: dict[str, Any]) -> bool:
        self.identified.append(body)
        if self.token and body.get("token") != self.token:
            line.close(4004, "invalid token")
            return False
        with self._lock:
            self._send(line, READY, {"logins": self.logins, "proxy_urls": self.proxy_urls})
            for event in self.events if body.get("sn") is not None else ():
                if event["sn"] > body["sn"]:
                    self._send(line, EVENT, event)
            self._lines.append(line)
        return True

    # --- HTTP

    def answer(self, asked: Asked) -> tuple[int, Any, dict[str, str], str]:
        """Answer a request."""
        with self._lock:
            self.asked.append(asked)
            name = asked.path.removeprefix(f"{self.path}/v1/")
            if name.startswith("proxy/"):
                return self._proxied(unquote(name.partition("?")[0].removeprefix("proxy/")))
            if name not in METHODS or name in self.without:
                return 404, "method not found", {}, ""
            if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
                return 401, "invalid token", {}, ""
            if name != "meta" and self._login(asked) is None:
                return 403, "login not found", {}, ""
            fault = self.faults[name].popleft() if self.faults[name] else Fault()
            if fault.status or fault.cut == "before":
                return fault.status, fault.body, fault.headers, fault.cut
            return 200, METHODS[name](self, asked), {"Content-Type": "application/json"}, fault.cut

    def _login(self, asked: Asked) -> dict[str, Any] | None:
        wanted = (asked.headers.get("satori-platform"), asked.headers.get("satori-user-id"))
        return next((one for one in self.logins if (one["platform"], one["user"]["id"]) == wanted), None)

    def _proxied(self, url: str) -> tuple[int, Any, dict[str, str], str]:
        if url in self.files:
            kind, data = self.files[url]
            return 200, data, {"Content-Type": kind}, ""
        return (404 if url.startswith("internal:") else 403), "no such file", {}, ""

    def _meta(self, asked: Asked) -> Any:
        return {"logins": self.logins, "proxy_urls": self.proxy_urls}

    def _login_get(self, asked: Asked) -> Any:
        return self._login(asked)

    def _create(self, asked: Asked) -> Any:
        self._ids += 1
        made = {"id": f"s{self._ids}", "content": asked.body["content"]}
        self.messages[asked.body["channel_id"]].append({**made, "number": self._ids})
        return [made]

    def _update(self, asked: Asked) -> Any:
        for one in self.messages[asked.body["channel_id"]]:
            if one["id"] == asked.body["message_id"]:
                one["content"] = asked.body["content"]
        return {}

    def _delete(self, asked: Asked) -> Any:
        kept = [one for one in self.messages[asked.body["channel_id"]] if one["id"] != asked.body["message_id"]]
        self.messages[asked.body["channel_id"]] = kept
        return {}

    def _direct(self, asked: Asked) -> Any:
        return {"id": f"private:{asked.body['user_id']}", "type": DIRECT}

    def _upload(self, asked: Asked) -> Any:
        who, made = self._login(asked), {}
        assert who is not None
        for name, kind, data in asked.files:
            self._ids += 1
            made[name] = f"internal:{who['platform']}/{who['user']['id']}/_tmp/{self._ids}"
            self.files[made[name]] = (kind, data)
        return made


METHODS = {
    "meta": Satori._meta,
    "login.get": Satori._login_get,
    "message.create": Satori._create,
    "message.update": Satori._update,
    "message.delete": Satori._delete,
    "user.channel.create": Satori._direct,
    "upload.create": Satori._upload,
}
