"""What is stored of a text: cleaned and cut, its hash to know the same text again, and the key of a topic's name."""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b

import lumia

MAX_CHARS = 20_000
"""Longer texts are cut, with a mark of how much is left out."""
MAX_NAME = 200
_SPACE = re.compile(r"\s+")
_SIGNS = re.compile(r"[^\w]+")
_DIGITS = re.compile(r"\d+")
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|neither|nor|without|cannot|kein\w*|nicht|nie|ne|pas|non|нет|не)\b|n['’]t\b"
    r"|[不没沒無无非未否别別]|ない|なかった|ません|않|아니|없|못",
    re.IGNORECASE,
)


def fitted(text: str, limit: int = MAX_CHARS) -> str:
    """Return `text` as it is stored: no NUL, no lone surrogates, no space around it, and at most about `limit` long."""
    whole = lumia.payloads.clean_text(text).strip()
    if len(whole) <= limit:
        return whole
    return f"{whole[:limit]} … [{len(whole) - limit} more characters]"


def hash_of(text: str) -> bytes:
    """Return 16 bytes that are equal for texts which differ in case, spaces, width and punctuation only."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    plain = " ".join(_SIGNS.sub(" ", folded).split()) or _SPACE.sub(" ", folded).strip()
    return blake2b(plain.encode("utf-8", "replace"), digest_size=16).digest()


def name_of(topic: str) -> str:
    """Return a topic's name on one line, at most `MAX_NAME` long; "" when nothing is left of it."""
    return _SPACE.sub(" ", lumia.payloads.clean_text(topic)).strip()[:MAX_NAME]


def key_of(name: str) -> str:
    """Return what makes two names one topic: case, width and runs of spaces don't matter."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", name).casefold()).strip()


def contradicts(one: str, other: str) -> bool:
    """Tell whether two alike texts may still say different things: other numbers, or one denies."""
    numbers = sorted(_DIGITS.findall(one)) != sorted(_DIGITS.findall(other))
    return numbers or len(_NEGATION.findall(one)) % 2 != len(_NEGATION.findall(other)) % 2
