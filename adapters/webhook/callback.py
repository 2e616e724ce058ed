"""Posting a reply to a callback: one signed request to a judged address, no redirects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import lumia

SECONDS = 20.0
"""How long a callback may take, until the head of its answer."""


class CallbackError(lumia.errors.LumiaError):
    """A callback was not taken; the delivery is tried again."""


class NobodyThereError(CallbackError, lumia.errors.UnreachableError):
    """A callback surely got nothing; the delivery is tried again."""


def places(allowed: Sequence[str]) -> lumia.outside.Places:
    """Return where callbacks of a source may go: outside, and to what its allow-list adds (DESIGN §9)."""
    return lumia.outside.Places(
        allowed=tuple(allowed),
        what="callback_url",
        way_out="add it to callback_hosts of the source in config/webhook.toml to allow it",
    )


def post(url: str, data: bytes, headers: Mapping[str, str], allowed: Sequence[str]) -> int:
    """Post `data` and return the status, which is 2xx.

    Raises `CallbackError` when nobody took it, `lumia.errors.RetryAfterError` when it is to come later,
    `lumia.errors.PayloadError` when it may not go there.
    """
    try:
        call = lumia.outside.ask("POST", url, places=places(allowed), headers=headers, content=data, seconds=SECONDS)
        with call as answer:
            if 200 <= answer.status < 300:
                return answer.status
            if answer.status in (429, 503) and answer.headers.get("retry-after", "").isdecimal():
                raise lumia.errors.RetryAfterError(
                    f"the callback answered {answer.phrase}", wait=float(answer.headers["retry-after"])
                )
            raise CallbackError(f"the callback answered {answer.phrase}, expected 2xx; redirects are not followed")
    except lumia.errors.OutsideError as error:
        kind = CallbackError if error.sent else NobodyThereError
        raise kind(f"the callback failed: {error}") from error
