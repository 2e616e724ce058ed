"""Scopes: the number of each in the database, and which ones a reader may see.

Every read filters by scope in SQL. A chat sees itself and what belongs to the whole bot (`Scope(bot)`), never another
chat. Writers lock the row of their scope first, in the order of the numbers, so they can't wait for each other in a
circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .types import Scope

if TYPE_CHECKING:
    import psycopg


def ids(connection: psycopg.Connection[Any], scopes: Iterable[Scope]) -> dict[Scope, int]:
    """Return the numbers of those `scopes` that exist."""
    wanted = sorted(set(scopes))
    rows = connection.execute(
        "SELECT s.bot, s.chat, s.id FROM memory_scopes s "
        "JOIN unnest(%s::text[], %s::text[]) AS w (bot, chat) USING (bot, chat)",
        ([one.bot for one in wanted], [one.chat for one in wanted]),
    )
    return {Scope(bot, chat): number for bot, chat, number in rows}


def visible(connection: psycopg.Connection[Any], scope: Scope) -> list[int]:
    """Return the numbers of the scopes a reader in `scope` may see, if they exist: its own and the whole bot's."""
    return sorted(ids(connection, {scope, Scope(scope.bot)}).values())


def made(connection: psycopg.Connection[Any], scopes: Iterable[Scope]) -> dict[Scope, int]:
    """Return the numbers of all `scopes`, which are made when they don't exist."""
    wanted = sorted(set(scopes))
    found = ids(connection, wanted)
    if missing := [one for one in wanted if one not in found]:
        connection.execute(
            "INSERT INTO memory_scopes (bot, chat) SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT DO NOTHING",
            ([one.bot for one in missing], [one.chat for one in missing]),
        )
        found |= ids(connection, missing)
    return found


def locked(connection: psycopg.Connection[Any], numbers: Sequence[int]) -> dict[int, int]:
    """Lock the scopes with these numbers until the transaction ends; returns the next `seq` of each."""
    rows = connection.execute(
        "SELECT id, next_seq FROM memory_scopes WHERE id = ANY(%s) ORDER BY id FOR UPDATE", (sorted(set(numbers)),)
    )
    return dict(rows.fetchall())
