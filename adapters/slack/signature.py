"""Whether a request comes from Slack (docs.slack.dev, "Verifying requests from Slack")."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

TIMESTAMP, SIGNATURE = "x-slack-request-timestamp", "x-slack-signature"
WINDOW = 300
"""Seconds that a request's time may differ from ours, so that a recorded request is worth nothing later."""
_SECONDS = re.compile(r"[0-9]{1,12}")


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a raw body: `v0=` and the HMAC-SHA256 of `v0:<timestamp>:<body>` in hex."""
    signed = b"v0:" + timestamp.encode("utf-8", "replace") + b":" + body
    return "v0=" + hmac.new(secret.encode("utf-8", "replace"), signed, hashlib.sha256).hexdigest()


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Tell, in constant time, whether headers (lower-case names) prove that Slack sent `body` just now.

    now: seconds since 1970. Nothing is proven by an empty secret or a time that is no number.
    """
    timestamp, given = headers.get(TIMESTAMP, ""), headers.get(SIGNATURE, "")
    wanted = signature(secret, timestamp, body)
    same = hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
    return same and bool(secret) and _is_near(timestamp, now)


def _is_near(timestamp: str, now: float) -> bool:
    return _SECONDS.fullmatch(timestamp) is not None and abs(now - int(timestamp)) <= WINDOW
