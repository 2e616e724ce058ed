"""The pages of the rules: each rule has one, and its examples are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lumia
from lumia.pkg.validate import RULES, validate

DOCS = Path(lumia.__file__).resolve().parents[1] / "docs"
CODE = re.compile(r"(Found|Right):\n\n```python\n(.*?)```", re.DOTALL)


def text_of(rule: str) -> str:
    return (DOCS / "rules" / f"{rule}.md").read_text("utf-8")


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_page_with_its_title_and_a_line_in_the_list(rule: str) -> None:
    assert text_of(rule).startswith(f"# {rule}: {RULES[rule].title}\n")
    assert f"[{rule}](rules/{rule}.md) | {RULES[rule].title} | {RULES[rule].severity} |" in (
        DOCS / "validate.md"
    ).read_text("utf-8")


def test_no_page_outlives_its_rule() -> None:
    assert {path.stem for path in (DOCS / "rules").iterdir()} == set(RULES)


@pytest.mark.parametrize("rule,kind,code", [
    (rule, kind, code) for rule in RULES for kind, code in CODE.findall(text_of(rule))
])  # fmt: skip
def test_the_examples_of_a_rule_are_true(rule: str, kind: str, code: str, tmp_path: Path) -> None:
    folder = tmp_path / "dice"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"name": "dice"}')
    (folder / "plugin.py").write_text(code)
    found = {one.rule for one in validate(folder, lint=False)}
    assert found == ({rule} if kind == "Found" else set())
