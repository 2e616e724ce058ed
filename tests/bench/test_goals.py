"""Goals are judged against the figures of latest.json."""

from __future__ import annotations

from typing import Any

from bench import goals


def spread(value: float) -> dict[str, Any]:
    return {"median": value, "low": value, "high": value, "values": [value]}


def contender(name: str, rate: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"name": name, **({"rate": spread(rate)} if rate else {}), **more}


def verdicts(**found: Any) -> dict[str, bool | None]:
    return {goal.name: goal.met for goal in goals.judge({"contenders": [], **found})}


def test_the_ratio_to_celery_is_that_to_its_best_variant() -> None:
    found = {"contenders": [contender("lumia", 1000), contender("celery-chain-solo", 250),
                            contender("celery-chain-threads", 100), contender("dramatiq", 700)]}  # fmt: skip
    assert goals.ratios(found) == {"celery-chain-solo": 4.0, "celery-chain-threads": 10.0, "dramatiq": 1000 / 700}
    judged = {goal.name: goal for goal in goals.judge(found)}
    chain = judged["throughput over the best Celery chain"]
    assert (chain.figure, chain.met, chain.verdict) == (4.0, False, "**not met**")
    assert judged["throughput over Dramatiq's pipeline"].met


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert set(verdicts().values()) == {None}
    assert verdicts(contenders=[contender("lumia", 1000)])["throughput over the best Celery chain"] is None


def test_latency_memory_and_growth_are_judged_at_their_limits() -> None:
    latency = {"steady": {"p50": spread(6.0), "p99": spread(19.9)}}
    handlers = [{"handlers": n, "accept": spread(1), "work": spread(cost)} for n, cost in ((10, 9), (10_000, 14))]
    lanes = [
        {"lanes": n, "keys": keys, "idle_accept": spread(1), "idle_work": spread(9)} for n, keys in ((1, 0), (9, 1))
    ]
    memory = {"in_lanes": 1024, "without_lane": 1025, "archived": 400}
    found = verdicts(contenders=[contender("lumia", latency=latency)], handlers=handlers, lanes=lanes, memory=memory)
    assert list(found.values()) == [None, None, False, True, True, False, True, True, True, False]
