from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lumia.errors import RegistryError
from lumia.pkg.revocation import FILE, Revoked, load, parse, save

ANSWER = {
    "keys": [{"fingerprint": "AB" * 32, "reason": "stolen\x1b[2J", "date": "2026-01-01T00:00:00Z"}],
    "versions": [{"name": "dice", "tag": "v1", "reason": "harm", "date": "2026-01-01T00:00:00Z"}],
}


def test_the_registrys_answer_is_kept_for_when_it_is_away(tmp_path: Path) -> None:
    assert load(tmp_path) == Revoked()
    made = save(tmp_path, ANSWER)
    assert made == Revoked(keys={"ab" * 32: "stolen"}, versions={("dice", "v1"): "harm"})
    assert load(tmp_path) == made
    assert save(tmp_path, {"keys": [], "versions": []}) == Revoked() == load(tmp_path)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"keys": [], "versions": None},
        {"keys": ["x"], "versions": []},
        {"keys": [{"fingerprint": 3}], "versions": []},
        {"keys": [{"fingerprint": ""}], "versions": []},
        {"keys": [{}], "versions": []},
        {"keys": [], "versions": [{"name": "dice\x1b[2J", "tag": "v1"}]},
        {"keys": [{}] * 100_001, "versions": []},
    ],
)
def test_an_answer_of_another_shape_is_refused(tmp_path: Path, answer: Any) -> None:
    save(tmp_path, ANSWER)
    with pytest.raises(RegistryError):
        save(tmp_path, answer)
    assert load(tmp_path) == parse(ANSWER)


def test_a_damaged_list_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    save(tmp_path, ANSWER)
    (tmp_path / FILE).write_text("{")
    with pytest.raises(RegistryError, match="delete it"):
        load(tmp_path)
