"""A Slack to talk to in tests: its Web API over real HTTP, and the state behind it.

Written from docs.slack.dev; `slack_sdk` is its judge (tests/adapters/slack/test_peer.py). Usable by plugin authors::

    with SlackPeer() as slack:
        config = {"bot_token": slack.bot_token, "signing_secret": slack.signing_secret, "api_url": slack.api_url}
        ...
        assert slack.posted[0]["text"] == "hello"

Faults are planned per method with `fail`: each takes one call. `tests/peers/slack_events.py` sends what Slack posts,
`tests/peers/slack_socket.py` is the other end of Socket Mode.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import defaultdict
from types import TracebackType
from typing import Any

from tests.peers.slack_http import Call, Fault, Handler, Server

__all__ = [
    "APP",
    "APP_TOKEN",
    "BOT",
    "BOT_ID",
    "BOT_TOKEN",
    "SCOPES",
    "SIGNING_SECRET",
    "TEAM",
    "Call",
    "Fault",
    "SlackPeer",
]

BOT_TOKEN, APP_TOKEN = "xoxb-1111-2222-" + "b" * 24, "xapp-1-A0APP-3333-" + "c" * 24
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
BOT, BOT_ID, TEAM, APP = "U0BOT00001", "B0BOT00001", "T0TEAM0001", "A0APP00001"
SCOPES = (
    "app_mentions:read,channels:history,groups:history,im:history,mpim:history,chat:write,users:read,files:read,"
    "files:write,im:write,commands"
)


class SlackPeer:
    """Slack's Web API for one workspace with one bot. Attributes may be changed by a test at any time.

    channels: id → {"member": …, "archived": …}; users: id → profile; posted, updated, deleted: what the bot did;
    uploads: file id → bytes; answers: what was posted to a response_url; socket_url: what apps.connections.open gives.
    """

    def __init__(self) -> None:
        self.bot_token, self.app_token, self.signing_secret = BOT_TOKEN, APP_TOKEN, SIGNING_SECRET
        self.scopes = SCOPES
        self.channels: dict[str, dict[str, bool]] = {id: {"member": True} for id in ("C0GENERAL1", "G0PRIVATE1")}
        self.users: dict[str, dict[str, Any]] = {"U0ANN00001": {"name": "ann", "display_name": "Ann"}}
        self.replies: dict[str, str] = {}
        self.posted: list[dict[str, Any]] = []
        self.updated: list[dict[str, Any]] = []
        self.deleted: list[dict[str, Any]] = []
        self.shared: list[dict[str, Any]] = []
        self.uploads: dict[str, bytes] = {}
        self.files: dict[str, tuple[bytes, str]] = {}
        self.answers: list[tuple[str, dict[str, Any]]] = []
        self.calls: list[Call] = []
        self.socket_url = ""
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._number = itertools.count(1)
        self._lock = threading.RLock()
        self.closing = threading.Event()
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> SlackPeer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def api_url(self) -> str:
        """Return the base of the methods, for `api_url` and slack_sdk's `base_url`."""
        return f"{self.url}/api/"

    def fail(self, method: str, *faults: Fault) -> None:
        """Let the next calls of a method meet these faults, one each; `upload` and `response_url` are methods, too."""
        self._faults[method].extend(faults)

    def called(self, method: str) -> list[Call]:
        """Return the calls of one method."""
        return [call for call in self.calls if call.method == method]

    def ts(self) -> str:
        """Return a new message id."""
        return f"1718000000.{next(self._number):06d}"

    # --- what a request meets

    def take(
        self, method: str, arguments: dict[str, Any], token: str, content_type: str
    ) -> tuple[int, dict[str, str], bytes] | None:
        """Answer a call; None to end the connection."""
        call = Call(method, arguments, token, content_type)
        with self._lock:
            self.calls.append(call)
            fault = self._faults[call.method].pop(0) if self._faults[call.method] else None
        if fault is not None:
            self.closing.wait(fault.delay)
            if fault.cut == "before":
                return None
            if fault.body is not None or fault.status != 200:
                body = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body or {}).encode()
                return fault.status, {"Content-Type": "application/json", **fault.headers}, body
        with self._lock:
            answer = self._done(call)
        if fault is not None and fault.cut == "after":
            return None
        headers = {"Content-Type": "application/json; charset=utf-8", "X-OAuth-Scopes": self.scopes}
        return 200, headers, json.dumps(answer).encode()

    def take_raw(self, what: str) -> tuple[int, dict[str, str], bytes] | None:
        """Return the answer that a planned fault of an upload or an answer gives, None where none is planned."""
        if not self._faults[what]:
            return None
        fault = self._faults[what].pop(0)
        return fault.status, fault.headers, fault.body if isinstance(fault.body, bytes) else b""

    def _done(self, call: Call) -> dict[str, Any]:
        wanted = self.app_token if call.method == "apps.connections.open" else self.bot_token
        if not call.token:
            return {"ok": False, "error": "not_authed"}
        if call.token != wanted:
            return {"ok": False, "error": "invalid_auth"}
        known = getattr(self, "_" + call.method.replace(".", "_").lower(), None)
        return known(call.arguments) if known else {"ok": False, "error": "unknown_method"}

    def _auth_test(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "url": "https://acme.slack.com/", "team": "Acme", "user": "lumia", "team_id": TEAM,
                "user_id": BOT, "bot_id": BOT_ID, "is_enterprise_install": False}  # fmt: skip

    def _chat_postmessage(self, given: dict[str, Any]) -> dict[str, Any]:
        refused = self._refused(given.get("channel", "")) or self._wrong_text(given)
        if refused:
            return {"ok": False, "error": refused}
        thread = given.get("thread_ts")
        if thread in self.replies:
            raise AssertionError(f"thread_ts {thread} is a reply's own ts; it must be its parent's")
        ts = self.ts()
        if thread:
            self.replies[ts] = thread
        self.posted.append({**given, "ts": ts})
        said = {"type": "message", "user": BOT, "bot_id": BOT_ID, "text": given.get("text", ""), "ts": ts}
        return {"ok": True, "channel": given["channel"], "ts": ts, "message": said}

    def _conversations_history(self, given: dict[str, Any]) -> dict[str, Any]:
        return self._said(given, None)

    def _conversations_replies(self, given: dict[str, Any]) -> dict[str, Any]:
        return self._said(given, given["ts"])

    def _said(self, given: dict[str, Any], thread: str | None) -> dict[str, Any]:
        if "history" not in self.scopes:
            return {"ok": False, "error": "missing_scope", "needed": "channels:history", "provided": self.scopes}
        gone = {one["ts"] for one in self.deleted}
        shown = [one for one in self.posted if one["channel"] == given["channel"] and one["ts"] not in gone]
        kept = ("text", "ts", "metadata") if given.get("include_all_metadata") == "true" else ("text", "ts")
        found = [{key: one[key] for key in kept if key in one} for one in shown if one.get("thread_ts") == thread]
        return {"ok": True, "messages": found[::-1][: int(given.get("limit") or 100)], "has_more": False}

    def _files_info(self, given: dict[str, Any]) -> dict[str, Any]:
        channels = [one["channel_id"] for one in self.shared if given["file"] in [file["id"] for file in one["files"]]]
        if given["file"] not in self.uploads:
            return {"ok": False, "error": "file_not_found"}
        shares = {"public": {channel: [{"ts": "1718000000.000001"}] for channel in channels}}
        return {"ok": True, "file": {"id": given["file"], "channels": channels, "shares": shares}}

    def _wrong_text(self, given: dict[str, Any]) -> str:
        text = given.get("text") or ""
        if not any(given.get(name) for name in ("text", "blocks", "attachments", "markdown_text")):
            return "no_text"
        return "msg_too_long" if len(text) > 40_000 or len(given.get("markdown_text") or "") > 12_000 else ""

    def _refused(self, channel: str) -> str:
        known = self.channels.get(channel)
        if known is None:
            return "channel_not_found"
        if known.get("archived"):
            return "is_archived"
        return "" if known.get("member") else "not_in_channel"

    def _chat_update(self, given: dict[str, Any]) -> dict[str, Any]:
        if all(one["ts"] != given.get("ts") for one in self.posted):
            return {"ok": False, "error": "message_not_found"}
        self.updated.append(given)
        return {"ok": True, "channel": given["channel"], "ts": given["ts"], "text": given.get("text", "")}

    def _chat_delete(self, given: dict[str, Any]) -> dict[str, Any]:
        gone = {one["ts"] for one in self.deleted}
        if given.get("ts") in gone or all(one["ts"] != given.get("ts") for one in self.posted):
            return {"ok": False, "error": "message_not_found"}
        self.deleted.append(given)
        return {"ok": True, "channel": given["channel"], "ts": given["ts"]}

    def _conversations_open(self, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("users") not in self.users:
            return {"ok": False, "error": "user_not_found"}
        channel = "D" + str(given["users"])[1:]
        self.channels.setdefault(channel, {"member": True})
        return {"ok": True, "channel": {"id": channel}}

    def _users_info(self, given: dict[str, Any]) -> dict[str, Any]:
        user = self.users.get(given.get("user", ""))
        if user is None:
            return {"ok": False, "error": "user_not_found"}
        profile = {"display_name": user.get("display_name", ""), "real_name": user.get("real_name", "")}
        return {"ok": True, "user": {"id": given["user"], "name": user.get("name", ""), "profile": profile}}

    def _apps_connections_open(self, given: dict[str, Any]) -> dict[str, Any]:
        if not self.socket_url:
            return {"ok": False, "error": "internal_error"}
        return {"ok": True, "url": f"{self.socket_url}/link/?ticket=t{next(self._number)}&app_id={APP}"}

    def _files_getuploadurlexternal(self, given: dict[str, Any]) -> dict[str, Any]:
        if not given.get("filename") or int(given.get("length") or 0) <= 0:
            return {"ok": False, "error": "invalid_arguments"}
        file_id = f"F0FILE{next(self._number):05d}"
        return {"ok": True, "upload_url": f"{self.url}/upload/v1/{file_id}", "file_id": file_id}

    def _files_completeuploadexternal(self, given: dict[str, Any]) -> dict[str, Any]:
        files = given["files"] if isinstance(given["files"], list) else json.loads(given["files"])
        if any(one["id"] not in self.uploads for one in files):
            return {"ok": False, "error": "file_not_found"}
        if (refused := self._refused(given["channel_id"])) if given.get("channel_id") else "":
            return {"ok": False, "error": refused}
        self.shared.append({**given, "files": files})
        return {"ok": True, "files": [{"id": one["id"], "title": one.get("title", "")} for one in files]}

    def _files_delete(self, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("file") not in self.uploads:
            return {"ok": False, "error": "file_not_found"}
        del self.uploads[given["file"]]
        return {"ok": True}
