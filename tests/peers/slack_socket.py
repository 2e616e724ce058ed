"""The other end of Socket Mode: sends envelopes, sends unconfirmed ones again, announces that a connection goes."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Mapping
from socket import SHUT_RDWR
from types import TracebackType
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.server import Server, ServerConnection, serve

from tests.peers.slack import APP, SlackPeer


class SocketPeer:
    """Socket Mode for one app. opened: how many connections there were; links: those that are open, oldest first.

    acknowledged: the ids that were confirmed, in order; greet: whether a connection is welcomed with `hello`.
    """

    def __init__(self, slack: SlackPeer) -> None:
        self._slack = slack
        self.acknowledged: list[str] = []
        self.links: list[ServerConnection] = []
        self.opened = 0
        self.most_at_once = 0
        self.greet = True
        self._waiting: dict[str, dict[str, Any]] = {}
        self._number = itertools.count(1)
        self._lock = threading.Lock()
        self._server: Server
        self._thread: threading.Thread

    def __enter__(self) -> SocketPeer:
        self._server = serve(self._serve, "127.0.0.1", 0)
        self._slack.socket_url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._slack.socket_url = ""
        for link in list(self.links):
            link.close()
        self._server.shutdown()
        self._thread.join()

    def send(self, kind: str, payload: Mapping[str, Any]) -> str:
        """Send an envelope through the newest connection, or the next; returns its id."""
        id = f"57d6a792-4d35-4d0b-b6aa-{next(self._number):012x}"
        envelope = {"envelope_id": id, "type": kind, "payload": dict(payload),
                    "accepts_response_payload": kind != "events_api"}  # fmt: skip
        if kind == "events_api":
            envelope |= {"retry_attempt": 0, "retry_reason": ""}
        with self._lock:
            self._waiting[id] = envelope
            if self.links:  # under the lock: after what waited for this connection
                self._push(self.links[-1], envelope)
        return id

    def again(self) -> None:
        """Send everything unconfirmed once more, as after a timeout."""
        with self._lock:
            waiting, link = list(self._waiting.values()), self.links[-1]
        for envelope in waiting:
            envelope["retry_attempt"] = envelope.get("retry_attempt", 0) + 1
            envelope["retry_reason"] = "timeout"
            self._push(link, envelope)

    def announce(self, reason: str = "refresh_requested") -> ServerConnection:
        """Say on the newest connection that it will go; the caller closes it when it likes."""
        link = self.links[-1]
        link.send(json.dumps({"type": "disconnect", "reason": reason, "debug_info": {"host": "wss-111.slack.com"}}))
        return link

    @staticmethod
    def frame(kind: str, payload: Mapping[str, Any]) -> bytes:
        """Return the bytes of an envelope's frame, for sending a part of it."""
        said = {"envelope_id": "cut", "type": kind, "payload": dict(payload), "accepts_response_payload": False}
        return Frame(Opcode.TEXT, json.dumps(said).encode()).serialize(mask=False)

    def send_cut(self, part: bytes) -> None:
        """Send some bytes of a frame through the newest connection, and end it."""
        link = self.links[-1]
        link.socket.sendall(part)
        link.socket.shutdown(SHUT_RDWR)

    def say(self, text: str) -> None:
        """Send any text through the newest connection."""
        self.links[-1].send(text)

    def cut(self) -> None:
        """End every connection without a goodbye."""
        for link in list(self.links):
            link.socket.close()

    def _serve(self, link: ServerConnection) -> None:
        with self._lock:
            self.opened += 1
        if self.greet:
            link.send(json.dumps({"type": "hello", "num_connections": len(self.links) + 1,
                                  "debug_info": {"host": "wss-111.slack.com", "approximate_connection_time": 18060},
                                  "connection_info": {"app_id": APP}}))  # fmt: skip
        with self._lock:
            self.links.append(link)
            self.most_at_once = max(self.most_at_once, len(self.links))
            for envelope in self._waiting.values():
                self._push(link, envelope)
        try:
            for frame in link:
                self._confirmed(json.loads(frame))
        except (ConnectionClosed, OSError):
            pass
        finally:
            with self._lock:
                self.links.remove(link)
            link.close()
            link.socket.close()

    def _confirmed(self, said: dict[str, Any]) -> None:
        with self._lock:
            self.acknowledged.append(said["envelope_id"])
            self._waiting.pop(said["envelope_id"], None)

    @staticmethod
    def _push(link: ServerConnection, envelope: dict[str, Any]) -> None:
        try:
            link.send(json.dumps(envelope))
        except (ConnectionClosed, OSError):
            return
