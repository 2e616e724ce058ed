"""Links that anybody may follow are kept sealed: a platform's files are at addresses with a signature in them.

Who reads the journal, a trace or a dead letter would otherwise get the file with it. Sealed with the bot's secret a
link is of use to the bot only (RFC 5297, AES-SIV: the same link is sealed the same way, so that a file is known again).
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lumia import runtime
from lumia.errors import MediaError
from lumia.secrets import HIDDEN, unsigned

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

_SEAL = "sealed:"
_FIELDS = ("url", "ref")
_DEEPEST = 100
_LONGEST = 4096
"""Characters that `lumia.payloads.Media` takes."""


def guarded(msg: dict[str, Any], raw: Any = None) -> tuple[dict[str, Any], Any]:
    """Return a `msg` payload and its raw twin as they may be kept: their links are of no use to who reads them.

    Links of `media` that are signed are sealed; those in `raw`, and in segments that aren't text, lose their signature.
    What people have written stays as it is.
    """
    media, segments = msg.get("media") or (), msg.get("segments") or ()
    kept: dict[str, Any] = {"media": [_guarded(item) for item in media]} if media else {}
    for one in segments:
        if one["type"] != "text":
            kept["segments"] = [one if one["type"] == "text" else unsigned_links(one) for one in segments]
            break
    return ({**msg, **kept} if kept else msg), unsigned_links(raw)


def link(item: Mapping[str, Any]) -> str:
    """Return where a file of a message is, "" when nobody said; raises `MediaError` for what another bot has sealed."""
    return opened(str(item.get("url") or ""))


def opened(text: str) -> str:
    """Return what was sealed, and any other text as it is."""
    if not text.startswith(_SEAL):
        return text
    from cryptography.exceptions import InvalidTag

    try:
        data = urlsafe_b64decode(text.removeprefix(_SEAL))
        return _cipher(runtime.current().secret).decrypt(data, None).decode()
    except (InvalidTag, ValueError):
        raise MediaError("its link was sealed with another bot's secret") from None


def is_sealed(text: Any) -> bool:
    """Tell whether a text is a sealed link."""
    return isinstance(text, str) and text.startswith(_SEAL)


def with_links(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of `media` with its links opened, for who fetches the file."""
    found = {name: opened(item[name]) for name in _FIELDS if is_sealed(item.get(name))}
    return {**item, **found} if found else item


def _guarded(item: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(item)
    for name in _FIELDS:
        text = found.get(name)
        if not isinstance(text, str) or unsigned(text) == text:
            continue
        sealed = _sealed(text)
        found[name] = sealed if len(sealed) <= _LONGEST else unsigned(text)
    return found


def unsigned_links(value: Any) -> Any:
    """Return JSON data with `***` for the signatures of links, as for events; the same object where there are none.

    What is nested deeper than 100 levels is `***` as a whole.
    """
    return _bare(value, _DEEPEST)


def _bare(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return unsigned(value)
    if type(value) is not dict and not isinstance(value, Mapping | list | tuple):
        return value
    if depth == 0:
        return HIDDEN
    changed = {}
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
        if item is None or (type(item) is str and "://" not in item):  # nearly all there is, in every message
            continue
        new = _bare(item, depth - 1)
        if new is not item:
            changed[key] = new
    if not changed:
        return value
    if isinstance(value, Mapping):
        return {**value, **changed}
    return [changed.get(n, item) for n, item in enumerate(value)]


def _sealed(text: str) -> str:
    data = _cipher(runtime.current().secret).encrypt(text.encode(), None)
    return _SEAL + urlsafe_b64encode(data).decode()


@lru_cache(maxsize=8)
def _cipher(secret: bytes) -> AESSIV:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    return AESSIV(hmac.digest(secret, b"lumia media link", hashlib.sha512))
