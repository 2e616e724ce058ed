"""Names by which adapters, accounts and their sends are known in queues, lanes and the store."""

from __future__ import annotations

import hashlib

from lumia.errors import PayloadError
from lumia.marks import MAX_NAME, is_name
from lumia.payloads import escape_id, lane
from lumia.store import stored_name

STORE = "lumia"
"""The plugin under which the port keeps its own."""
ACCOUNTS, EVENTS = "accounts", "account events"
_SEPARATOR = "/"


def queue(adapter: str, account: str) -> str:
    """Return the queue of the steps that have to run where an account's connection is (DESIGN §4)."""
    return f"adapter.{_named(adapter)}.{escape_id(account)}"


def send_lane(platform: str, account: str, kind: str, chat: str) -> str:
    """Return the lane in which a chat gets what is sent to it, in order."""
    key = f"send:{lane(platform, account, kind, chat)}"
    return key if len(key) <= MAX_NAME else f"send:{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def account_field(adapter: str, account: str) -> str:
    """Return the name of an account among all of the bot."""
    if not is_name(account):
        raise PayloadError(f"an account's name is 1 to {MAX_NAME} printable characters, got {str(account)[:80]!r}")
    return f"{_named(adapter)}{_SEPARATOR}{account}"


def of_field(field: str) -> tuple[str, str]:
    """Return the (adapter, account) that `account_field` joined."""
    adapter, _, account = field.partition(_SEPARATOR)
    return adapter, account


def key_of(key: str, scope: str = "") -> str:
    """Return the transport's name of a store key of the port."""
    return stored_name(STORE, scope, key)


def _named(adapter: str) -> str:
    if not is_name(adapter) or _SEPARATOR in adapter or ":" in adapter:
        raise PayloadError(f"an adapter's name is printable and has no '/' or ':', got {str(adapter)[:80]!r}")
    return adapter
