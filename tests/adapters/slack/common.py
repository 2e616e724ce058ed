"""A bot with a Slack account whose Slack is ours."""

from __future__ import annotations

from typing import Any

import lumia
from lumia.paths import base
from tests.peers.slack import SlackPeer

SLACK = base() / "adapters" / "slack"
TO = "msg.send, dest=6.slack.group-C0GENERAL1"
ANN = "U0ANN00001"


def settings(slack: SlackPeer, **more: Any) -> dict[str, Any]:
    """Return the table of an account for this Slack."""
    return {
        "bot_token": slack.bot_token,
        "signing_secret": slack.signing_secret,
        "api_url": slack.api_url,
        **more,
    }


def config(slack: SlackPeer, **more: Any) -> dict[str, Any]:
    """Return the configuration of a bot with one account, `main`."""
    return {"slack": {"accounts": {"main": settings(slack, **more)}}}


def message(text: str = "hello", ts: str = "1718000100.000100", **more: Any) -> dict[str, Any]:
    """Return a message event of Ann in the general channel."""
    known = {"type": "message", "channel": "C0GENERAL1", "channel_type": "channel", "user": ANN, "team": "T0TEAM0001"}
    return {**known, "text": text, "ts": ts, "event_ts": ts, **more}


@lumia.pipe.on("msg", priv=10)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    """Answer every message with its own words, where it was said."""
    msg = content.into()
    if "quiet" in msg["text"]:
        lumia.utils.stop("asked to be quiet")
        return
    named = ("account", "thread")
    meta = {name: content.meta[name] for name in named if name in content.meta}
    reply = {"text": f"you said: {msg['text']}", "reply_to": msg["message_id"]}
    lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any(reply, meta=meta))
    lumia.utils.next()
