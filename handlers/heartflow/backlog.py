"""Which chats have lines waiting for a summary: an index that forgets by itself.

A chat is noted under the quarter of an hour in which lines waited, in one of a few mappings, so a busy bot writes one
field per chat and quarter; a mark of the chat's own tells that it has. A tick reads the last quarters and deletes the
older ones; what nobody reads expires.
"""

from __future__ import annotations

import zlib

import lumia

STORE = lumia.store.of("heartflow")
QUARTER = 900
SHARDS = 8
LOOK_BACK = 8
"""Quarters a tick looks at: so long may the scheduler be away. A chat it misses is noted again with its next line."""
NOTED = "waiting"
"""Store key, scoped to the chat: the quarter under which it is noted."""
_KEPT = float(QUARTER * (LOOK_BACK + 2))


def note(scope: str) -> None:
    """Note that lines of a chat wait for a summary; commits with the step."""
    quarter = int(lumia.system.now() // QUARTER)
    if STORE.get(NOTED, scope=scope) != quarter:  # the mapping of a busy bot is long, and a step's reads are recorded
        STORE.set(NOTED, quarter, scope=scope, ttl=_KEPT)
        STORE.put(_key(quarter, zlib.crc32(scope.encode()) % SHARDS), scope, 1, ttl=_KEPT)


def take(due: float, most: int) -> list[str]:
    """Return the chats that were noted before the quarter of `due`; commits with the step.

    At most `most`, the longest waiting first; the others are noted anew. The last quarter is read again by the next
    tick: a step that was under way at the turn of the quarter commits its note late.
    """
    found: dict[str, None] = {}
    newest = int(due // QUARTER) - 1
    for quarter in range(newest - LOOK_BACK + 1, newest + 1):
        for shard in range(SHARDS):
            fields = STORE.fields(_key(quarter, shard))
            found |= dict.fromkeys(sorted(fields))
            if fields and quarter < newest:
                STORE.delete(_key(quarter, shard))
    for scope in list(found)[most:]:
        note(scope)
    return list(found)[:most]


def _key(quarter: int, shard: int) -> str:
    return f"waiting:{quarter}:{shard}"
