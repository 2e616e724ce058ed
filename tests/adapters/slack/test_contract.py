"""Slack keeps the contract of adapters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from adapters.slack import mrkdwn
from lumia.testing_adapters import BUSY, REFUSED, SILENT, UNREACHABLE, AdapterSuite
from tests.adapters.slack.common import SLACK, config, message
from tests.peers.slack import Fault, SlackPeer
from tests.peers.slack_events import EventsSender

FAULTS = {
    BUSY: Fault.limited(7),
    REFUSED: Fault.error("is_archived"),
    UNREACHABLE: Fault.error("request_timeout"),
    SILENT: Fault(cut="after"),
}


class TestSlack(AdapterSuite):
    folder = SLACK
    chat, other = "C0GENERAL1", "C0OTHER001"
    slack: SlackPeer

    @contextmanager
    def platform_runs(self) -> Iterator[None]:
        with SlackPeer() as self.slack:
            self.slack.channels |= {id: {"member": True} for id in ("C0OTHER001", "D0GENERAL1")}
            yield

    def config(self) -> Mapping[str, Mapping[str, Any]]:
        return config(self.slack, markdown=False)

    def receive(self, message_id: str, kind: str, chat: str, text: str) -> None:
        ts = f"1718000000.{int(hashlib.sha256(message_id.encode()).hexdigest(), 16) % 10**6:06d}"
        place = {"channel": f"D{chat[1:]}", "channel_type": "im"} if kind == "private" else {"channel": chat}
        with httpx.Client(trust_env=False) as client:
            sender = EventsSender(f"{self.url}/slack/main/events", client=client)
            data = json.dumps(sender.envelope(message(mrkdwn.escape(text), ts, **place))).encode()
            assert sender.post(data, at=self.bot.clock.now()).status_code == 200

    def sent(self) -> list[str]:
        return [mrkdwn.unescape(one["text"]) for one in self.slack.posted]

    def answer_next(self, how: str) -> None:
        self.slack.fail("chat.postMessage", FAULTS[how])
