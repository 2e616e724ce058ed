"""The neighbourhood of a topic, ready to be drawn: what it is associated with, and what that is associated with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import drawing, operations, reading, scopes
from .drawing import Line, Node
from .operations import UnknownError
from .types import Instance, Scope, Topic

if TYPE_CHECKING:
    import psycopg

_NEAR, _BEHIND = 14, 30


def drawn(connection: psycopg.Connection[Any], scope: Scope, name: str, *, page: bool, now: float) -> str:
    """Return the drawing of a topic's neighbourhood, as SVG or as an HTML page with what was said about it.

    Raises `UnknownError` for a topic that a reader in `scope` does not know.
    """
    topic = reading.topic_named(connection, scope, name, now=now)
    if topic is None:
        raise UnknownError(
            f"no topic {name!r} here; `lumia memory query {name}` shows what is near, --group another chat"
        )
    nodes, lines = _around(connection, topic, scopes.visible(connection, scope), now)
    title = f"{topic.name}: {len(nodes) - 1} topics near"
    picture = drawing.svg(nodes, lines, title=title)
    if not page:
        return picture
    said = [_told(one) for one in reading.of_topic(connection, scope, topic.id, limit=30)]
    return drawing.html(picture, title, said)


def _around(
    connection: psycopg.Connection[Any], topic: Topic, visible: list[int], now: float
) -> tuple[list[Node], list[Line]]:
    near = operations.edges(connection, [topic.id], now=now, limit=_NEAR)
    ids = [edge.target for edge in near]
    behind = [edge for edge in operations.edges(connection, ids, now=now, limit=200) if edge.target != topic.id]
    strengths = _strengths(connection, [topic.id, *ids, *(edge.target for edge in behind)], visible, now)
    nodes = {topic.id: Node(topic.id, topic.name, 0, "", topic.strength)}
    for edge in near:
        if edge.target in strengths:
            nodes.setdefault(edge.target, Node(edge.target, edge.name, 1, topic.id, strengths[edge.target]))
    for edge in behind:
        if edge.target in strengths and edge.source in nodes and len(nodes) <= len(near) + _BEHIND:
            nodes.setdefault(edge.target, Node(edge.target, edge.name, 2, edge.source, strengths[edge.target]))
    lines = {
        (*sorted((edge.source, edge.target)), edge.type): Line(edge.source, edge.target, edge.weight, edge.type)
        for edge in (*near, *behind)
        if edge.source in nodes and edge.target in nodes
    }
    return list(nodes.values()), list(lines.values())


def _strengths(
    connection: psycopg.Connection[Any], ids: list[str], visible: list[int], now: float
) -> dict[str, float]:  # fmt: skip
    from .decay import sql_strength

    rows = connection.execute(
        f"SELECT t.id, {sql_strength('t')} FROM memory_topics t WHERE t.id = ANY(%(ids)s) "
        "AND t.scope_id = ANY(%(scopes)s)",
        {"ids": ids, "scopes": visible, "now": now},
    )
    return dict(rows.fetchall())


def _told(one: Instance) -> str:
    from datetime import UTC, datetime

    who = one.sender_name or one.sender or ("the bot" if one.kind == "reply" else one.kind)
    return f"{datetime.fromtimestamp(one.created_at, UTC):%Y-%m-%d} {who}: {one.content}"
