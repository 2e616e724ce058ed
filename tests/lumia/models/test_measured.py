"""What is shipped of the embedded model is what the model and the samples give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.models import calibration, embedded, leaning, measured
from lumia.models.known import EMBEDDED


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    measured._shipped.cache_clear()
    yield
    measured._shipped.cache_clear()


def test_the_file_is_what_the_model_gives() -> None:
    def embed(texts: object) -> list[list[float]]:
        assert isinstance(texts, list)
        return embedded.embed(texts, query=True)

    found, shipped = calibration.measure(EMBEDDED, embed), measured.scale(EMBEDDED, "query")
    assert shipped is not None, "run `python -m lumia.models.measured`"
    assert shipped.dimension == found.dimension
    assert shipped.calibration.mean == pytest.approx(found.calibration.mean, abs=2e-3)
    assert shipped.calibration.std == pytest.approx(found.calibration.std, abs=2e-3)
    way, known = leaning.measure(embed), measured.direction(EMBEDDED, "query")
    assert way is not None
    assert known is not None
    for vector in embedded.embed(["how long does paint need to dry?", "where did you put my keys"], query=True):
        assert known.of(vector) == pytest.approx(way.of(vector), abs=0.02)


def test_there_is_a_direction_and_a_scale_for_both_kinds_of_input() -> None:
    for kind in measured.INPUT_TYPES:
        assert measured.scale(EMBEDDED, kind) is not None
        assert measured.direction(EMBEDDED, kind) is not None
    assert measured.main(["--check"]) == 0


@pytest.mark.parametrize("changed", [{"version": "0.0.1"}, {"samples": "others"}])
def test_another_version_or_other_samples_are_not_taken_for_it(
    changed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({**json.loads(measured.FILE.read_text("utf-8")), **changed}), "utf-8")
    monkeypatch.setattr(measured, "FILE", file)
    assert measured.scale(EMBEDDED, "query") is None
    assert measured.direction(EMBEDDED, "query") is None
    assert measured.main(["--check"]) == 1
    assert "python -m lumia.models.measured" in capsys.readouterr().err


def test_no_other_model_and_no_damaged_file_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured.scale("openai:text-embedding-3-small", "query") is None
    (tmp_path / "measured.json").write_text("{", "utf-8")
    monkeypatch.setattr(measured, "FILE", tmp_path / "measured.json")
    assert measured.scale(EMBEDDED, "query") is None
