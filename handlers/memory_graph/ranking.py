"""From candidates to a ranking: features of each, weighed and summed (weights.py). Pure numpy, no database, no clock.

Every feature is relative: similarity in standard deviations of the scope, lexical match as a share of what the query
could match, the rest shares and flags. So nothing depends on the embedding model's scale or on the size of the scope,
and no order or number of candidates changes the features of one, beyond its neighbours in the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .weights import BASE, FEATURES, FINAL, SPREAD

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CONVERSATION_SECONDS = 3600.0
"""A longer silence ends a conversation: what follows is not its continuation."""
_TOP_OF_CONVERSATION = 3
SEEDS, TEMPERATURE = 8, 2.0
"""Activation spreads from that many of the best; a higher temperature makes them more alike."""
_BELOW = 1e-6
"""By how much what was lifted ends below its seed: more than the rounding of scores."""


@dataclass(frozen=True)
class Parts:
    """Which parts of the retrieval are on; for ablation and for who wants less.

    dense: vector similarity. lexical: words. sequence: the turns before and after, and the conversation around.
    speaker: the person the query names, and the asking person. spreading: activation over the graph of topics.
    shape: questions and short texts count less. standing: importance, and how lately and often it was used. recency:
    among equals the newer one.
    """

    dense: bool = True
    lexical: bool = True
    sequence: bool = True
    speaker: bool = True
    spreading: bool = True
    shape: bool = True
    standing: bool = True
    recency: bool = True

    @classmethod
    def named(cls, *on: str) -> Parts:
        """Return only these parts switched on; raises `ValueError` for an unknown one."""
        return cls(**{name: name in on for name in part_names(on)})

    def without(self, *off: str) -> Parts:
        """Return these parts switched off; raises `ValueError` for an unknown one."""
        return Parts(**{name: getattr(self, name) and name not in off for name in part_names(off)})


def part_names(given: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names of all parts, after checking that those `given` are among them."""
    known = tuple(one.name for one in fields(Parts))
    if unknown := set(given) - set(known):
        raise ValueError(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return known


@dataclass(frozen=True)
class Candidates:
    """What may be recalled, one entry each, in any order.

    scope, seq: place in its scope. time: seconds since 1970. deviations: similarity to the query in standard
    deviations of the scope. lexical: BM25 score. matched: bit mask of the query's terms that occur. length: terms in
    the text. question: its last sentence asks. named: share of a query about named people that is about its sender.
    asker: said by who asks now. spread: activation in [0, 1] that reached it through topics. importance: in [0, 1],
    0.5 for what nobody judged. strength: what is left of its relevance, in [0, 1].
    """

    scope: NDArray[np.int64]
    seq: NDArray[np.int64]
    time: Floats
    deviations: Floats
    lexical: Floats
    matched: NDArray[np.int64]
    length: NDArray[np.int64]
    question: Flags
    named: Floats
    asker: Flags
    spread: Floats
    importance: Floats
    strength: Floats

    def __len__(self) -> int:
        return len(self.seq)

    def at(self, order: NDArray[np.intp]) -> Candidates:
        """Return these entries in this order."""
        return Candidates(**{one.name: getattr(self, one.name)[order] for one in fields(self)})


@dataclass(frozen=True)
class Query:
    """What the candidates are compared with. idf: of each term, in the order of the mask's bits (at most 62).

    typical_length: mean number of terms of a text in these scopes.
    """

    idf: tuple[float, ...] = ()
    typical_length: float = 10.0


@dataclass(frozen=True)
class Ranked:
    """order: positions of the candidates, best first. scores: of each candidate, in the given order. shares: what
    each part contributes to them, by part. sources: position of the seed that lifted each candidate most, -1 for
    those that nothing lifted; empty before `spread`."""

    order: NDArray[np.intp]
    scores: Floats
    shares: dict[str, Floats]
    sources: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))


@dataclass(frozen=True)
class Links:
    """What seeds (positions among the candidates, best first) say for each candidate; row k: the first k + 1 together.

    resembling: mean similarity to them, in standard deviations of the scope. associated: activation through shared
    topics, a logarithm, 0 for none. Shape of both: (seeds, candidates).
    """

    seeds: tuple[int, ...]
    resembling: Floats
    associated: Floats


def rank(candidates: Candidates, query: Query, parts: Parts | None = None) -> Ranked:
    """Rank candidates; equal ones by scope and `seq`, the newer first unless recency is off.

    Deterministic, and the order in which candidates are given makes no difference.
    """
    parts = parts or Parts()
    if not len(candidates):
        return Ranked(np.zeros(0, np.intp), np.zeros(0), {})
    values = features(candidates, query, parts)
    shares: dict[str, Floats] = {}
    for name, part in FEATURES.items():
        if name in FINAL:
            shares[part] = shares.get(part, np.zeros(len(candidates))) + FINAL[name] * values[name]
    scores = np.sum(list(shares.values()), axis=0)
    newer = -candidates.seq if parts.recency else candidates.seq
    order = np.lexsort((newer, candidates.scope, -np.round(scores, 9)))
    return Ranked(order, scores, shares)


def seeds_of(ranked: Ranked) -> tuple[list[int], Floats]:
    """Return the best candidates, from which activation spreads, and the share of each; shares add up to 1."""
    best = ranked.order[:SEEDS]
    if not len(best):
        return [], np.zeros(0)
    scores = ranked.scores[best]
    raised = np.exp((scores - scores.max()) / TEMPERATURE)
    return best.tolist(), raised / raised.sum()


def spread(ranked: Ranked, links: Links) -> Ranked:
    """Return a ranking in which seeds have lifted what resembles them or shares their topics.

    Seeds keep their scores, so their order among themselves, too. A candidate takes the activation of the first k
    seeds and ends below the k-th; it gets the k that serves it best. So nothing passes a seed that lifted it. What
    all seeds together speak against sinks.
    """
    if not links.seeds:
        return ranked
    seeds = np.asarray(links.seeds, np.intp)
    lifts = SPREAD["resembling"] * links.resembling + SPREAD["associated"] * links.associated
    reached = np.minimum(ranked.scores + lifts, ranked.scores[seeds][:, None] - _BELOW)
    through = np.argmax(reached, axis=0)
    lifted = (lifts[-1] > 0) & (reached.max(axis=0) > ranked.scores)
    scores = np.where(lifts[-1] > 0, np.maximum(reached.max(axis=0), ranked.scores), ranked.scores + lifts[-1])
    scores[seeds], lifted[seeds] = ranked.scores[seeds], False
    own = np.diff(lifts, axis=0, prepend=0.0)
    own[np.arange(len(seeds))[:, None] > through[None, :]] = -np.inf
    shares = {**ranked.shares, "spreading": ranked.shares.get("spreading", 0.0) + scores - ranked.scores}
    before = np.argsort(ranked.order)
    order = np.lexsort((before, -np.round(scores, 9)))
    return Ranked(order, scores, shares, np.where(lifted, seeds[np.argmax(own, axis=0)], -1))


def features(
    candidates: Candidates, query: Query, parts: Parts | None = None, base: Mapping[str, float] = BASE
) -> dict[str, Floats]:
    """Return each feature of `weights.FEATURES` for each candidate; those of parts switched off are 0.

    base: weights by which neighbours are judged.
    """
    parts = parts or Parts()
    around = _Around(candidates)
    order = around.order
    values = _own(candidates.at(order), query, parts, around)
    values |= _of_others(values, candidates.at(order), parts, around, base)
    back = np.empty(len(order), np.intp)
    back[order] = np.arange(len(order))
    table = np.nan_to_num(np.stack([values[name][back] for name in FEATURES]), nan=0.0, posinf=50.0, neginf=-50.0)
    return dict(zip(FEATURES, table, strict=True))


class _Around:
    """Who stands beside whom, in the order (scope, seq): `at(k)` gives the position k turns earlier, -1 when that one
    is no candidate or belongs to another conversation."""

    def __init__(self, candidates: Candidates) -> None:
        self.order: NDArray[np.intp] = np.lexsort((candidates.seq, candidates.scope))
        scope, seq = candidates.scope[self.order], candidates.seq[self.order]
        time = candidates.time[self.order]
        silent = np.abs(np.diff(time, prepend=time[:1])) > CONVERSATION_SECONDS
        other = np.diff(scope, prepend=scope[:1]) != 0
        self.conversation: NDArray[np.intp] = np.cumsum(silent | other).astype(np.intp)
        self._scope, self._seq = scope, seq
        self._found: dict[int, NDArray[np.intp]] = {}

    def at(self, back: int) -> NDArray[np.intp]:
        if back not in self._found:
            self._found[back] = self._search(back)
        return self._found[back]

    def _search(self, back: int) -> NDArray[np.intp]:
        count = len(self._seq)
        found = np.full(count, -1, np.intp)
        here = np.arange(count)
        # Places rise, so the one `back` turns earlier is at most that many entries away.
        for step in range(1, abs(back) + 1):
            there = here - step if back > 0 else here + step
            valid = (there >= 0) & (there < count)
            there = np.clip(there, 0, count - 1)
            same = (self._scope[there] == self._scope) & (self._seq - self._seq[there] == back)
            same &= self.conversation[there] == self.conversation
            found[valid & same] = there[valid & same]
        return found


def _moved(values: NDArray[Any], positions: NDArray[np.intp], missing: Any = 0) -> NDArray[Any]:
    """Return the value at each position, `missing` where there is none."""
    return np.where(positions >= 0, values[np.maximum(positions, 0)], missing)


def _coverage(masks: NDArray[np.int64], idf: tuple[float, ...]) -> Floats:
    total = sum(idf)
    if total <= 0:
        return np.zeros(len(masks))
    weights = np.asarray(idf) / total
    bits = (masks[:, None] >> np.arange(len(idf))[None, :]) & 1
    found: Floats = bits @ weights
    return found


def _own(found: Candidates, query: Query, parts: Parts, around: _Around) -> dict[str, Floats]:
    count = len(found)
    zero = np.zeros(count)
    best = sum(query.idf) or 1.0
    window = found.matched | _moved(found.matched, around.at(1)) | _moved(found.matched, around.at(-1))
    length = np.log1p(np.maximum(found.length, 0)) - np.log1p(max(query.typical_length, 0.0))
    return {
        "dense": found.deviations.astype(float) if parts.dense else zero,
        "lexical": found.lexical / best if parts.lexical else zero,
        "coverage": _coverage(found.matched, query.idf) if parts.lexical else zero,
        "window": _coverage(window, query.idf) if parts.lexical and parts.sequence else zero,
        "speaker": found.named.astype(float) if parts.speaker else zero,
        "asker": found.asker.astype(float) if parts.speaker else zero,
        "question": found.question.astype(float) if parts.shape else zero,
        "length": np.clip(length, -3.0, 1.5) if parts.shape else zero,
        "spread": found.spread.astype(float) if parts.spreading else zero,
        "importance": found.importance - 0.5 if parts.standing else zero,
        "strength": found.strength.astype(float) if parts.standing else zero,
    }


def _of_others(
    own: dict[str, Floats], found: Candidates, parts: Parts, around: _Around, weights: Mapping[str, float]
) -> dict[str, Floats]:
    """Return what the neighbours of a turn say for it, from their scores by `weights`."""
    names = ("before", "after", "nearest", "before2", "after2", "answers", "asked", "conversation")
    if not parts.sequence:
        return dict.fromkeys(names, np.zeros(len(found)))
    base = np.zeros(len(found))
    for name, weight in weights.items():
        base = base + weight * own[name]
    previous, following = around.at(1), around.at(-1)
    before, after = _moved(base, previous, 0.0), _moved(base, following, 0.0)
    return {
        "before": before,
        "after": after,
        "nearest": np.maximum(before, after),
        "before2": _moved(base, around.at(2), 0.0),
        "after2": _moved(base, around.at(-2), 0.0),
        "answers": before * _moved(found.question, previous, False),
        "asked": after * found.question,
        "conversation": _tops(base, around.conversation),
    }


def _tops(base: Floats, conversation: NDArray[np.intp]) -> Floats:
    """Return for each entry the mean of the best scores of its conversation."""
    order = np.lexsort((-base, conversation))
    starts = np.searchsorted(conversation[order], np.arange(conversation[-1] + 1))
    place = np.arange(len(base)) - starts[conversation[order]]
    top = place < _TOP_OF_CONVERSATION
    sums = np.bincount(conversation[order][top], base[order][top], minlength=len(starts))
    # A conversation of one turn is no better than a long one whose other turns say nothing.
    found: Floats = (sums / _TOP_OF_CONVERSATION)[conversation]
    return found
