"""The ways in under test: each a stand-in of its platform, which repeats what the platform repeats."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, ClassVar, Self

import httpx
import websockets

from bench.chaos_adapters.wire import Direction, Wire
from tests.peers.discord import Discord
from tests.peers.onebot import OneBot
from tests.peers.satori import Satori
from tests.peers.slack import BOT as SLACK_BOT
from tests.peers.slack import SlackPeer
from tests.peers.slack_events import EventsSender
from tests.peers.slack_socket import SocketPeer
from tests.peers.telegram import TelegramServer
from tests.support.wait import until

TOKEN = "token-of-the-chaos"
SLACK_EPOCH = 1_718_000_000
RETRY_SECONDS, CONNECT_SECONDS = 0.05, 60.0


class Platform(ABC):
    """One way in. wire: between platform and gateway; direction: which way its messages travel on it.

    ordered: whether the platform hands over one message after the other, so that their order is a promise. api: where
    it is called, for the ways whose sends have a connection of their own. unhurried: it waits up to a minute between
    connections, as the platform asks, so that cutting at every byte would take many hours.
    """

    name: ClassVar[str]
    adapter: ClassVar[str]
    direction: ClassVar[Direction] = "up"
    ordered: ClassVar[bool] = True
    unhurried: ClassVar[bool] = False

    def __init__(self) -> None:
        self.wire = Wire()
        self.api: Wire | None = None
        self.stack = ExitStack()
        self.stack.callback(self.wire.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def through(self, url: str) -> str:
        """Return an HTTP URL that leads to a server of this platform through a wire of its own."""
        parts = httpx.URL(url)
        self.api = Wire(parts.port or 80)
        self.stack.callback(self.api.close)
        return str(parts.copy_with(port=self.api.port))

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the account's table."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Let somebody say something; the platform sees to it that it arrives."""

    @abstractmethod
    def again(self, texts: list[str]) -> None:
        """Hand over messages a second time, as after an answer that was lost."""

    @abstractmethod
    def answers(self) -> list[str]:
        """Return the texts that the bot has sent and the platform has taken."""

    def begin(self, gateway: int) -> None:
        """Start; gateway: the port it listens on, whichever process that is."""
        if self.direction == "up":
            self.wire.goal = gateway


class Posting(Platform):
    """A way in by HTTP posts, each tried again until it is answered with 2xx."""

    def __init__(self) -> None:
        super().__init__()
        self._posts = ThreadPoolExecutor(1, self.name)
        self._said: dict[str, tuple[str, bytes, dict[str, str]]] = {}
        self._over = threading.Event()
        self.stack.callback(self._posts.shutdown, cancel_futures=True)
        self.stack.callback(self._over.set)

    def post(self, text: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Post until it is taken, after the posts before it."""
        self._said[text] = (path, body, headers)
        self._posts.submit(self._until_taken, path, body, headers)

    def again(self, texts: list[str]) -> None:
        """Post them once more."""
        for text in texts:
            self._posts.submit(self._until_taken, *self._said[text])

    def _until_taken(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        url = f"http://127.0.0.1:{self.wire.port}{path}"
        while not self._over.is_set():
            with suppress(httpx.HTTPError):
                answer = httpx.post(url, content=body, headers=headers, timeout=10, trust_env=False)
                if answer.is_success:
                    return
                if answer.status_code < 429:
                    raise RuntimeError(f"{self.name}: {answer.status_code} {answer.text}")
            self._over.wait(RETRY_SECONDS)


class Webhook(Posting):
    """The generic webhook, signed; its answers are not sent anywhere."""

    name = adapter = "webhook"

    def settings(self) -> dict[str, Any]:
        return {"secret": TOKEN}

    def say(self, text: str) -> None:
        body = json.dumps({"text": text, "sender_id": "ann", "group_id": "g", "message_id": text}).encode()
        seal = hmac.digest(TOKEN.encode(), body, hashlib.sha256).hex()
        headers = {"Content-Type": "application/json", "X-Lumia-Signature": f"sha256={seal}"}
        self.post(text, "/webhook/main", body, headers)

    def answers(self) -> list[str]:
        return []


class SlackEvents(Posting):
    """Slack's Events API."""

    name, adapter = "slack events", "slack"

    def __init__(self) -> None:
        super().__init__()
        self.peer = self.stack.enter_context(SlackPeer())
        self._sender = EventsSender("http://127.0.0.1/")
        self._number = 0

    def settings(self) -> dict[str, Any]:
        return {"bot_token": self.peer.bot_token, "signing_secret": self.peer.signing_secret, "mode": "events",
                "api_url": self.through(self.peer.api_url)}  # fmt: skip

    def say(self, text: str) -> None:
        self._number += 1
        body = json.dumps(self._sender.envelope(slack_message(text, self._number))).encode()
        self.post(text, "/slack/main/events", body, {**self._sender.signed(body), "Content-Type": "application/json"})

    def answers(self) -> list[str]:
        return [one["text"] for one in self.peer.posted]


def slack_message(text: str, number: int) -> dict[str, Any]:
    """Return a message event that mentions the bot."""
    ts = f"{SLACK_EPOCH}.{number:06d}"
    return {"type": "message", "channel": "C0GENERAL1", "channel_type": "channel", "user": "U0ANN00001",
            "team": "T0TEAM0001", "text": f"<@{SLACK_BOT}> {text}", "ts": ts, "event_ts": ts}  # fmt: skip


class SlackSocket(Platform):
    """Slack's Socket Mode: an envelope that was not confirmed comes again on the next connection."""

    name, adapter, direction, unhurried = "slack socket", "slack", "down", True

    def __init__(self) -> None:
        super().__init__()
        self.peer = self.stack.enter_context(SlackPeer())
        self.socket = self.stack.enter_context(SocketPeer(self.peer))
        self.wire.goal = int(self.peer.socket_url.rpartition(":")[2])
        self.peer.socket_url = f"ws://127.0.0.1:{self.wire.port}"
        self._sender = EventsSender("http://127.0.0.1/")
        self._said: dict[str, dict[str, Any]] = {}

    def settings(self) -> dict[str, Any]:
        return {"bot_token": self.peer.bot_token, "app_token": self.peer.app_token, "mode": "socket",
                "api_url": self.peer.api_url}  # fmt: skip

    def say(self, text: str) -> None:
        self._said[text] = self._sender.envelope(slack_message(text, len(self._said) + 500_000))
        self.socket.send("events_api", self._said[text])

    def again(self, texts: list[str]) -> None:
        for text in texts:
            self.socket.send("events_api", self._said[text])

    def answers(self) -> list[str]:
        return [one["text"] for one in self.peer.posted]


class Telegram(Platform):
    """What both of Telegram's ways share: updates come again until they are confirmed."""

    adapter = "telegram"
    token: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.peer = self.stack.enter_context(TelegramServer(token=self.token))
        self._said: dict[str, Any] = {}

    def say(self, text: str) -> None:
        self._said[text] = self.peer.say(text)

    def again(self, texts: list[str]) -> None:
        self.peer.updates.again(*(self._said[text] for text in texts))

    def answers(self) -> list[str]:
        return list(self.peer.texts)


class TelegramWebhook(Telegram):
    """Updates posted to the gateway; up to four at once, so their order is not Telegram's promise."""

    name, token, ordered = "telegram webhook", "1001:chaos-webhook", False

    def settings(self) -> dict[str, Any]:
        return {"token": self.peer.token, "mode": "webhook", "api_url": self.through(self.peer.url),
                "public_url": f"http://127.0.0.1:{self.wire.port}"}  # fmt: skip


class TelegramPolling(Telegram):
    """Updates fetched by long polling, through the wire that also carries the sends."""

    name, token, direction = "telegram polling", "1002:chaos-polling", "down"

    def settings(self) -> dict[str, Any]:
        self.wire.goal = int(self.peer.url.rpartition(":")[2])
        return {"token": self.peer.token, "mode": "polling", "poll_seconds": 1,
                "api_url": f"http://127.0.0.1:{self.wire.port}"}  # fmt: skip


class DiscordSocket(Platform):
    """Discord's gateway, resumed after each cut; sends go by HTTP."""

    name, adapter, direction = "discord gateway", "discord", "down"

    def __init__(self) -> None:
        super().__init__()
        self.peer = self.stack.enter_context(Discord())
        self.wire.goal = int(self.peer.gateway.url.rpartition(":")[2])
        self.peer.gateway.url = self.peer.rest.gateway_url = f"ws://127.0.0.1:{self.wire.port}"
        self._said: dict[str, dict[str, Any]] = {}

    def begin(self, gateway: int) -> None:
        super().begin(gateway)
        until(lambda: self.peer.gateway.ready, timeout=CONNECT_SECONDS, what="the bot is at Discord's gateway")

    def settings(self) -> dict[str, Any]:
        return {**self.peer.settings, "api_url": self.through(self.peer.rest.url)}

    def say(self, text: str) -> None:
        self._said[text] = self.peer.say(text)

    def again(self, texts: list[str]) -> None:
        for text in texts:
            self.peer.gateway.dispatch("MESSAGE_CREATE", self._said[text])

    def answers(self) -> list[str]:
        return list(self.peer.rest.posted(self.peer.channel))


class SatoriSocket(Platform):
    """A Satori server's events, resumed after each cut, through the wire that also carries the sends."""

    name, adapter, direction = "satori socket", "satori", "down"

    def __init__(self) -> None:
        super().__init__()
        self.peer = self.stack.enter_context(Satori(TOKEN))
        self.wire.goal = self.peer.port
        self._said: dict[str, dict[str, Any]] = {}

    def begin(self, gateway: int) -> None:
        super().begin(gateway)
        until(lambda: self.peer.connected, timeout=CONNECT_SECONDS, what="the bot is at the Satori server")

    def settings(self) -> dict[str, Any]:
        return {**self.peer.settings, "url": f"http://127.0.0.1:{self.wire.port}"}

    def say(self, text: str) -> None:
        self._said[text] = self.peer.say(text)

    def again(self, texts: list[str]) -> None:
        for text in texts:
            self.peer.push({key: value for key, value in self._said[text].items() if key != "sn"})

    def answers(self) -> list[str]:
        return self.peer.read("12")


class OneBotReverse(Platform):
    """OneBot's reverse WebSocket: frames are not confirmed, what was missed is fetched from the group's history."""

    name, adapter = "onebot reverse", "onebot"

    def __init__(self) -> None:
        super().__init__()
        self.peer = self.stack.enter_context(OneBot("10001", token=TOKEN))
        self._said: dict[str, Any] = {}
        self._over = threading.Event()

    def settings(self) -> dict[str, Any]:
        return {"access_token": TOKEN, "self_id": "10001", "interval": 0.0, "backfill_max": 500}

    def begin(self, gateway: int) -> None:
        super().begin(gateway)
        keeper = threading.Thread(target=self._keep_connected)
        keeper.start()
        self.stack.callback(keeper.join)
        self.stack.callback(self._over.set)
        until(lambda: self.peer.lines, timeout=CONNECT_SECONDS, what="the gateway takes the connection")

    def _keep_connected(self) -> None:
        while not self._over.wait(0.01):
            if not self.peer.lines:
                with suppress(OSError, websockets.WebSocketException, TimeoutError):
                    self.peer.connect(f"ws://127.0.0.1:{self.wire.port}")

    def say(self, text: str) -> None:
        event = self.peer.message(text, group="12")
        self._said[text] = event
        with suppress(websockets.ConnectionClosed):
            self.peer.emit(event)

    def again(self, texts: list[str]) -> None:
        for text in texts:
            with suppress(websockets.ConnectionClosed):
                self.peer.emit(self._said[text])

    def answers(self) -> list[str]:
        return list(self.peer.texts())


WAYS: tuple[type[Platform], ...] = (
    Webhook, OneBotReverse, TelegramWebhook, TelegramPolling, DiscordSocket, SlackEvents, SlackSocket,
    SatoriSocket,
)  # fmt: skip


def spread(count: int) -> list[int]:
    """Return 0 to `count` - 1, so ordered that any beginning of it is spread evenly (van der Corput's order)."""
    bits = max(1, (count - 1).bit_length())
    turned = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits))
    return [number for number in turned if number < count]


def pause(seconds: float) -> None:
    """Wait between two looks."""
    time.sleep(seconds)
