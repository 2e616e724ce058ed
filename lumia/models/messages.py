"""What goes to a model: messages checked and cleaned, and texts in which no key may appear."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lumia.errors import ModelError

MESSAGE_ROLES = ("user", "assistant", "system")
NAME_LIMIT = 64
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
_KEY_LIKE = r"(?i)\b(?:sk|pk|gsk|xai|hf)[-_][A-Za-z0-9_*.-]{8,}|(?<=bearer )[^\s'\",}]+|(?<=://)[^/@\s]+(?=@)"
_HIDDEN = "[key hidden]"


@dataclass(frozen=True)
class Message:
    """One line of a chat: who wrote it (`role`, and `name` in a group) and its text."""

    role: str
    content: str
    name: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"role": self.role, "content": self.content, **({"name": self.name} if self.name else {})}


@dataclass(frozen=True)
class Request:
    """One chat request, checked and cleaned: everything a provider or the offline model needs."""

    role: str
    messages: tuple[Message, ...]
    system: str | None = None
    output_type: Any = str
    settings: Mapping[str, Any] | None = None


def clean(text: str) -> str:
    """Return `text` without NUL and without lone surrogates, which neither JSON servers nor Postgres accept."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "")


def read_messages(messages: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Check and clean `messages`; raise `ModelError` naming the first one that isn't a message."""
    return tuple(_message(index, raw) for index, raw in enumerate(messages))


def _message(index: int, raw: Mapping[str, Any]) -> Message:
    if not isinstance(raw, Mapping):
        raise ModelError(f'messages[{index}] is a {type(raw).__name__}; write {{"role": "user", "content": "…"}}')
    role, content, name = raw.get("role"), raw.get("content"), raw.get("name")
    if role not in MESSAGE_ROLES:
        raise ModelError(f"messages[{index}]: role is {role!r}; it must be one of {', '.join(MESSAGE_ROLES)}")
    if not isinstance(content, str):
        raise ModelError(f"messages[{index}]: content is {type(content).__name__}; it must be a string")
    return Message(role, clean(content), _name(name))


def _name(raw: object) -> str | None:
    """One line, so a nickname can't imitate another message."""
    return _CONTROL.sub(" ", clean(raw)).strip()[:NAME_LIMIT] or None if isinstance(raw, str) else None


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Return `text` with every one of `secrets`, and whatever looks like a key, replaced."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return re.sub(_KEY_LIKE, _HIDDEN, text)
