"""The ranking by itself: what raises a candidate, and what must not matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.memory_graph.ranking import Candidates, Links, Parts, Query, Ranked, features, rank, seeds_of, spread
from handlers.memory_graph.weights import BASE, FEATURES, FINAL, SPREAD

QUERY = Query((2.0, 1.0, 0.5), 8.0)


def candidates(count: int, **given: Any) -> Candidates:
    """Alike candidates, a minute apart, with these fields set."""
    values: dict[str, Any] = {
        "scope": np.ones(count, np.int64),
        "seq": np.arange(count, dtype=np.int64),
        "time": np.arange(count) * 60.0,
        "deviations": np.zeros(count),
        "lexical": np.zeros(count),
        "matched": np.zeros(count, np.int64),
        "length": np.full(count, 8, np.int64),
        "question": np.zeros(count, bool),
        "named": np.zeros(count),
        "asker": np.zeros(count, bool),
        "spread": np.zeros(count),
        "importance": np.full(count, 0.5),
        "strength": np.zeros(count),
    }
    return Candidates(**values | {name: np.asarray(value, values[name].dtype) for name, value in given.items()})


@st.composite
def any_candidates(draw: st.DrawFn) -> Candidates:
    count = draw(st.integers(1, 30))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    places = random.choice(200, count, replace=False)
    return candidates(
        count,
        scope=places // 100,
        seq=places % 100,
        time=np.sort(random.uniform(0, 1e5, 200))[places],
        deviations=random.normal(size=count) * draw(st.sampled_from([0.0, 1.0, 1e6])),
        lexical=random.exponential(size=count),
        matched=random.integers(0, 8, count),
        length=random.integers(0, 50, count),
        question=random.random(count) < 0.3,
        named=random.integers(0, 2, count),
        spread=random.random(count),
        importance=random.random(count),
        strength=random.random(count),
    )


@given(any_candidates())
def test_scores_are_numbers_and_the_same_every_time(found: Candidates) -> None:
    ranked = rank(found, QUERY)
    assert np.isfinite(ranked.scores).all()
    assert (ranked.order == rank(found, QUERY).order).all()
    assert sorted(ranked.order.tolist()) == list(range(len(found)))


@given(any_candidates(), st.randoms(use_true_random=False))
def test_the_order_in_which_candidates_come_makes_no_difference(found: Candidates, random: Any) -> None:
    shuffled = list(range(len(found)))
    random.shuffle(shuffled)
    order = np.array(shuffled, np.intp)
    before, after = rank(found, QUERY), rank(found.at(order), QUERY)
    assert np.allclose(before.scores[order], after.scores)
    assert before.order.tolist() == order[after.order].tolist()


@given(any_candidates())
def test_scores_are_the_sum_of_what_the_parts_contribute(found: Candidates) -> None:
    ranked = rank(found, QUERY)
    assert np.allclose(np.sum(list(ranked.shares.values()), axis=0), ranked.scores)


@given(any_candidates(), st.sampled_from(["dense", "lexical", "sequence", "speaker", "shape", "standing", "spreading"]))
def test_a_part_that_is_off_contributes_nothing(found: Candidates, part: str) -> None:
    values = features(found, QUERY, Parts().without(part))
    assert all((values[name] == 0).all() for name, of in FEATURES.items() if of == part)


@st.composite
def any_links(draw: st.DrawFn) -> tuple[Candidates, Ranked, Links]:
    found = draw(any_candidates())
    ranked = rank(found, QUERY)
    seeds, shares = seeds_of(ranked)
    assert shares.sum() == pytest.approx(1.0)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    strength = draw(st.sampled_from([0.1, 1.0, 20.0]))
    parts = random.normal(size=(2, len(seeds), len(found))) * strength
    return found, ranked, Links(tuple(seeds), parts[0].cumsum(axis=0), np.abs(parts[1]).cumsum(axis=0))


@given(any_links())
def test_seeds_keep_their_order_and_scores(given_: tuple[Candidates, Ranked, Links]) -> None:
    _, ranked, links = given_
    after = spread(ranked, links)
    assert [at for at in after.order.tolist() if at in links.seeds] == list(links.seeds)
    assert (after.scores[list(links.seeds)] == ranked.scores[list(links.seeds)]).all()


@given(any_links())
def test_nothing_passes_a_seed_that_lifted_it(given_: tuple[Candidates, Ranked, Links]) -> None:
    """Who stands before a seed owes nothing to it: without its activation, and that of the seeds behind it, the score
    would be the same."""
    _, ranked, links = given_
    after = spread(ranked, links)
    place = np.argsort(after.order)
    for at, seed in enumerate(links.seeds):
        before = Links(links.seeds[:at], links.resembling[:at], links.associated[:at])
        passed = [one for one in range(len(place)) if place[one] < place[seed] and one not in links.seeds]
        assert at or not passed
        if passed:
            lifts = SPREAD["resembling"] * before.resembling + SPREAD["associated"] * before.associated
            reached = np.minimum(ranked.scores + lifts, ranked.scores[list(before.seeds)][:, None])
            assert (after.scores[passed] <= np.maximum(reached.max(axis=0), ranked.scores)[passed]).all()


@given(any_links())
def test_what_is_lifted_stands_behind_the_source_that_is_named(given_: tuple[Candidates, Ranked, Links]) -> None:
    _, ranked, links = given_
    after = spread(ranked, links)
    place = np.argsort(after.order)
    lifted = np.flatnonzero(after.sources >= 0)
    assert set(after.sources[lifted].tolist()) <= set(links.seeds)
    assert (place[after.sources[lifted]] < place[lifted]).all()
    assert (after.scores[lifted] > ranked.scores[lifted]).all()


def test_a_memory_far_behind_rises_to_just_behind_the_seed_it_resembles() -> None:
    found = candidates(20, deviations=np.linspace(10, 0, 20))
    ranked = rank(found, QUERY, Parts.named("dense"))
    seeds, _ = seeds_of(ranked)
    resembling = np.zeros((len(seeds), 20))
    resembling[:, 19] = 100.0
    after = spread(ranked, Links(tuple(seeds), resembling, np.zeros_like(resembling)))
    assert after.order[:3].tolist() == [0, 19, 1]
    assert after.sources[19] == 0


def test_what_matters_more_comes_first_among_equals() -> None:
    assert rank(candidates(3, importance=[0.5, 0.9, 0.1]), QUERY).order[0] == 1
    assert rank(candidates(3, strength=[0.0, 0.9, 0.1]), QUERY).order[0] == 1
    assert rank(candidates(3, importance=[0.9, 0.1, 0.1]), QUERY, Parts().without("standing")).order[0] == 2


def test_importance_does_not_outweigh_what_was_asked_for() -> None:
    found = candidates(2, importance=[0.0, 1.0], strength=[0.0, 1.0], matched=[7, 0], time=[0, 9000])
    assert rank(found, QUERY).order[0] == 0


def test_the_answer_follows_the_question_it_belongs_to() -> None:
    """The words of the query stand in a question; the next turn answers it in other words."""
    found = candidates(6, matched=[0, 7, 0, 0, 0, 0], question=[0, 1, 0, 0, 0, 0], lexical=[0, 3, 0, 0, 0, 0])
    assert set(rank(found, QUERY).order[:2].tolist()) == {1, 2}


def test_a_silence_ends_the_conversation() -> None:
    near = candidates(2, matched=[7, 0])
    far = replace(near, time=np.array([0.0, 7200.0]))
    assert features(near, QUERY)["before"][1] > 0
    assert features(far, QUERY)["before"][1] == 0
    assert features(far, QUERY)["window"][1] == 0


def test_neighbours_of_another_scope_say_nothing() -> None:
    found = candidates(2, scope=[1, 2], matched=[7, 0])
    assert features(found, QUERY)["before"][1] == 0


def test_a_gap_in_the_order_is_no_neighbour() -> None:
    found = candidates(2, seq=[4, 6], matched=[7, 0])
    values = features(found, QUERY)
    assert values["before"][1] == 0
    assert values["before2"][1] > 0


def test_who_is_named_comes_before_who_is_not() -> None:
    assert rank(candidates(3, named=[0, 1, 0]), QUERY).order[0] == 1


def test_among_equals_the_newest_comes_first_unless_recency_is_off() -> None:
    assert rank(candidates(3, time=[0, 7200, 14400]), QUERY).order.tolist() == [2, 1, 0]
    assert rank(candidates(3, time=[0, 7200, 14400]), QUERY, Parts().without("recency")).order.tolist() == [0, 1, 2]


def test_nothing_to_rank_is_an_empty_ranking() -> None:
    assert len(rank(candidates(0), QUERY).order) == 0


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(ValueError, match="unknown part smell; there are dense, lexical"):
        Parts().without("smell")


def test_every_weight_belongs_to_a_feature() -> None:
    assert set(BASE) <= set(FEATURES)
    assert set(FINAL) <= set(FEATURES)
