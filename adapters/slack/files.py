"""Where a message's files are, and to whom the bot's token may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from lumia.errors import MediaError
from lumia.media import Place

from . import accounts
from .accounts import Account

_HOSTS = ("slack.com", "slack-gov.com")


def locate(item: Mapping[str, Any], msg: Mapping[str, Any]) -> Place:
    """Return where a file is; raises `MediaError` for one that Slack doesn't keep (a linked document, say)."""
    account = accounts.required(str(msg["account"]))
    url = str(item.get("url") or "")
    if not url:
        raise MediaError("Slack gives no address for this file; it is not a file of this workspace")
    if not is_slacks(url, account):
        raise MediaError(
            f"the file is at {urlsplit(url).hostname or 'no host'}, which is not Slack's; no token goes there"
        )
    own = urlsplit(account.api_url).hostname or ""
    allowed = (own,) if urlsplit(url).hostname == own else ()
    return Place(url, {"Authorization": f"Bearer {account.bot_token}"}, allowed)


def is_slacks(url: str, account: Account) -> bool:
    """Tell whether an address is Slack's own, or where `api_url` says that Slack is."""
    try:
        parts, api = urlsplit(url), urlsplit(account.api_url)
    except ValueError:
        return False
    host = (parts.hostname or "").rstrip(".")
    if (parts.scheme, parts.netloc) == (api.scheme, api.netloc):
        return True
    return parts.scheme == "https" and any(host == known or host.endswith(f".{known}") for known in _HOSTS)
