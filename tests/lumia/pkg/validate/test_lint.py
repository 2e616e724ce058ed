"""Layer 1: ruff is run where it is, and missed kindly where it isn't."""

from __future__ import annotations

from pathlib import Path

import pytest

from lumia.pkg.validate import lint, validate

MESSY = "import os\nx  =  1\n"


def messy(folder: Path) -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text('{"name": "dice"}')
    (folder / "pyproject.toml").write_text('[tool.ruff.lint]\nselect = ["F"]\n')
    (folder / "plugin.py").write_text(MESSY)
    return folder


def test_style_and_format_are_found_with_the_settings_of_the_plugin(tmp_path: Path) -> None:
    found = validate(messy(tmp_path / "dice"))
    assert [(one.file, one.line, one.rule) for one in found] == [("plugin.py", 1, "F401"), ("plugin.py", 2, "LUM005")]
    assert found[0].page.startswith("https://docs.astral.sh/ruff/rules/")


def test_without_ruff_there_is_one_warning_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint, "ruff", lambda: None)
    (found,) = validate(messy(tmp_path / "dice"))
    assert (found.rule, found.severity) == ("LUM004", "warning")
    assert "lumia[authors]" in found.message


def test_settings_that_ruff_cannot_read_are_a_warning(tmp_path: Path) -> None:
    folder = messy(tmp_path / "dice")
    (folder / "pyproject.toml").write_text("[tool.ruff]\nline-length = 'wide'\n")
    (found,) = validate(folder)
    assert found.rule == "LUM004" and "line-length" in found.message
