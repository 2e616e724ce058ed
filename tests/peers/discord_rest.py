"""Discord's REST API on loopback: messages with nonces, rate limits per bucket, interactions' answers, faults."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.peers.discord_http import Asked, Fault, Handler, Server
from tests.peers.discord_world import message, snowflake


@dataclass
class Limit:
    """A scripted rate limit: so many requests per window (seconds) and top-level resource."""

    most: int
    window: float
    used: dict[str, tuple[float, int]] = field(default_factory=dict)


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.body = status, {"message": text, "code": code}


class Rest:
    """The server. channels: those that exist, id to kind (`guild` or `dm`); forbidden: those the bot may not write to.

    asked: every request; messages: what was posted, by channel; interactions: by token; commands: those registered.
    """

    def __init__(self, token: str, me: dict[str, Any], application: str) -> None:
        self.token, self.me, self.application = token, me, application
        self.flags = (1 << 18) | (1 << 14) | (1 << 12)
        self.channels: dict[str, str] = {}
        self.forbidden: set[str] = set()
        self.asked: list[Asked] = []
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.interactions: dict[str, dict[str, Any]] = {}
        self.commands: list[dict[str, Any]] = []
        self.gateway_url, self.shards, self.starts, self.concurrency = "", 1, 1000, 1
        self.made: Callable[[dict[str, Any]], None] = lambda made: None
        self.files: dict[str, tuple[str, bytes]] = {}
        self.most_bytes = 25 * 1024 * 1024
        self._dms: dict[str, str] = {}
        self._nonces: dict[tuple[str, str], dict[str, Any]] = {}
        self._faults: list[tuple[str, re.Pattern[str], deque[Fault]]] = []
        self._limits: list[tuple[str, re.Pattern[str], Limit]] = []
        self._lock = threading.RLock()
        self.closing = threading.Event()
        owner = self
        handler = type("Handler", (Handler,), {"owner": owner})
        self._server = Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.base = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{self.base}/api/v10"

    def close(self) -> None:
        """Stop serving."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # --- what a test does

    def script(self, method: str, pattern: str, *faults: Fault) -> None:
        """Answer the next requests whose path matches with these faults, one each."""
        self._faults.append((method, re.compile(pattern), deque(faults)))

    def limit(self, method: str, pattern: str, most: int, window: float) -> None:
        """Limit a route, as Discord does per bucket and channel."""
        self._limits.append((method, re.compile(pattern), Limit(most, window)))

    def posted(self, channel: str) -> list[str]:
        """Return the contents of what was posted to a channel, in order."""
        with self._lock:
            return [made["content"] for made in self.messages.get(channel, ())]

    def requests(self, method: str, pattern: str = "") -> list[Asked]:
        """Return the requests of a method whose path matches."""
        with self._lock:
            return [one for one in self.asked if one.method == method and re.search(pattern, one.path)]

    # --- what it does

    def answer(self, asked: Asked) -> tuple[int, Any, dict[str, str], Fault]:
        """Return (status, body, headers) for a request, and the fault that was scripted for it."""
        with self._lock:
            self.asked.append(asked)
            fault = self._fault(asked)
            if fault.status or fault.cut == "before":
                return fault.status, fault.body, fault.headers, fault
            headers = self._counted(asked)
            if headers.get("Retry-After"):
                wait = float(headers["X-RateLimit-Reset-After"])
                told = {"message": "You are being rate limited.", "retry_after": wait, "global": False}
                return 429, told, headers, fault
            try:
                status, body = self._done(asked)
            except Refusal as refusal:
                status, body = refusal.status, refusal.body
            return status, body, headers, fault

    def _fault(self, asked: Asked) -> Fault:
        for method, pattern, faults in self._faults:
            if faults and method == asked.method and pattern.search(asked.path):
                return faults.popleft()
        return Fault()

    def _counted(self, asked: Asked) -> dict[str, str]:
        for number, (method, pattern, limit) in enumerate(self._limits):
            if method != asked.method or not pattern.search(asked.path):
                continue
            major, now = "/".join(asked.path.split("/")[:3]), time.monotonic()
            until, used = limit.used.get(major, (0.0, 0))
            if until <= now:
                until, used = now + limit.window, 0
            over = used >= limit.most
            limit.used[major] = (until, used + (0 if over else 1))
            told = {
                "X-RateLimit-Bucket": f"bucket{number}", "X-RateLimit-Limit": str(limit.most),
                "X-RateLimit-Remaining": str(0 if over else limit.most - used - 1),
                "X-RateLimit-Reset-After": f"{until - now:.3f}",
                "X-RateLimit-Reset": f"{time.time() + until - now:.3f}",
            }  # fmt: skip
            return {**told, "Retry-After": "1", "X-RateLimit-Scope": "user"} if over else told
        return {}

    def _done(self, asked: Asked) -> tuple[int, Any]:
        if not asked.headers.get("user-agent", "").startswith("DiscordBot ("):
            raise Refusal(403, 40333, "internal network error")
        path = asked.path.partition("?")[0]
        for method, pattern, act, proved in _ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == asked.method:
                if proved and asked.headers.get("authorization") != f"Bot {self.token}":
                    raise Refusal(401, 0, "401: Unauthorized")
                status, body = act(self, asked, *found.groups())
                return status, body
        raise Refusal(404, 0, "404: Not Found")

    def _user(self, asked: Asked) -> tuple[int, Any]:
        return 200, {**self.me, "flags": 0, "verified": True, "mfa_enabled": False, "locale": "en-US", "email": None}

    def _application(self, asked: Asked) -> tuple[int, Any]:
        made = {
            "id": self.application, "name": "Lumia", "flags": self.flags, "bot": self.me, "icon": None,
            "description": "", "bot_public": True, "bot_require_code_grant": False, "verify_key": "0" * 64,
            "owner": {"id": "1", "username": "owner", "discriminator": "0", "avatar": None, "global_name": None},
            "team": None, "approximate_guild_count": 1,
        }  # fmt: skip
        return 200, made

    def _gateway(self, asked: Asked) -> tuple[int, Any]:
        limit = {"total": 1000, "remaining": self.starts, "reset_after": 3_600_000, "max_concurrency": self.concurrency}
        return 200, {"url": self.gateway_url, "shards": self.shards, "session_start_limit": limit}

    def _open_dm(self, asked: Asked) -> tuple[int, Any]:
        person = str(asked.body["recipient_id"])
        id = self._dms.setdefault(person, snowflake())
        self.channels[id] = "dm"
        who = {"id": person, "username": "someone", "discriminator": "0", "avatar": None, "global_name": None}
        return 200, {"id": id, "type": 1, "recipients": [who], "last_message_id": None, "flags": 0}

    def _post(self, asked: Asked, channel: str) -> tuple[int, Any]:
        if channel not in self.channels:
            raise Refusal(404, 10003, "Unknown Channel")
        if channel in self.forbidden:
            raise Refusal(403, 50013, "Missing Permissions")
        nonce = asked.body.get("nonce")
        if asked.body.get("enforce_nonce") and (channel, str(nonce)) in self._nonces:
            return 200, self._nonces[channel, str(nonce)]
        made = self._message(asked, channel)
        if nonce is not None:
            made["nonce"] = nonce
            self._nonces[channel, str(nonce)] = made
        self.made(made)
        return 200, made

    def _message(self, asked: Asked, channel: str) -> dict[str, Any]:
        body = asked.body
        content = body.get("content") or ""
        if len(content) > 2000 or len(str(body.get("nonce") or "")) > 25:
            raise Refusal(400, 50035, "Invalid Form Body")
        if len(asked.files) > 10:
            raise Refusal(400, 50035, "Invalid Form Body")
        if sum(len(data) for _, data in asked.files) > self.most_bytes:
            raise Refusal(413, 40005, "Request entity too large")
        if not (content or asked.files or body.get("embeds") or body.get("sticker_ids")):
            raise Refusal(400, 50006, "Cannot send an empty message")
        reference = body.get("message_reference")
        known = {made["id"] for all in self.messages.values() for made in all}
        if reference and not str(reference.get("message_id", "")).isdigit():
            raise Refusal(400, 50035, "Invalid Form Body")
        if reference and reference.get("fail_if_not_exists", True) and str(reference["message_id"]) not in known:
            raise Refusal(400, 50035, "Invalid Form Body: unknown message")
        made = message(self.me, channel, content, type=19 if reference else 0)
        made["attachments"] = [
            {"id": snowflake(), "filename": name, "size": len(data), "url": f"{self.base}/attachments/{name}",
             "proxy_url": f"{self.base}/attachments/{name}"}
            for name, data in asked.files
        ]  # fmt: skip
        if reference:
            made["message_reference"] = {"type": 0, "channel_id": channel, "message_id": str(reference["message_id"])}
            made["referenced_message"] = None
        self.messages.setdefault(channel, []).append(made)
        return made

    def _edit(self, asked: Asked, channel: str, id: str) -> tuple[int, Any]:
        made = self._found(channel, id)
        made |= {"content": asked.body.get("content", made["content"]), "edited_timestamp": made["timestamp"]}
        return 200, made

    def _delete(self, asked: Asked, channel: str, id: str) -> tuple[int, Any]:
        self.messages[channel].remove(self._found(channel, id))
        return 204, None

    def _found(self, channel: str, id: str) -> dict[str, Any]:
        for made in self.messages.get(channel, ()):
            if made["id"] == id:
                return made
        raise Refusal(404, 10008, "Unknown Message")

    def _original(self, asked: Asked, application: str, token: str) -> tuple[int, Any]:
        known = self._interaction(application, token)
        if known.get("original"):
            return 200, {**known["original"], "content": asked.body.get("content", "")}
        known["original"] = self._message(asked, known["channel_id"])
        return 200, known["original"]

    def _followup(self, asked: Asked, application: str, token: str) -> tuple[int, Any]:
        known = self._interaction(application, token)
        made = self._message(asked, known["channel_id"])
        known.setdefault("followups", []).append(made)
        return 200, made

    def _interaction(self, application: str, token: str) -> dict[str, Any]:
        known = self.interactions.get(token)
        if known is None or application != self.application or not known.get("answer") or known.get("expired"):
            raise Refusal(404, 10015, "Unknown Webhook")
        return known

    def _callback(self, asked: Asked, id: str, token: str) -> tuple[int, Any]:
        known = self.interactions.get(token)
        if known is None or known["id"] != id:
            raise Refusal(404, 10062, "Unknown interaction")
        if known.get("answer"):
            raise Refusal(400, 40060, "Interaction has already been acknowledged.")
        known["answer"] = asked.body
        return 204, None

    def _commands(self, asked: Asked, application: str) -> tuple[int, Any]:
        self.commands = asked.body
        return 200, asked.body


_ID = r"(\d+)"
_ROUTES: tuple[tuple[str, str, Callable[..., tuple[int, Any]], bool], ...] = (
    ("GET", "/users/@me", Rest._user, True),
    ("GET", "/(?:oauth2/)?applications/@me", Rest._application, True),
    ("GET", "/gateway/bot", Rest._gateway, True),
    ("POST", "/users/@me/channels", Rest._open_dm, True),
    ("POST", f"/channels/{_ID}/messages", Rest._post, True),
    ("PATCH", f"/channels/{_ID}/messages/{_ID}", Rest._edit, True),
    ("DELETE", f"/channels/{_ID}/messages/{_ID}", Rest._delete, True),
    ("PUT", f"/applications/{_ID}/commands", Rest._commands, True),
    ("POST", f"/interactions/{_ID}/([^/]+)/callback", Rest._callback, False),
    ("PATCH", f"/webhooks/{_ID}/([^/]+)/messages/@original", Rest._original, False),
    ("POST", f"/webhooks/{_ID}/([^/]+)", Rest._followup, False),
)
