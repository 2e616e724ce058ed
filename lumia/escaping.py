"""Chat ids inside names: `-` and what could be read as a part of the name are escaped (DESIGN §10)."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from lumia.errors import PayloadError

_PLAIN = re.compile(r"[A-Za-z0-9_.~]+")


def escape_id(id: str) -> str:
    """Return `id` without `-`: ASCII other than letters, digits and `_.~`, and what is not printable, becomes `%XX`.

    `urllib.parse.unquote` undoes it, so `unquote(src.split('-')[1])` is the id again. Raises `PayloadError` for an
    empty id and for lone surrogates.
    """
    if _PLAIN.fullmatch(id):
        return id
    if not id or has_surrogate(id):
        raise PayloadError(f"a chat id is text of at least one character without lone surrogates, got {id!r}")
    return _escaped(id)


@lru_cache(maxsize=4096)
def _escaped(id: str) -> str:
    return "".join(char if _is_plain(char) else "".join(f"%{byte:02X}" for byte in char.encode()) for char in id)


def _is_plain(char: str) -> bool:
    return bool(_PLAIN.fullmatch(char)) if char.isascii() else char.isprintable()


def unescape_id(text: str) -> str:
    """Return the id that `escape_id` made `text` of."""
    return unquote(text, errors="strict")


def has_surrogate(text: str) -> bool:
    """Tell whether a text holds half a character, which UTF-8 has no form for."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)
