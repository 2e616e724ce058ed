"""A lost answer: whether a message or file arrived all the same, asked of the channel itself.

Slack has no key that makes posting safe to repeat, but it keeps metadata with a message: each carries a mark by which
it is found again (docs.slack.dev, "Message metadata"). What isn't found may still be on its way, so it stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import lumia
from lumia.errors import LumiaError

from . import api
from .accounts import Account
from .arrivals import is_ts
from .fields import as_dict, as_list, text_at

EVENT_TYPE = "lumia_send"
_BACK = 600.0
"""Seconds to look back; Slack's clock may differ from ours."""
_MOST = 200


def mark(nonce: str) -> dict[str, Any]:
    """Return the metadata of a message that is known by `nonce`."""
    return {"event_type": EVENT_TYPE, "event_payload": {"nonce": nonce}}


def find_message(account: Account, channel: str, thread: str | None, nonce: str) -> str | None:
    """Return the id of the message that carries the mark, None where it isn't seen (or can't be looked for)."""
    asked = {"channel": channel, "oldest": f"{lumia.system.now() - _BACK:.6f}", "limit": _MOST}
    method = "conversations.history" if thread is None else "conversations.replies"
    try:
        found = api.form(account, method, {**asked, "ts": thread, "include_all_metadata": "true"})
    except LumiaError:
        return None
    return next((ts for ts, seen in _marks(found) if seen == nonce), None)


def _marks(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for message in map(as_dict, as_list(answer.get("messages"))):
        metadata = as_dict(message.get("metadata"))
        ts = text_at(message, "ts")
        if metadata.get("event_type") == EVENT_TYPE and is_ts(ts):
            yield ts, text_at(as_dict(metadata.get("event_payload")), "nonce")


def is_shared(account: Account, channel: str, file_id: str) -> bool:
    """Tell whether a file is seen in a channel."""
    try:
        file = as_dict(api.form(account, "files.info", {"file": file_id}).get("file"))
    except LumiaError:
        return False
    shares = as_dict(file.get("shares"))
    return any(channel in as_dict(shares.get(kind)) for kind in ("public", "private"))
