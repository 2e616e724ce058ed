"""What of a query is known where its reader may look: the sizes of the scopes, who is named, and where its terms stand.

One statement. Of each term it brings the entries of the lexical index, so that words are scored here (BM25) and nothing
is counted twice. A term with `COMMON` entries or more finds nothing while there are rarer ones; it is not read again
for some minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

import lumia

from . import texts
from .topics import names_in
from .types import Scope

if TYPE_CHECKING:
    import psycopg

POSTINGS = 3000
"""Entries of the lexical index that one query uses: its rarest terms, until they are used up, and at least one."""
COMMON = 1000
"""Entries that are read of one term in one scope."""
MOST_TERMS = 48
_K1, _B = 1.2, 0.75
_REMEMBERED = 300.0
"""For so many seconds a term that was found to be common is not read again."""
_SCOPES = 64
_commons: WeakKeyDictionary[psycopg.Connection[Any], dict[Scope, dict[str, float]]] = WeakKeyDictionary()
"""Terms that are known to be common, per connection, so of one database and schema, and scope."""
_SETTINGS = """set_config('plan_cache_mode', 'force_generic_plan', true)
    || set_config('enable_bitmapscan', 'off', true) || set_config('enable_sort', 'off', true)
    || set_config('enable_seqscan', 'off', true) || set_config('enable_memoize', 'off', true)
    || set_config('hnsw.ef_search', '60', true)"""
"""For the statements that follow in the transaction: their plans are made once per connection, and follow indexes in
their order instead of sorting what a topic has in all. 60 is for the topics' vector index (`activation.TOPICS_SCAN`);
candidates.py asks that of the instances more widely."""
PLANNED = f"SELECT {_SETTINGS}"
"""The same for a transaction that begins with no look-up."""
_LOOK = f"""
WITH seen AS MATERIALIZED (
    SELECT id, chat, next_seq, instances, tokens, date_part('epoch', created_at) AS made
    FROM memory_scopes WHERE bot = %(bot)s AND chat = ANY(%(chats)s))
SELECT 'scope', id || ' ' || chat, next_seq::float8, instances::float8, tokens::float8, made, NULL::bytea FROM seen
UNION ALL
SELECT 'term', w.term, p.count, 0, 0, 0, p.entries
FROM unnest(%(terms)s::text[]) AS w (term) CROSS JOIN LATERAL (
    SELECT count(*)::float8 AS count, array_send(array_agg(
        (m.number << 24) | (least(m.tf, 255)::int8 << 16) | least(m.length, 65535))) AS entries
    FROM seen CROSS JOIN LATERAL (SELECT number, tf, length FROM memory_terms
        WHERE scope_id = seen.id AND term = w.term ORDER BY number DESC LIMIT {COMMON}) m) p
UNION ALL
SELECT 'person', p.person || chr(31) || p.name, 0, 0, 0, 0, NULL FROM memory_people p JOIN seen ON seen.id
= p.scope_id WHERE length(p.name) > 0 AND position(lower(p.name) IN %(folded)s) > 0
UNION ALL
SELECT 'table', current_database() || '/' || current_schema(), (SELECT id FROM memory_embedders WHERE state =
'active')::float8,
    (SELECT reltuples FROM pg_class WHERE oid = 'memory_instances'::regclass)::float8, 0, 0, NULL
UNION ALL
SELECT 'planned', {_SETTINGS}, 0, 0, 0, 0, NULL
"""
_ARRAY = np.dtype([("bytes", ">i4"), ("value", ">i8")])
"""An element of an array of bigint as `array_send` gives it, behind a head of 20 bytes. In it: 24 bits and more for
the instance, 8 for how often, 16 for the instance's length."""
_HEAD = 20


@dataclass(frozen=True)
class Postings:
    """Where a term stands: number of the instance, how often, and the instance's length in terms; one entry each."""

    numbers: NDArray[np.int64]
    tf: NDArray[np.int64]
    length: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Words:
    """The lexical matches of a query. numbers: of the instances, rising; score: BM25; mask: bits of the terms that
    occur, in the order of `Place.terms`."""

    numbers: NDArray[np.int64]
    score: NDArray[np.float64]
    mask: NDArray[np.int64]

    def best(self, count: int) -> list[int]:
        """Return the numbers of the best, among equals the newer ones."""
        order = np.lexsort((-self.numbers, -self.score))[:count]
        return [int(number) for number in self.numbers[order]]

    def of(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return score and mask of these instances, 0 where no term occurs."""
        if not len(self.numbers):
            return np.zeros(len(numbers)), np.zeros(len(numbers), np.int64)
        at = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        there = self.numbers[at] == numbers
        return np.where(there, self.score[at], 0.0), np.where(there, self.mask[at], 0)


@dataclass
class Place:
    """The scopes a query may be answered from, number → (next seq, instances, tokens, made), and what is known there.

    chats: the chat of each scope, "" for the whole bot. people: those whose name stands in the query, id → name.
    table, embedder, rows: identity and size of the table. terms, idf: those terms of the query that can find something,
    rarest first.
    """

    scopes: dict[int, tuple[int, float, float, float]] = field(default_factory=dict)
    chats: dict[int, str] = field(default_factory=dict)
    postings: dict[str, Postings] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)
    table: str = ""
    embedder: float = 0.0
    rows: float = 0.0
    terms: tuple[str, ...] = ()
    idf: tuple[float, ...] = ()

    @property
    def instances(self) -> float:
        """Return how many instances there are in these scopes."""
        return sum(one[1] for one in self.scopes.values())

    @property
    def typical_length(self) -> float:
        """Return the mean number of terms of an instance, at least 1."""
        return max(1.0, sum(one[2] for one in self.scopes.values()) / max(1.0, self.instances))

    @property
    def identity(self) -> tuple[Any, ...]:
        """Return what tells these scopes apart from those of another database, schema or embedder."""
        return (self.table, self.embedder, *(self.scopes[number][3] for number in sorted(self.scopes)))

    def names(self, reader: Scope) -> dict[int, Scope]:
        """Return the scopes by their numbers."""
        return {number: Scope(reader.bot, chat) for number, chat in self.chats.items()}

    def words(self) -> Words:
        """Return the instances in which terms of the query occur."""
        found = [self.postings[term] for term in self.terms]
        if not sum(map(len, found)):
            return Words(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
        tf = np.concatenate([one.tf for one in found]).astype(float)
        length = np.concatenate([one.length for one in found])
        idf = np.repeat(self.idf, [len(one) for one in found])
        # Each term occurs once per instance, so a sum of bits is their union; 48 bits fit into a double.
        bits = np.repeat([float(1 << at) for at in range(len(found))], [len(one) for one in found])
        scores = idf * tf * (_K1 + 1) / (tf + _K1 * (1 - _B + _B * length / self.typical_length))
        numbers, at = np.unique(np.concatenate([one.numbers for one in found]), return_inverse=True)
        mask = np.bincount(at, bits, len(numbers)).astype(np.int64)
        return Words(numbers, np.asarray(np.bincount(at, scores, len(numbers)), np.float64), mask)


def array(numbers: Iterable[float]) -> str:
    """Return numbers as Postgres reads an array: hundreds are sent in a tenth of the time their list takes."""
    return f"{{{','.join(map(repr, numbers))}}}"


def look(connection: psycopg.Connection[Any], scope: Scope, query: str, people: Mapping[str, str]) -> Place:
    """Return what of `query` is known where a reader in `scope` may look.

    people: more names of people, name → id. Raises what the database raises.
    """
    counted = list(texts.query_terms(query))
    common = _common(connection, scope)
    rare = [term for term in counted if term not in common]
    place = _looked(connection, scope, query, people, rare)
    if len(rare) < len(counted) and _needs_common(place, counted):
        place = _looked(connection, scope, query, people, counted)
    now = lumia.system.monotonic()
    common.update({term: now + _REMEMBERED for term, found in place.postings.items() if len(found) >= COMMON})
    place.terms, place.idf = _weighed(counted, place)
    return place


def _common(connection: psycopg.Connection[Any], scope: Scope) -> dict[str, float]:
    """Return the terms known to be too common to find anything in a scope, with the moment until that is believed."""
    scopes = _commons.setdefault(connection, {})
    if len(scopes) > _SCOPES:
        scopes.clear()
    known, now = scopes.setdefault(scope, {}), lumia.system.monotonic()
    for term in [term for term, until in known.items() if until <= now]:
        del known[term]
    return known


def _needs_common(place: Place, counted: Sequence[str]) -> bool:
    """Tell whether common terms are needed after all: nothing rarer is asked for, or the scope has shrunk."""
    wanted = _wanted(counted, place)
    rare = any(len(place.postings[term]) < COMMON for term in wanted if term in place.postings)
    return not rare or place.instances < COMMON


def _looked(
    connection: psycopg.Connection[Any], scope: Scope, query: str, people: Mapping[str, str], terms: list[str]
) -> Place:
    """Return what is known of the query, but for the weights of its terms."""
    place, folded = Place(), texts.folded(query)
    values = {"bot": scope.bot, "chats": sorted({scope.chat, ""}), "terms": terms, "folded": folded}
    known = {person: name for name, person in people.items() if name.casefold() in folded}
    for kind, text, a, b, c, d, entries in connection.execute(_LOOK, values, prepare=True, binary=True):
        if kind == "scope":
            number, _, chat = text.partition(" ")
            place.scopes[int(number)] = int(a), b, c, d
            place.chats[int(number)] = chat
        elif kind == "term":
            place.postings[text] = _postings(entries)
        elif kind == "person":
            person, _, name = text.partition("\x1f")
            known.setdefault(person, name)
        elif kind == "table":
            place.table, place.embedder, place.rows = text, a or 0.0, b
    place.people = {person: name for person, name in known.items() if names_in(folded, [name])}
    return place


def _postings(sent: bytes | None) -> Postings:
    packed = np.asarray(np.frombuffer(sent or b"", _ARRAY, offset=_HEAD if sent else 0)["value"], np.int64)
    return Postings(packed >> 24, packed >> 16 & 0xFF, packed & 0xFFFF)


def _wanted(counted: Sequence[str], place: Place) -> list[str]:
    """Return the terms that count as words: a named person is compared with the sender, unless nothing else is asked
    for."""
    names = {term for name in place.people.values() for term in texts.terms(name)}
    return [term for term in counted if term not in names] or list(counted)


def _weighed(counted: Sequence[str], place: Place) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the terms that can find something, and the weight (BM25's idf) of each; those not read are common."""
    whole = max(1.0, place.instances)
    frequency = {
        term: min(float(len(place.postings[term]) if term in place.postings else COMMON), whole)
        for term in _wanted(counted, place)
    }
    best: list[tuple[str, float]] = []
    read = 0.0
    for term, df in sorted(frequency.items(), key=lambda one: (one[1], one[0]))[:MOST_TERMS]:
        read += df
        if best and (read > POSTINGS or df >= COMMON):
            break
        best.append((term, math.log(1 + (whole - df + 0.5) / (df + 0.5))))
    return tuple(term for term, _ in best), tuple(idf for _, idf in best)
