"""Every small plugin of the corpus is judged as it is annotated: no false alarm, nothing missed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lumia.pkg.validate import RULES, validate
from tests.lumia.pkg.validate.plugin_corpus import CORPUS, Case, cases, read, seen

GOOD = [*cases("good"), *cases("holdout_good"), *cases("second_good"), *cases("third_good")]
BAD = [*cases("bad"), *cases("holdout_bad"), *cases("second_bad"), *cases("third_bad")]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_good_plugin_raises_no_alarm(case: Case, tmp_path: Path) -> None:
    assert case.found(tmp_path) == []


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_a_bad_plugin_is_found_out_line_by_line(case: Case, tmp_path: Path) -> None:
    assert seen(case.found(tmp_path)) == case.expected


def test_the_corpus_is_large_and_breaks_every_rule_the_layers_find() -> None:
    assert len(GOOD) + len(BAD) >= 80
    elsewhere = {"LUM004", "LUM005"}  # ruff's, see test_lint.py
    assert {rule for case in BAD for _, _, rule in case.expected} == set(RULES) - elsewhere


@pytest.mark.parametrize("seed", range(40))
def test_a_plugin_with_lines_missing_never_breaks_the_validator(seed: int, tmp_path: Path) -> None:
    """An author runs it on half-written code."""
    chosen = random.Random(seed)
    path = chosen.choice(sorted(CORPUS.glob("*/*.plugin")))
    case = read(path)
    for lines in case.files.values():
        for _ in range(chosen.randint(1, 4)):
            if lines:
                at = chosen.randrange(len(lines))
                lines[at : at + 1] = chosen.choice([[], [lines[at] * 2], [chosen.choice(lines)]])
    folder, others = case.lay_out(tmp_path)
    validate(folder, dependencies=others, lint=False)
