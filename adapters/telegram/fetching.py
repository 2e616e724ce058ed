"""Getting the files of a message: getFile, then the download (Bot API: up to 20 MB, the link holds an hour)."""

from __future__ import annotations

from typing import Any

import lumia

from . import accounts, api
from .content import MAX_FILE


def locate(item: dict[str, Any], msg: dict[str, Any]) -> bytes:
    """Return a file's bytes. The address of a file holds the bot's token, so nobody else gets to see it."""
    if (item.get("size") or 0) > MAX_FILE:
        raise lumia.errors.MediaError("larger than the 20 MB that Telegram's bots may fetch")
    account = accounts.required(msg["account"])
    try:
        return api.download(account, str(item["ref"]), MAX_FILE)
    except api.ApiError as error:
        if error.code == 429:
            raise lumia.errors.RetryAfterError(str(error), wait=max(1.0, error.retry_after)) from None
        raise lumia.errors.MediaError(str(error)) from None
    except (api.NoAnswerError, api.OutcomeError) as error:
        raise lumia.errors.UnreachableError(str(error)) from None
