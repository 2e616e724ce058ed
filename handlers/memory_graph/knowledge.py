"""The knowledge base: files of the bot's operator, searched by meaning and by words, served with their source.

A file belongs to the whole bot (`Scope(bot)`) or to one chat. Everything slow is done before the one transaction that
puts a file in or replaces it, so a file is there as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import lumia

from . import scopes, texts
from .documents import Chunk, Document, KnowledgeError, chunks, shown
from .embedders import is_active
from .errors import EmbedderError
from .types import Calibration, Embedded, Embedder, Scope

if TYPE_CHECKING:
    import psycopg

    from .database import Database

BATCH = 16
_CANDIDATES = 40
_WORDS_COUNT = 0.4
"""How much shared words count beside the closeness of the vectors, which count the rest."""


@dataclass(frozen=True)
class Source:
    """A file in the knowledge base. added_at: seconds since 1970."""

    id: str
    scope: Scope
    name: str
    source: str
    kind: str
    bytes: int
    chunks: int
    added_at: float


@dataclass(frozen=True)
class Passage:
    """A chunk that was found, and where it stands. number: of `chunks` in its file; page: of a PDF."""

    text: str
    name: str
    document_id: str
    number: int
    chunks: int
    heading: str = ""
    page: int | None = None
    score: float = 0.0

    @property
    def cited(self) -> str:
        """Return where it stands: `guide.pdf, page 3` or `faq.md, Prices › Refunds`, and the chunk's number."""
        place = f", page {self.page}" if self.page else f", {self.heading}" if self.heading else ""
        return f"{self.name}{place} ({self.number}/{self.chunks})"


@dataclass(frozen=True)
class Added:
    """What became of a file: new, replaced (it had changed) or unchanged."""

    source: Source
    outcome: Literal["new", "replaced", "unchanged"]


def add(
    database: Database,
    embedder: Embedder,
    scope: Scope,
    document: Document,
    *,
    now: float,
    progress: Callable[[int, int], None] | None = None,
) -> Added:
    """Put a document in, or replace it when it has changed. progress: called with (chunks embedded, chunks).

    now: seconds since 1970. Raises `KnowledgeError`, `MemoryUnavailableError`, and what the embedder raises; then the
    knowledge base is as it was.
    """
    import psycopg

    from .database import explained

    with database.transaction() as connection:
        known = _of(connection, scope, document.source)
        embedder_id = database.embedder_id
        if known and _same(connection, known, document, embedder_id):
            return Added(known, "unchanged")
    parts = chunks(document)
    vectors: list[Embedded] = []
    for start in range(0, len(parts), BATCH):
        if progress:
            progress(start, len(parts))
        vectors.extend(embedder.passages([part.content for part in parts[start : start + BATCH]]))
    if progress:
        progress(len(parts), len(parts))
    source = Source(
        known.id if known else lumia.system.new_id(), scope, document.name, document.source, document.kind,
        document.bytes, len(parts), now,
    )  # fmt: skip
    try:
        with _unlimited(database) as connection, connection.transaction():
            # The lock first: a rebuild that ended meanwhile has put another model's vectors in the place of ours.
            connection.execute("LOCK TABLE memory_chunks IN ROW EXCLUSIVE MODE")
            if not is_active(connection, embedder_id):
                raise EmbedderError("the embedder was changed while the file was read; add it once more")
            source = _write(connection, source, document.hash, parts, vectors, embedder_id)
    except psycopg.Error as error:
        raise explained(error) from error
    return Added(source, "replaced" if known else "new")


def sources(connection: psycopg.Connection[Any], bot: str, chat: str | None = None) -> list[Source]:
    """Return the files of a bot by name; chat: only those of that scope, "" being the whole bot's."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM memory_documents d JOIN memory_scopes s ON s.id = d.scope_id "
        "WHERE s.bot = %s AND (%s::text IS NULL OR s.chat = %s) ORDER BY d.name, d.source, s.chat",
        (bot, chat, chat),
    )
    return [_source(row) for row in rows]


def remove(connection: psycopg.Connection[Any], bot: str, name: str, chat: str | None = None) -> Source:
    """Take out the one file with this name, path or id; raises `KnowledgeError` when there is none or more than one."""
    named = {shown(name), shown(Path(name).absolute())}
    found = [one for one in sources(connection, bot, chat) if named & {one.name, one.source, one.id}]
    if not found:
        raise KnowledgeError(f"no file {name!r} in the knowledge base; `lumia memory kb list` shows what there is")
    if len(found) > 1:
        ids = ", ".join(f"{one.id} ({one.source}{f' in {one.scope.chat}' if one.scope.chat else ''})" for one in found)
        raise KnowledgeError(f"{len(found)} files are named {name!r}; name one by its id: {ids}")
    connection.execute("DELETE FROM memory_documents WHERE id = %s", (found[0].id,))
    return found[0]


def search(
    connection: psycopg.Connection[Any],
    scope: Scope,
    query: str,
    vector: Embedded,
    *,
    top_k: int = 5,
    calibration: Calibration | None = None,
) -> list[Passage]:
    """Return the passages nearest to `query` that a reader in `scope` may see, best first.

    vector: of the query. The nearest 40 by vector are ranked anew with the words they share with the query.
    """
    visible = scopes.visible(connection, scope)
    if not visible or top_k < 1:
        return []
    # Filters come after the index scan, so it has to go on until enough rows have passed them.
    connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
    rows = connection.execute(
        "SELECT c.content, d.name, d.id, c.number, d.chunks, c.heading, c.page, 1 - (c.content_embedding <=> %s) "
        "FROM memory_chunks c JOIN memory_documents d ON d.id = c.document_id "
        "WHERE c.scope_id = ANY(%s) ORDER BY c.content_embedding <=> %s LIMIT %s",
        (vector, visible, vector, max(_CANDIDATES, top_k)),
    ).fetchall()
    found = _ranked(query, rows, calibration or Calibration())
    return sorted(found, key=lambda passage: (-passage.score, passage.document_id, passage.number))[:top_k]


def _ranked(query: str, rows: Sequence[Any], calibration: Calibration) -> list[Passage]:
    wanted = set(texts.query_terms(query))
    held = [set(texts.terms(row[0])) for row in rows]
    rarity = {term: 1.0 / (1 + sum(term in terms for terms in held)) for term in wanted}
    whole = sum(rarity.values()) or 1.0
    found = []
    for row, terms in zip(rows, held, strict=True):
        words = sum(rarity[term] for term in wanted & terms) / whole
        score = (1 - _WORDS_COUNT) * calibration.closeness(float(row[7])) + _WORDS_COUNT * words
        content, name, document_id, number, count, heading, page, _ = row
        text = content.removeprefix(f"{heading}\n") if heading else content
        found.append(Passage(text, name, document_id, number, count, heading, page, round(score, 4)))
    return found


_COLUMNS = "d.id, s.bot, s.chat, d.name, d.source, d.kind, d.bytes, d.chunks, extract(epoch FROM d.added_at)"


def _source(row: Sequence[Any]) -> Source:
    id, bot, chat, name, source, kind, size, count, added_at = row
    return Source(id, Scope(bot, chat), name, source, kind, size, count, float(added_at))


def _of(connection: psycopg.Connection[Any], scope: Scope, source: str) -> Source | None:
    return next((one for one in sources(connection, scope.bot, scope.chat) if one.source == source), None)


def _same(connection: psycopg.Connection[Any], known: Source, document: Document, embedder_id: int) -> bool:
    row = connection.execute(
        "SELECT d.hash, bool_and(c.embedder_id = %s) FROM memory_documents d JOIN memory_chunks c "
        "ON c.document_id = d.id WHERE d.id = %s GROUP BY d.hash",
        (embedder_id, known.id),
    ).fetchone()
    return row is not None and bytes(row[0]) == document.hash and bool(row[1])


def _unlimited(database: Database) -> Any:
    """Return a connection of its own: a large file takes longer to write than a message may."""
    from pgvector.psycopg import register_vector

    connection = database.connect()
    connection.execute("SET statement_timeout = 0")
    register_vector(connection)
    return connection


def _write(
    connection: psycopg.Connection[Any],
    source: Source,
    hash: bytes,
    parts: Sequence[Chunk],
    vectors: Sequence[Embedded],
    embedder_id: int,
) -> Source:
    scope_id = scopes.made(connection, [source.scope])[source.scope]
    row = connection.execute(
        "INSERT INTO memory_documents (id, scope_id, source, name, kind, hash, bytes, chunks, added_at) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (scope_id, source) DO UPDATE SET "
        "name = excluded.name, kind = excluded.kind, hash = excluded.hash, bytes = excluded.bytes, "
        "chunks = excluded.chunks, added_at = excluded.added_at RETURNING id",
        (
            source.id, scope_id, source.source, source.name, source.kind, hash, source.bytes, len(parts),
            datetime.fromtimestamp(source.added_at, UTC),
        ),
    ).fetchone()  # fmt: skip
    assert row is not None
    document_id = row[0]
    connection.execute("DELETE FROM memory_chunks WHERE document_id = %s", (document_id,))
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO memory_chunks (id, document_id, scope_id, number, heading, page, content, content_embedding, "
            "embedder_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (f"{document_id}-{part.number}", document_id, scope_id, part.number, part.heading, part.page,
                 part.content, vector, embedder_id)
                for part, vector in zip(parts, vectors, strict=True)
            ],
        )  # fmt: skip
    return replace(source, id=document_id)


__all__ = ["Added", "Document", "KnowledgeError", "Passage", "Source", "add", "remove", "search", "sources"]
