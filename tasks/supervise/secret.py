"""Passwords of the bot's own servers, derived from the bot's secret so that no second secret needs keeping."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from lumia.secrets import load_secret


def password(root: Path, server: str) -> str:
    """Return the password of one server of this bot, 40 hex digits; `SecretError` when the secret is unusable."""
    return hmac.new(load_secret(root), f"lumia {server} password".encode(), hashlib.sha256).hexdigest()[:40]
