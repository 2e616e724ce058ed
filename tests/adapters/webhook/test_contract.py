"""The webhook keeps the contract of adapters; its platform is a program that posts and takes callbacks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

import lumia
from lumia.paths import base
from lumia.testing_adapters import BUSY, SILENT, AdapterSuite
from tests.support.wait import until

TOKEN = "t0ken-of-the-shop"


class Receiver(ThreadingHTTPServer):
    """Takes callbacks. faults: what it does with the next ones."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.texts: list[str] = []
        self.faults: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["content-length"])))["reply"]
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault != BUSY:
            self.server.texts.append(text)
        if fault == SILENT:
            self.close_connection = True
            return
        self.send_response(429 if fault == BUSY else 200)
        if fault == BUSY:
            self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


class TestWebhook(AdapterSuite):
    folder = base() / "adapters" / "webhook"
    account = "shop"
    receiver: Receiver

    @contextmanager
    def platform_runs(self) -> Iterator[None]:
        with Receiver() as self.receiver:
            thread = threading.Thread(target=self.receiver.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            yield
            self.receiver.shutdown()
            thread.join()

    def config(self) -> Mapping[str, Mapping[str, Any]]:
        hook = f"http://127.0.0.1:{self.receiver.server_port}/"
        shop = {"token": TOKEN, "callback_url": hook, "callback_hosts": ["127.0.0.1"]}
        return {"webhook": {"sources": {"": {"token": TOKEN}, "shop": shop, "open": {}}}}

    def receive(self, message_id: str, kind: str, chat: str, text: str) -> None:
        place = {"group_id": chat, "sender_id": "ada"} if kind == "group" else {"sender_id": chat}
        data = {"text": text, "message_id": message_id, **place}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(trust_env=False) as client:
            assert client.post(f"{self.url}/webhook/shop", json=data, headers=headers).status_code == 202

    def sent(self) -> list[str]:
        return self.receiver.texts

    def answer_next(self, how: str) -> None:
        if how not in (BUSY, SILENT):
            raise NotImplementedError
        self.receiver.faults.append(how)

    def test_each_source_is_an_account_that_listens_or_says_what_is_wrong(self) -> None:
        def found() -> dict[str, str]:
            return {one.account: one.state for one in lumia.adapters.accounts() if one.adapter == "webhook"}

        until(lambda: found() == {"shop": "listening", "open": "refused"}, what="the gateway tells of its sources")
        (wrong,) = [one.detail for one in lumia.adapters.accounts() if one.account == "open"]
        assert wrong.startswith("has neither token nor secret, so it refuses everything; choose one")
