"""Run ids: 22 characters, sorted by time, free of look-alikes (Crockford base 32); and which runs are chat messages."""

from __future__ import annotations

import hashlib

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME, _REST = 10, 12
LENGTH = _TIME + _REST
MESSAGE = "msg"
"""The pipeline that messages take."""
MEDIA = f"{MESSAGE}.media."
"""What the event of a message begins with whose files are fetched first; that starts the pipeline (docs/media.md)."""


def is_message(id: str) -> bool:
    """Tell whether a run of this id holds a chat message to be answered, be it one whose files are fetched first."""
    return id == MESSAGE or id.startswith(MEDIA)


_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


def _base32(number: int) -> str:
    """Return the last 60 bits of a number as `_REST` characters."""
    pairs = _PAIRS
    return (
        pairs[number >> 50 & 1023] + pairs[number >> 40 & 1023] + pairs[number >> 30 & 1023]
        + pairs[number >> 20 & 1023] + pairs[number >> 10 & 1023] + pairs[number & 1023]
    )  # fmt: skip


_latest = (0, "0" * _TIME)


def timed_id(seconds: float, noise: int) -> str:
    """Return an id for a moment (seconds since 1970) with 60 bits of `noise`; ids sort by millisecond."""
    global _latest
    ms, (known, head) = int(seconds * 1000), _latest
    if ms != known:
        head = _base32(ms)[_REST - _TIME :]
        _latest = (ms, head)
    return head + _base32(noise)


def child_id(run_id: str, step: int, ordinal: int | str) -> str:
    """Return the id of what step `step` of `run_id` starts as number `ordinal`; a retry makes the same id."""
    digest = hashlib.sha256(f"{run_id}/{step}/{ordinal}".encode()).digest()
    return run_id[:_TIME] + _base32(int.from_bytes(digest[:8], "big"))


def fired_id(schedule: str, due: float) -> str:
    """Return the id of a schedule's run that is due at `due` (seconds since 1970), the same for every beat."""
    digest = hashlib.sha256(f"{schedule}@{int(due)}".encode()).digest()
    return timed_id(due, int.from_bytes(digest[:8], "big"))


def is_beginning(text: str) -> bool:
    """Tell whether an id can begin with `text`, or be it."""
    return 0 < len(text) <= LENGTH and all(letter in _ALPHABET for letter in text)


def id_time(run_id: str) -> float:
    """Return when an id was made, in seconds since 1970 to the millisecond; a child's is that of its root.

    Of the beginning of an id it is the earliest time it can stand for; 0 for a text that begins no id.
    """
    head = run_id[:_TIME].ljust(_TIME, "0")
    if not run_id or any(letter not in _ALPHABET for letter in head):
        return 0.0
    number = 0
    for letter in head:
        number = number * 32 + _ALPHABET.index(letter)
    return number / 1000
