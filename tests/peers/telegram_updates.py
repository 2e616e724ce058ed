"""How updates reach a bot: they are fetched with getUpdates or pushed to a webhook, never both."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.peers.telegram_chats import Refusal

LEFT_OUT = ("chat_member", "message_reaction", "message_reaction_count")
"""What an empty allowed_updates leaves out."""


@dataclass
class Webhook:
    """Where updates are pushed. statuses: what it answered, in order."""

    url: str
    secret: str = ""
    max_connections: int = 40
    statuses: list[int] = field(default_factory=list)
    error: str = ""
    error_date: int = 0
    over: threading.Event = field(default_factory=threading.Event)


class Updates:
    """The updates that wait. confirmed: below this id all were delivered; received: what the webhook took."""

    def __init__(self, retry: float, closing: threading.Event) -> None:
        self.waiting: list[dict[str, Any]] = []
        self.webhook: Webhook | None = None
        self.allowed: list[str] = []
        self.confirmed = 0
        self.delivered: list[int] = []
        self._retry = retry
        self._closing = closing
        self._changed = threading.Condition()
        self._next_id = 1000
        self._poll = 0
        self._in_flight: set[int] = set()
        self._pushers: list[threading.Thread] = []

    def add(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """Queue an update; one of a kind that isn't allowed is dropped."""
        with self._changed:
            found = {"update_id": self._next_id, **update}
            self._next_id = max(self._next_id, found["update_id"]) + 1
            kind = next(key for key in found if key != "update_id")
            if (self.allowed and kind in self.allowed) or (not self.allowed and kind not in LEFT_OUT):
                self.waiting.append(found)
            self._changed.notify_all()
            return found

    def again(self, *updates: Mapping[str, Any]) -> None:
        """Deliver updates once more, as after a lost answer."""
        with self._changed:
            self.waiting = [dict(update) for update in updates] + self.waiting
            self._changed.notify_all()

    # --- methods of the Bot API

    def getupdates(self, params: Mapping[str, Any], _: Any) -> list[dict[str, Any]]:
        """Long poll; a newer poll ends an older one."""
        end = time.monotonic() + float(params.get("timeout") or 0)
        with self._changed:
            if self.webhook is not None:
                raise Refusal(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook "
                                   "to delete the webhook first")  # fmt: skip
            self._poll += 1
            mine = self._poll
            self._changed.notify_all()
            if "allowed_updates" in params:
                self.allowed = list(params["allowed_updates"])
            self._confirm(int(params.get("offset") or 0))
            while not self.waiting and time.monotonic() < end and not self._closing.is_set():
                self._changed.wait(min(0.2, max(0.001, end - time.monotonic())))
                if mine != self._poll:
                    raise Refusal(409, "Conflict: terminated by other getUpdates request; make sure that only one "
                                       "bot instance is running")  # fmt: skip
            return self.waiting[: int(params.get("limit") or 100)]

    def _confirm(self, offset: int) -> None:
        if offset < 0:
            self.waiting = self.waiting[offset:]
        elif offset:
            self.confirmed = max(self.confirmed, offset)
            self.waiting = [update for update in self.waiting if update["update_id"] >= offset]

    def setwebhook(self, params: Mapping[str, Any], _: Any) -> bool:
        """Set the webhook and begin to push."""
        url, secret = str(params.get("url", "")), str(params.get("secret_token", ""))
        if not url:
            return self.deletewebhook(params, _)
        if not url.startswith(("https://", "http://127.0.0.1", "http://localhost")):
            raise Refusal(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,256}", secret):
            raise Refusal(400, "Bad Request: secret token contains unallowed characters")
        self.deletewebhook(params, _)
        with self._changed:
            if "allowed_updates" in params:
                self.allowed = list(params["allowed_updates"])
            self.webhook = hook = Webhook(url, secret, int(params.get("max_connections") or 40))
            for _number in range(min(4, hook.max_connections)):
                thread = threading.Thread(target=self._push, args=(hook,), daemon=True)
                self._pushers.append(thread)
                thread.start()
        return True

    def deletewebhook(self, params: Mapping[str, Any], _: Any) -> bool:
        """Stop pushing."""
        self.stop()
        with self._changed:
            if params.get("drop_pending_updates"):
                self.waiting.clear()
        return True

    def getwebhookinfo(self, params: Mapping[str, Any], _: Any) -> dict[str, Any]:
        """Tell of the webhook."""
        hook = self.webhook
        info = {"url": hook.url if hook else "", "has_custom_certificate": False,
                "pending_update_count": len(self.waiting)}  # fmt: skip
        if hook is None:
            return info
        errors = {"last_error_date": hook.error_date, "last_error_message": hook.error} if hook.error else {}
        return {**info, "max_connections": hook.max_connections, "allowed_updates": self.allowed, **errors}

    # --- pushing

    def stop(self) -> None:
        """Forget the webhook and wait for its pushers."""
        with self._changed:
            if self.webhook is not None:
                self.webhook.over.set()
            self.webhook = None
            self._changed.notify_all()
        for thread in self._pushers:
            thread.join(20)
        self._pushers.clear()

    def _push(self, hook: Webhook) -> None:
        while (update := self._taken(hook)) is not None:
            delay, done = self._retry, False
            while not done and not hook.over.is_set():
                done, wait = _posted(hook, update)
                if not done:
                    hook.over.wait(min(wait, 1.0) if wait else delay)
                    delay = min(delay * 2, self._retry * 16)
            with self._changed:
                self._in_flight.discard(id(update))
                if done:
                    self.waiting = [one for one in self.waiting if one is not update]
                    self.delivered.append(update["update_id"])

    def _taken(self, hook: Webhook) -> dict[str, Any] | None:
        with self._changed:
            while not hook.over.is_set():
                free = next((one for one in self.waiting if id(one) not in self._in_flight), None)
                if free is not None:
                    self._in_flight.add(id(free))
                    return free
                self._changed.wait(0.2)
        return None


def _posted(hook: Webhook, update: Mapping[str, Any]) -> tuple[bool, float]:
    """Post one update; returns whether a 2xx came, and the Retry-After."""
    headers = {"Content-Type": "application/json"}
    if hook.secret:
        headers["X-Telegram-Bot-Api-Secret-Token"] = hook.secret
    request = urllib.request.Request(hook.url, json.dumps(update).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            hook.statuses.append(answer.status)
            return True, 0.0
    except urllib.error.HTTPError as error:
        with error:
            hook.statuses.append(error.code)
            hook.error, hook.error_date = f"Wrong response from the webhook: {error.code} {error.reason}", 1
            return False, float(error.headers.get("Retry-After") or 0)
    except OSError as error:
        hook.error, hook.error_date = f"Connection failed: {error}", 1
        return False, 0.0
