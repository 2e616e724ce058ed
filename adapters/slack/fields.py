"""Reading what somebody else has written: nothing is where it should be until it was looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from lumia.payloads import clean_text

_HIDDEN = frozenset({"token", "response_url", "response_urls", "trigger_id"})


def text_at(values: Mapping[str, Any], name: str) -> str:
    """Return a text, "" where there is none."""
    value = values.get(name)
    return _clean(value) if isinstance(value, str) else ""


def as_dict(value: Any) -> Mapping[str, Any]:
    """Return a mapping, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


def without_secrets(value: Any) -> Any:
    """Return a copy without what is secret or worth nothing later: the old verification token, response addresses."""
    if isinstance(value, Mapping):
        return {_clean(str(key)): without_secrets(item) for key, item in value.items() if key not in _HIDDEN}
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    """Return what `clean_text` does; most texts of an event are plain ids, of which there are many."""
    return text if text.isascii() and "\x00" not in text else clean_text(text)


def digest(text: str) -> str:
    """Return 24 characters that stand for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
