"""Carrying a memory to another machine: every row as a line of JSON, vectors as base64 of little-endian float32.

The first line tells format, model and dimension. Rows refer to their scope by bot and chat, since its number is
another one there. Importing again changes nothing; what is there under another id (a topic of the same name, the same
message, relation or file) stays as it is and takes what hung on the other. Reading takes one snapshot; writing goes in
transactions of some hundred rows and can be begun again after any of them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import lumia

from . import scopes
from .errors import EmbedderError
from .types import RELATION, Scope
from .writing import check_vectors

if TYPE_CHECKING:
    import psycopg
    from numpy.typing import NDArray

    from .database import Database
    from .types import Embedded

FORMAT = "lumia-memory"
VERSION = 1
_CHUNK = 200


class ExchangeError(lumia.errors.ExportError):
    """The lines are not an exported memory, or are damaged; names the line."""


@dataclass(frozen=True)
class Table:
    """A table that is carried. order: of its rows in the file. vector, text: of its embedding, and what it embeds.

    refers: columns that hold ids, and of which table. twin: columns that make two rows the same whatever their ids.
    part_of: the column whose row it is a part of: that of a twin has parts of its own. left: columns made anew by the
    other database.
    """

    name: str
    order: str
    vector: str = ""
    text: str = ""
    refers: Mapping[str, str] = field(default_factory=dict)
    twin: tuple[str, ...] = ()
    part_of: str = ""
    left: tuple[str, ...] = ()


_TOPICS, _INSTANCES = "memory_topics", "memory_instances"
TABLES = (
    Table(_TOPICS, "id", "topic_embedding", "topic_name", twin=("scope_id", "name_key"), left=("embedder_id",)),
    Table(_INSTANCES, "scope_id, seq, id", "content_embedding", "content", {"topic_id": _TOPICS},
          ("scope_id", "kind", "source"), left=("embedder_id", "number", "sender")),
    Table("memory_mentions", "topic_id, instance_id", refers={"topic_id": _TOPICS, "instance_id": _INSTANCES}),
    Table("topic_edges", "id", refers={"from_topic": _TOPICS, "to_topic": _TOPICS}),
    Table("memory_people", "scope_id, person"),
    Table("memory_relations", "id", twin=("scope_id", "from_person", "to_person", "type")),
    Table("memory_relation_changes", "relation_id, ordinal", refers={"relation_id": "memory_relations"},
          part_of="relation_id"),
    Table("memory_writes", "run_id, step, ordinal"),
    Table("memory_documents", "id", twin=("scope_id", "source")),
    Table("memory_chunks", "document_id, number", "content_embedding", "content",
          {"document_id": "memory_documents"}, part_of="document_id", left=("embedder_id",)),
    Table("memory_recycled", "id", left=("id",)),
)  # fmt: skip
"""In the order in which rows may refer to each other."""
_OWN = {
    "memory_mentions": "topic_id IN (SELECT id FROM memory_topics WHERE scope_id = ANY(%(scopes)s))",
    "topic_edges": "from_topic IN (SELECT id FROM memory_topics WHERE scope_id = ANY(%(scopes)s))",
    "memory_relation_changes": "relation_id IN (SELECT id FROM memory_relations WHERE scope_id = ANY(%(scopes)s))",
}
_TOTALS = """
UPDATE memory_scopes SET instances = instances + 1, tokens = tokens + %s, next_seq = greatest(next_seq, %s)
WHERE id = %s
"""
_TERMS = "(SELECT jsonb_object_agg(term, tf) FROM memory_terms x WHERE x.number = r.number)"


@dataclass
class Imported:
    """How many rows were new, and how many were there before, by table."""

    new: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)


def export(database: Database, bot: str = "") -> Iterator[str]:
    """Yield the lines of a bot's memory, or of all bots' in the database; raises what `Database.transaction` raises."""
    import psycopg

    from .database import explained, register

    database.prepare()
    connection = database.connect()
    try:
        register(connection)
        connection.execute("SET statement_timeout = 0")
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield _line({"format": FORMAT, "version": VERSION, "model": database.model,
                         "dimension": database.dimension, "embedder": database.embedder_id})  # fmt: skip
            rows = connection.execute("SELECT id, bot, chat FROM memory_scopes WHERE %s IN ('', bot)", (bot,))
            known = {id: (owner, chat) for id, owner, chat in rows}
            for table in TABLES:
                yield from _rows(connection, table, known)
    except psycopg.Error as error:
        raise explained(error) from error
    finally:
        connection.close()


def import_lines(
    database: Database,
    lines: Iterable[str],
    *,
    passages: Callable[[Sequence[str]], NDArray[Any]] | None = None,
    bot: str = "",
) -> Imported:
    """Write exported lines into the database, those of rows it has already excepted; returns what was new.

    passages: embeds the texts anew when the file comes from another model. bot: whose memory they become. Raises
    `ExchangeError` for what is no export, `EmbedderError` for another model without `passages`, and what
    `Database.transaction` raises.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    head = _header(next(numbered, (1, "")))
    same = (head["model"], head["dimension"]) == (database.model, database.dimension)
    if not same and passages is None:
        raise EmbedderError(
            f"the file holds vectors of {head['model']} ({head['dimension']} numbers), this memory those of "
            f"{database.model} ({database.dimension}); import it with its texts embedded anew (--reembed), or "
            "configure that model"
        )
    writer = _Writer(database, None if same else passages, bot, head.get("embedder"))
    while chunk := list(islice(numbered, _CHUNK)):
        writer.write([_parsed(number, line) for number, line in chunk])
    return writer.done


def _rows(connection: psycopg.Connection[Any], table: Table, known: Mapping[int, tuple[str, str]]) -> Iterator[str]:
    if not _columns(connection, table.name):
        return
    terms = f" || jsonb_build_object('terms', {_TERMS})" if table.name == "memory_instances" else ""
    shown = f"to_jsonb(r) - %(hidden)s::text[]{terms}"
    vector = f"r.{table.vector}" if table.vector else "NULL"
    which = _OWN.get(table.name, "scope_id = ANY(%(scopes)s)")
    hidden = [*table.left, *([table.vector, f"{table.vector}_next"] if table.vector else [])]  # the second of a rebuild
    values = {"hidden": hidden, "scopes": list(known)}
    with connection.cursor(name=f"export_{table.name}") as cursor:
        cursor.itersize = _CHUNK
        cursor.execute(f"SELECT {shown}, {vector} FROM {table.name} r WHERE {which} ORDER BY {table.order}", values)
        for row, embedded in cursor:
            if (scope_id := row.pop("scope_id", None)) is not None:
                row["bot"], row["chat"] = known[scope_id]
            line = {"table": table.name, "row": row}
            if embedded is not None:
                line["vector"] = _packed(embedded.to_numpy())
            yield _line(line)


class _Writer:
    """Writes parsed lines in their order. embedder: the number of the file's model in the database it comes from."""

    def __init__(
        self,
        database: Database,
        passages: Callable[[Sequence[str]], NDArray[Any]] | None,
        bot: str,
        embedder: int | None,
    ) -> None:
        self._database, self._passages, self._bot, self._embedder = database, passages, bot, embedder
        self._theirs = ""
        self._ids: dict[tuple[str, str], str] = {}
        self._numbers: dict[int, int] = {}
        self.done = Imported()

    def write(self, lines: Sequence[tuple[int, dict[str, Any]]]) -> None:
        import psycopg

        vectors = self._vectors(lines)
        with self._database.transaction() as connection:
            rows = [self._row(number, line) for number, line in lines]
            wanted = {Scope(row["bot"], row["chat"]) for _, row in rows if "bot" in row}
            numbers = scopes.made(connection, wanted)
            scopes.locked(connection, list(numbers.values()))
            for at, ((table, row), (number, _)) in enumerate(zip(rows, lines, strict=True)):
                if "bot" in row:
                    row["scope_id"] = numbers[Scope(row.pop("bot"), row.pop("chat"))]
                try:
                    with connection.transaction():
                        new = self._insert(connection, table, row, vectors.get(at))
                except (KeyError, TypeError, ValueError, psycopg.DataError, psycopg.IntegrityError) as error:
                    what = " ".join(str(error).split())
                    raise ExchangeError(f"line {number} is damaged: {what}; export the memory again") from error
                count = self.done.new if new else self.done.known
                count[table.name] = count.get(table.name, 0) + 1

    def _row(self, number: int, line: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
        table = next((one for one in TABLES if one.name == line.get("table")), None)
        row = line.get("row")
        if table is None or not isinstance(row, dict):
            raise ExchangeError(f"line {number} names no table this Lumia knows: {str(line.get('table'))[:60]!r}")
        row.pop("scope_id", None)  # that of another database
        if table.name not in _OWN and not (isinstance(row.get("bot"), str) and isinstance(row.get("chat"), str)):
            raise ExchangeError(f"line {number} is damaged: it names no bot and chat; export the memory again")
        if "bot" in row and self._bot:
            self._theirs = self._theirs or row["bot"]
            if row["bot"] != self._theirs:
                raise ExchangeError(
                    f"line {number} is of the bot {row['bot']}, those before of {self._theirs}: one bot takes one "
                    "memory; import each under its own name (--everyone)"
                )
            row["bot"] = self._bot
        return table, row

    def _vectors(self, lines: Sequence[tuple[int, dict[str, Any]]]) -> dict[int, Embedded]:
        """Return the vectors of the lines that have one, by position."""
        import numpy as np

        found = {at: line["vector"] for at, (_, line) in enumerate(lines) if line.get("vector")}
        if self._passages is None:
            vectors = {}
            for at, text in found.items():
                try:
                    vectors[at] = np.frombuffer(base64.b64decode(text), "<f4")
                    check_vectors([vectors[at]])
                except (ValueError, TypeError, EmbedderError) as error:
                    raise ExchangeError(
                        f"line {lines[at][0]} is damaged: its vector can't be read: {error}; export the memory again"
                    ) from error
            return vectors
        texts = {table.name: table.text for table in TABLES}
        named = [str(lines[at][1]["row"].get(texts.get(lines[at][1]["table"], ""), "")) for at in found]
        return dict(zip(found, self._passages(named), strict=True)) if named else {}

    def _insert(
        self, connection: psycopg.Connection[Any], table: Table, row: dict[str, Any], vector: Embedded | None
    ) -> bool:
        from psycopg.types.json import Jsonb

        if self._has_twin(connection, table, row):
            return False
        if table.part_of and (table.refers[table.part_of], row[table.part_of]) in self._ids:
            return False
        if table.name == "memory_recycled" and not self._takes_recycled(connection, row):
            return False
        adopted = table.name == "memory_mentions" and (_TOPICS, row["topic_id"]) in self._ids
        self._rehang(table, row)
        terms = row.pop("terms", None) or {}
        present = [name for name in _columns(connection, table.name) if name in row]
        extra = [(table.vector, vector), ("embedder_id", self._database.embedder_id)] if vector is not None else []
        names = ", ".join([*present, *(name for name, _ in extra)])
        values = ", ".join([*(f"n.{name}" for name in present), *("%s" for _ in extra)])
        new = connection.execute(
            f"INSERT INTO {table.name} ({names}) SELECT {values} "
            f"FROM jsonb_populate_record(NULL::{table.name}, %s) AS n ON CONFLICT DO NOTHING",
            (*(value for _, value in extra), Jsonb(row)),
        ).rowcount
        if not new:
            self._check_owner(connection, table, row)
        if new and table.name == _INSTANCES:
            connection.execute(
                "INSERT INTO memory_terms (scope_id, term, number, tf, length) "
                "SELECT i.scope_id, t.key, i.number, t.value::int::smallint, i.length "
                "FROM memory_instances i, jsonb_each_text(%s) AS t WHERE i.id = %s",
                (Jsonb(terms), row["id"]),
            )
            connection.execute(_TOTALS, (row["length"], row["seq"] + 1, row["scope_id"]))
        if new and adopted:
            connection.execute("UPDATE memory_topics SET mentions = mentions + 1 WHERE id = %s", (row["topic_id"],))
        return bool(new)

    def _check_owner(self, connection: psycopg.Connection[Any], table: Table, row: Mapping[str, Any]) -> None:
        """Raise `ExchangeError` when a row is here, but another bot's or chat's: it would silently be missing."""
        if "id" not in row or "scope_id" not in row or table.part_of:
            return
        found = connection.execute(
            f"SELECT s.bot, s.chat FROM {table.name} r JOIN memory_scopes s ON s.id = r.scope_id "
            "WHERE r.id = %s AND r.scope_id <> %s",
            (row["id"], row["scope_id"]),
        ).fetchone()
        if found is not None:
            raise ExchangeError(
                f"the memory is here already, as that of the bot {found[0]} in {found[1] or 'all chats'}: a database "
                "holds it once; forget it there, or give this bot a database or [schema] of its own"
            )

    def _rehang(self, table: Table, row: dict[str, Any]) -> None:
        """Let a row refer to the rows that are here instead of those of the file."""
        for name, referred in table.refers.items():
            row[name] = self._ids.get((referred, row.get(name, "")), row.get(name))
        if table.name == "topic_edges" and row["edge_type"] != RELATION and row["from_topic"] > row["to_topic"]:
            row["from_topic"], row["to_topic"] = row["to_topic"], row["from_topic"]

    def _has_twin(self, connection: psycopg.Connection[Any], table: Table, row: Mapping[str, Any]) -> bool:
        """Tell whether the row is here, and note under which id; rows without what makes them the same have no twin."""
        if not table.twin or any(row.get(name) is None for name in table.twin):
            return False
        which = " AND ".join(f"{name} = %s" for name in table.twin)
        found = connection.execute(
            f"SELECT id FROM {table.name} WHERE {which}", tuple(row[name] for name in table.twin)
        ).fetchone()
        if found is None:
            return False
        if found[0] != row["id"]:
            self._ids[table.name, row["id"]] = found[0]
        return True

    def _takes_recycled(self, connection: psycopg.Connection[Any], row: Mapping[str, Any]) -> bool:
        """Prepare a recycled row: the numbers in its content are this database's; tells whether it is new."""
        known = connection.execute(
            "SELECT 1 FROM memory_recycled WHERE (batch, scope_id, source_table, row_id) = (%s, %s, %s, %s)",
            (row["batch"], row["scope_id"], row["source_table"], row["row_id"]),
        ).fetchone()
        content = row["content"]
        if "scope_id" in content:
            content["scope_id"] = row["scope_id"]
        if "embedder_id" in content:
            same = self._passages is None and self._embedder in (None, content["embedder_id"])
            content["embedder_id"] = self._database.embedder_id if same else 0  # 0: embedded anew when it comes back
        if known is None and (number := content.get("number")) is not None:
            if number not in self._numbers:
                self._numbers[number] = _next_number(connection)
            content["number"] = self._numbers[number]
        return known is None


def _next_number(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT nextval(pg_get_serial_sequence('memory_instances', 'number'))").fetchone()
    assert row is not None
    return int(row[0])


def _columns(connection: psycopg.Connection[Any], table: str) -> list[str]:
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped "
        "AND attgenerated = '' ORDER BY attnum",
        (table,),
    )
    return [name for (name,) in rows]


def _header(line: tuple[int, str]) -> dict[str, Any]:
    _, head = _parsed(*line) if line[1] else (1, {})
    if head.get("format") != FORMAT or not {"model", "dimension"} <= head.keys():
        raise ExchangeError(
            "this is no exported memory: its first line says other; make one with `lumia memory export`"
        )
    if head.get("version") != VERSION:
        raise ExchangeError(
            f"the export is of version {head.get('version')}, this Lumia reads {VERSION}; use a newer one"
        )
    return head


def _parsed(number: int, line: str) -> tuple[int, dict[str, Any]]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExchangeError(f"line {number} is no JSON: {error}; the file is damaged or cut off") from error
    if not isinstance(found, dict):
        raise ExchangeError(f"line {number} is no JSON object; the file is damaged")
    return number, found


def _packed(vector: Embedded) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
