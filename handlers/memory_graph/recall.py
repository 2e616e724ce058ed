"""Recall: what the memory holds about a query, best first, each with the reasons (spec §11.3, extended by issue 4).

Nothing is written: whoever puts a result into a prompt strengthens it (`strengthening`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import candidates, reading
from .activation import Activated
from .association import associate
from .ranking import Parts, Ranked, rank, seeds_of, spread
from .types import Embedded, Instance, Reason, Recalled, Scope, ScoredInstance, ScoredTopic

if TYPE_CHECKING:
    import psycopg

TOP_K = 10
CONSIDERED = 100
"""Of the best candidates this many may be lifted by the very best."""
_MAY_RISE = 20
"""So many more than asked for are read in advance: one that is lifted from further behind is read afterwards."""
_REASON_OF = {"dense": "seed", "spreading": "spread"}
_WORTH_SAYING = 0.05
_SHOWN = 40
"""Characters of a memory that are shown where another one names it as its source."""


def recall(
    connection: psycopg.Connection[Any],
    scope: Scope,
    query: str,
    vector: Embedded,
    *,
    sender: str | None = None,
    people: Mapping[str, str] | None = None,
    top_k: int = TOP_K,
    parts: Parts | None = None,
    now: float,
    beside: psycopg.Connection[Any] | None = None,
) -> Recalled:
    """Return at most `top_k` instances and topics that a reader in `scope` may see, best first.

    vector: the query's, shape (d,), of length 1. sender: id of who asks, a small advantage for what they said
    themselves. people: more names of people than the memory knows, name → id. now: seconds since 1970, for decay.
    beside: a second connection that works at the same time (`Database.beside`).
    Inside the caller's transaction; raises what the database raises.
    """
    found = candidates.find(
        connection, scope, query, vector, sender=sender, people=people, parts=parts, now=now, beside=beside
    )
    if found is None or top_k < 1:
        return Recalled()
    ranked = rank(found.candidates, found.query, parts)
    read: dict[int, bytes] = {}
    if (parts or Parts()).spreading:
        order = ranked.order[:CONSIDERED].tolist()
        shown = order[: top_k + _MAY_RISE]
        links, read = associate(connection, found, order, *seeds_of(ranked), shown=shown, beside=beside)
        ranked = spread(ranked, links)
    best = ranked.order[:top_k]
    sources = ranked.sources[best] if len(ranked.sources) else np.zeros(0, np.intp)
    numbers = [int(found.numbers[at]) for at in {*best.tolist(), *sources[sources >= 0].tolist()}]
    known = {number: reading.instance_of_json(read[number]) for number in numbers if number in read}
    if missing := [number for number in numbers if number not in known]:
        known |= reading.numbered(connection, sorted(found.place.scopes), missing)
    by_place = dict(zip(np.searchsorted(found.numbers, list(known)).tolist(), known.values(), strict=True))
    instances = [
        ScoredInstance(by_place[at], float(ranked.scores[at]), _reasons(found, ranked, at, by_place))
        for at in map(int, best)
        if at in by_place
    ]
    return Recalled(_topics(found, top_k), tuple(instances))


def _reasons(found: candidates.Found, ranked: Ranked, at: int, known: Mapping[int, Instance]) -> tuple[Reason, ...]:
    said = []
    for part, shares in ranked.shares.items():
        share = float(shares[at])
        if abs(share) >= _WORTH_SAYING:
            said.append(Reason(_REASON_OF.get(part, part), round(share, 4), _detail(found, ranked, part, at, known)))
    return tuple(sorted(said, key=lambda one: -one.score))


def _detail(found: candidates.Found, ranked: Ranked, part: str, at: int, known: Mapping[int, Instance]) -> str:
    if part == "lexical":
        mask = int(found.candidates.matched[at])
        return ", ".join(term for bit, term in enumerate(found.place.terms) if mask >> bit & 1)
    if part == "speaker":
        return ", ".join(found.place.people.values())
    source = int(ranked.sources[at]) if part == "spreading" and len(ranked.sources) else -1
    return f"from {_shown(known[source].content)}" if source in known else ""


def _shown(text: str) -> str:
    """Return the beginning of a text on one line, in quotes."""
    line = " ".join(text.split())
    return f"“{line if len(line) <= _SHOWN else line[: _SHOWN - 1] + '…'}”"


def _topics(found: candidates.Found, top_k: int) -> tuple[ScoredTopic, ...]:
    scored = sorted(((_score(one), one) for one in found.topics), key=lambda it: (-it[0], it[1].topic.id))[:top_k]
    return tuple(
        ScoredTopic(
            one.topic,
            float(np.round(score, 6)),
            (
                Reason(
                    "spread" if one.depth else "seed", round(one.score, 4), f"from {one.source}" if one.depth else ""
                ),
            ),
        )
        for score, one in scored
    )


def _score(one: Activated) -> float:
    return one.score * (0.5 + 0.5 * one.topic.strength)
