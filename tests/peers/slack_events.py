"""What Slack posts to an app: signed events with Slack's retries, slash commands, clicks and the first handshake."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.peers.slack import APP, BOT, SIGNING_SECRET, TEAM

SCHEDULE = (0.0, 60.0, 300.0)
"""Seconds before each of Slack's three retries: nearly at once, after a minute, after five."""
_FORM = "application/x-www-form-urlencoded"


@dataclass
class Delivery:
    """What became of one event. statuses: of each try, 0 for no answer in time."""

    statuses: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def arrived(self) -> bool:
        """Tell whether a try was answered with 2xx."""
        return bool(self.statuses) and 200 <= self.statuses[-1] < 300


class EventsSender:
    """Posts to an app's request URL as Slack does. schedule: seconds before each retry, compressed for tests."""

    def __init__(
        self,
        url: str,
        secret: str = SIGNING_SECRET,
        *,
        schedule: Sequence[float] = SCHEDULE,
        patience: float = 3.0,
        client: httpx.Client | None = None,
    ) -> None:
        self.url, self.secret, self.schedule = url, secret, tuple(schedule)
        self._client = client
        self._patience = patience
        self._number = itertools.count(1)

    def envelope(self, event: Mapping[str, Any], event_id: str = "") -> dict[str, Any]:
        """Return the outer form of an event."""
        number = next(self._number)
        return {
            "token": "ZZZZZZWSxiZZZ2yIvs3peJ",
            "team_id": TEAM,
            "context_team_id": TEAM,
            "context_enterprise_id": None,
            "api_app_id": APP,
            "event": dict(event),
            "type": "event_callback",
            "event_id": event_id or f"Ev0{time.monotonic_ns():012X}{number:04X}",
            "event_time": int(time.time()),
            "authorizations": [
                {"enterprise_id": None, "team_id": TEAM, "user_id": BOT, "is_bot": True, "is_enterprise_install": False}
            ],
            "is_ext_shared_channel": False,
            "event_context": f"4-eyJldCI6Im1lc3NhZ2UiL{number}",
        }

    def event(self, event: Mapping[str, Any], event_id: str = "") -> Delivery:
        """Deliver an event, with retries until it is answered with 2xx."""
        return self.deliver(self.envelope(event, event_id))

    def deliver(self, envelope: Mapping[str, Any]) -> Delivery:
        """Deliver an envelope as it is."""
        data = json.dumps(envelope).encode()
        found = Delivery()
        reason = ""
        for number, pause in enumerate((0.0, *self.schedule)):
            time.sleep(pause)
            retry = {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": reason} if number else {}
            started = time.monotonic()
            try:
                answer = self.post(data, "application/json", retry)
            except httpx.TimeoutException:
                status, reason = 0, "http_timeout"
            except httpx.TransportError:
                status, reason = 0, "connection_failed"
            else:
                status, reason = answer.status_code, "http_error"
                if "x-slack-no-retry" in answer.headers:
                    found.statuses.append(status)
                    return found
            found.statuses.append(status)
            found.seconds.append(time.monotonic() - started)
            if found.arrived:
                return found
        return found

    def command(self, command: str, text: str = "", **fields: str) -> httpx.Response:
        """Post a slash command; Slack shows the user an error instead of trying again."""
        known = {
            "token": "gIkuvaNzQIHg97ATvDxqgjtO", "team_id": TEAM, "team_domain": "acme", "channel_id": "C0GENERAL1",
            "channel_name": "general", "user_id": "U0ANN00001", "user_name": "ann", "command": command, "text": text,
            "api_app_id": APP, "is_enterprise_install": "false",
            "trigger_id": f"13345224609.738474920.{time.monotonic_ns():x}",
        }  # fmt: skip
        return self.post(urlencode({**known, **fields}).encode(), _FORM)

    def interaction(self, payload: Mapping[str, Any]) -> httpx.Response:
        """Post a click or a submitted view."""
        return self.post(urlencode({"payload": json.dumps(payload)}).encode(), _FORM)

    def verify(self, challenge: str = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P") -> httpx.Response:
        """Post what Slack posts once when the URL is saved."""
        body = {"token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "challenge": challenge, "type": "url_verification"}
        return self.post(json.dumps(body).encode())

    def post(
        self, data: bytes, content_type: str = "application/json", headers: Mapping[str, str] | None = None,
        *, at: float | None = None,
    ) -> httpx.Response:  # fmt: skip
        """Post signed bytes. at: the time of the signature, now by default."""
        signed = self.signed(data, at)
        more = {"Content-Type": content_type, "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)"}
        with nullcontext(self._client) if self._client else httpx.Client(trust_env=False) as client:
            return client.post(
                self.url, content=data, headers={**more, **signed, **(headers or {})}, timeout=self._patience
            )

    def signed(self, data: bytes, at: float | None = None) -> dict[str, str]:
        """Return the headers that prove that Slack sent `data`."""
        timestamp = str(int(time.time() if at is None else at))
        digest = hmac.new(self.secret.encode(), f"v0:{timestamp}:".encode() + data, hashlib.sha256).hexdigest()
        return {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": f"v0={digest}"}
