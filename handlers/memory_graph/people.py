"""People and what they are to each other: names with their history, relations with type, weight and every change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lumia

from . import graph, scopes
from .content import key_of, name_of
from .types import RELATION, SELF, Observed, Origin, Scope

if TYPE_CHECKING:
    import psycopg

KEPT_NAMES = 20
_SHOWN = 5
_SEEN = """
INSERT INTO memory_people AS p (scope_id, person, name, messages, first_seen, last_seen)
SELECT scope_id, person, name, messages, to_timestamp(first), to_timestamp(last)
FROM unnest(%s::int[], %s::text[], %s::text[], %s::bigint[], %s::float8[], %s::float8[])
    AS w (scope_id, person, name, messages, first, last) ORDER BY scope_id, person
ON CONFLICT (scope_id, person) DO UPDATE SET
    names = CASE WHEN p.name IN ('', excluded.name) OR excluded.name = '' OR excluded.last_seen < p.last_seen
        THEN p.names
        ELSE (CASE WHEN jsonb_array_length(p.names) >= %s THEN p.names - 0 ELSE p.names END) || jsonb_build_array(
            jsonb_build_object('name', p.name, 'until', extract(epoch FROM excluded.last_seen)::float8)) END,
    name = CASE WHEN excluded.name = '' OR (p.name <> '' AND excluded.last_seen < p.last_seen)
        THEN p.name ELSE excluded.name END,
    messages = p.messages + excluded.messages,
    first_seen = least(p.first_seen, excluded.first_seen),
    last_seen = greatest(p.last_seen, excluded.last_seen)
"""
_RELATE = """
INSERT INTO memory_relations AS r (id, scope_id, from_person, to_person, type, weight, changes, created_at, changed_at)
VALUES (%(id)s, %(scope)s, %(from)s, %(to)s, %(type)s, least(1, greatest(0, %(delta)s::float8)), 1,
        to_timestamp(%(now)s), to_timestamp(%(now)s))
ON CONFLICT (scope_id, from_person, to_person, type) DO UPDATE SET
    weight = least(1, greatest(0, r.weight + %(delta)s)), changes = r.changes + 1,
    changed_at = greatest(r.changed_at, excluded.changed_at)
RETURNING id, weight, changes
"""
_RELATIONS = """
SELECT r.id, s.chat, r.from_person, r.to_person, r.type, r.weight, r.changes,
    extract(epoch FROM r.created_at)::float8, extract(epoch FROM r.changed_at)::float8,
    coalesce(a.name, ''), coalesce(b.name, '')
FROM memory_relations r JOIN memory_scopes s ON s.id = r.scope_id
LEFT JOIN memory_people a ON (a.scope_id, a.person) = (r.scope_id, r.from_person)
LEFT JOIN memory_people b ON (b.scope_id, b.person) = (r.scope_id, r.to_person)
WHERE r.scope_id = ANY(%s) AND (r.from_person = %s OR r.to_person = %s)
ORDER BY r.weight DESC, r.changed_at DESC, r.id
"""


@dataclass(frozen=True)
class Change:
    """One step in the history of a relation; at: seconds since 1970, weight: after it."""

    at: float
    delta: float
    weight: float
    run_id: str


@dataclass(frozen=True)
class Relation:
    """What one person is to another; weight in [0, 1], times in seconds since 1970."""

    id: str
    from_person: str
    to_person: str
    type: str
    weight: float
    changes: int
    created_at: float
    changed_at: float
    from_name: str = ""
    to_name: str = ""


@dataclass(frozen=True)
class Profile:
    """Who somebody is in a scope. summary: one line for a prompt (spec §12.4 `relation_summary`), "" for a stranger."""

    person: str
    name: str = ""
    earlier_names: tuple[str, ...] = ()
    messages: int = 0
    first_seen: float | None = None
    last_seen: float | None = None
    relations: tuple[Relation, ...] = ()
    summary: str = field(default="", compare=False)


def person_of(sender_id: str) -> str:
    """Return the person a platform's id stands for: `SELF` is the bot, whoever else is called so gets a mark."""
    return f"~{sender_id}" if sender_id.lstrip("~") == SELF else sender_id


def sender_of(person: str) -> str:
    """Return the platform's id of a person; the inverse of `person_of`."""
    return person[1:] if person.startswith("~") and person.lstrip("~") == SELF else person


def seen(connection: psycopg.Connection[Any], said: Sequence[tuple[int, Observed, float]]) -> None:
    """Count what people said: (number of the scope, message, seconds since 1970); the scopes are locked."""
    found: dict[tuple[int, str], list[Any]] = {}
    for scope_id, message, at in said:
        if not message.sender or message.kind != "message":
            continue
        one = found.setdefault((scope_id, message.sender), ["", 0, at, at])
        if (message.sender_name and at >= one[3]) or not one[0]:
            one[0] = name_of(message.sender_name)
        one[1:] = [one[1] + 1, min(one[2], at), max(one[3], at)]
    if found:
        keys = sorted(found)
        columns = ([found[key][part] for key in keys] for part in range(4))
        values = ([scope for scope, _ in keys], [person for _, person in keys], *columns, KEPT_NAMES)
        connection.execute(_SEEN, values)


def relate(
    connection: psycopg.Connection[Any],
    scope: Scope,
    source: str,
    target: str,
    type: str,
    delta: float,
    *,
    origin: Origin,
    now: float,
) -> float | None:
    """Change a relation by `delta` and note it in its history; returns the new weight, None when it was made before.

    Where both people are topics of the scope, the relation is an edge between them as well.
    """
    from .writing import claim  # which counts people when it writes what they said

    scope_id = scopes.made(connection, [scope])[scope]
    scopes.locked(connection, [scope_id])
    id = lumia.system.new_id()
    if claim(connection, [(origin, "relation", scope_id, id)], now) != [id]:
        return None
    values = {"id": id, "scope": scope_id, "from": source, "to": target, "type": name_of(type)[:64], "delta": delta}
    row = connection.execute(_RELATE, {**values, "now": now}).fetchone()
    assert row is not None
    relation_id, weight, changes = row
    connection.execute(
        "INSERT INTO memory_relation_changes (relation_id, ordinal, at, delta, weight, run_id) "
        "VALUES (%s, %s, to_timestamp(%s), %s, %s, %s)",
        (relation_id, changes, now, delta, weight, origin.learned_in or origin.run_id),
    )
    if delta > 0:
        _link(connection, scope_id, source, target, delta, now)
    return float(weight)


def _link(
    connection: psycopg.Connection[Any], scope_id: int, source: str, target: str, delta: float, now: float
) -> None:
    rows = connection.execute(
        "SELECT name FROM memory_people WHERE scope_id = %s AND person = ANY(%s) AND name <> ''",
        (scope_id, [source, target]),
    ).fetchall()
    keys = sorted({(scope_id, key_of(name)) for (name,) in rows})
    found = sorted(graph.ids_of(connection, keys).values())
    if len(found) == 2:
        graph.link(connection, [(found[0], found[1], delta)], now=now, edge_type=RELATION)


def relations(connection: psycopg.Connection[Any], scope: Scope, person: str) -> list[Relation]:
    """Return what `person` is to others and others to them, strongest first, as a reader in `scope` may see it."""
    visible = scopes.visible(connection, scope)
    rows = connection.execute(_RELATIONS, (visible, person, person))
    return [Relation(row[0], *row[2:]) for row in rows]


def history(connection: psycopg.Connection[Any], scope: Scope, relation_id: str) -> list[Change]:
    """Return how a relation came to be, oldest first; nothing when it isn't visible in `scope`."""
    rows = connection.execute(
        "SELECT extract(epoch FROM c.at)::float8, c.delta, c.weight, c.run_id FROM memory_relation_changes c "
        "JOIN memory_relations r ON r.id = c.relation_id "
        "WHERE r.id = %s AND r.scope_id = ANY(%s) ORDER BY c.ordinal",
        (relation_id, scopes.visible(connection, scope)),
    )
    return [Change(*row) for row in rows]


def profile(connection: psycopg.Connection[Any], scope: Scope, person: str, *, now: float) -> Profile:
    """Return who `person` is in `scope` and how they relate; an unknown one has a profile without content."""
    number = scopes.ids(connection, [scope]).get(scope, -1)
    row = connection.execute(
        "SELECT name, names, messages, extract(epoch FROM first_seen)::float8, extract(epoch FROM last_seen)::float8 "
        "FROM memory_people WHERE scope_id = %s AND person = %s",
        (number, person),
    ).fetchone()
    found = tuple(relations(connection, scope, person))
    if row is None:
        return Profile(person, relations=found, summary=_relations_line(person, found))
    name, names, messages, first, last = row
    earlier = tuple(dict.fromkeys(one["name"] for one in reversed(names) if one["name"] != name))
    summary = " ".join(filter(None, (_person_line(name or person, earlier, messages, first, last, now),
                                     _relations_line(person, found))))  # fmt: skip
    return Profile(person, name, earlier, messages, first, last, found, summary)


def _person_line(
    name: str, earlier: Sequence[str], messages: int, first: float, last: float, now: float
) -> str:  # fmt: skip
    called = f" (earlier {', '.join(earlier[:3])})" if earlier else ""
    count = f"{messages} message{'' if messages == 1 else 's'}"
    return f"{name}{called}: {count} here, known since {_day(first)}, last heard {_ago(now - last)}."


def _relations_line(person: str, found: Sequence[Relation]) -> str:
    if not found:
        return ""
    parts = [_relation(person, one) for one in found[:_SHOWN]]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"Relations: {'; '.join(parts)}{more}."


def _relation(person: str, one: Relation) -> str:
    if one.from_person == person:
        return f"{one.type} of {_called(one.to_person, one.to_name)} ({one.weight:.2f})"
    return f"{_called(one.from_person, one.from_name)} is {one.type} of them ({one.weight:.2f})"


def _called(person: str, name: str) -> str:
    return "the bot" if person == SELF else name or person


def _day(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _ago(seconds: float) -> str:
    for size, unit in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def names_of(connection: psycopg.Connection[Any], bot: str, person: str) -> tuple[str, ...]:
    """Return what `person` is and was called in any chat of a bot."""
    rows = connection.execute(
        "SELECT p.name, p.names FROM memory_people p JOIN memory_scopes s ON s.id = p.scope_id "
        "WHERE s.bot = %s AND p.person = %s",
        (bot, person),
    )
    found = {called for name, earlier in rows for called in (name, *(one["name"] for one in earlier))}
    return tuple(sorted(found - {""}))


def names(connection: psycopg.Connection[Any], scope: Scope, *, limit: int = 1000) -> Mapping[str, str]:
    """Return person → name of the people of `scope` itself, those heard last first."""
    number = scopes.ids(connection, [scope]).get(scope, -1)
    rows = connection.execute(
        "SELECT person, name FROM memory_people WHERE scope_id = %s ORDER BY last_seen DESC, person LIMIT %s",
        (number, limit),
    )
    return dict(rows.fetchall())
