"""Dead letters in Redis: `dead` is their names by time, `dl` their content; dead.lua starts or drops one."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from lumia.dead import DeadFilter, DeadLetter

AT_ONCE = 100
Ask = Callable[..., Any]


def packed(letter: DeadLetter) -> str:
    """Return a letter's JSON text."""
    return json.dumps(letter.as_dict(), separators=(",", ":"))


def read(ask: Ask, prefix: str, wanted: DeadFilter) -> list[DeadLetter]:
    """Return the letters that are wanted, newest first; `ask` sends a Redis command."""
    names = [name for name in _names(ask, prefix, wanted) if wanted.names(name.decode())]
    return list(islice(filter(wanted.matches, _letters(ask, prefix, names)), wanted.limit))


def _names(ask: Ask, prefix: str, wanted: DeadFilter) -> Sequence[bytes]:
    # The set's scores are Redis' own time, a letter's time its worker's: a minute between them is no reason to miss it.
    until = "+inf" if wanted.until == math.inf else (wanted.until + 60) * 1000
    found: Sequence[bytes] = ask("zrevrangebyscore", f"{prefix}dead", until, max(0.0, wanted.since - 60) * 1000)
    return found


def _letters(ask: Ask, prefix: str, names: Sequence[bytes]) -> Iterator[DeadLetter]:
    for first in range(0, len(names), AT_ONCE):
        for text in ask("hmget", f"{prefix}dl", names[first : first + AT_ONCE]):
            if text:
                yield DeadLetter.from_dict(json.loads(text))


def call_id() -> str:
    """Return an id of one call, by which it is known when it is sent again."""
    return secrets.token_hex(8)
