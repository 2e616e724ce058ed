"""`pkg dev validate`: formats, exit codes, dependencies by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from lumia.cli.pkg.validate import validate_command

BAD = """import lumia


@lumia.event.consumer("dice.roll")
def roll(content: lumia.Box[int]) -> None:
    lumia.store.set("last", content.into())


@lumia.pipe.on("msg")
def ask(content: lumia.Box[dict]) -> None:
    lumia.event.start("dice.roll", lumia.Box.any("six"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "dice"
    made.mkdir()
    (made / "manifest.json").write_text('{"name": "dice"}')
    (made / "plugin.py").write_text(BAD)
    return made


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(validate_command)
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_text_is_for_people_and_an_error_is_exit_code_1(folder: Path) -> None:
    done = run(folder)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0].startswith("plugin.py:11:36: error LUM101 this Box holds a str")
    assert "    plugin.py:5: dice.roll declares Box[int]" in done.stdout
    assert "dice: 1 error, 0 warnings" in done.stderr


def test_json_and_sarif_are_data_alone(folder: Path) -> None:
    (row,) = json.loads(run(folder, "--format", "json").stdout)
    assert (row["rule"], row["line"], row["page"]) == ("LUM101", 11, "docs/rules/LUM101.md")
    (result,) = json.loads(run(folder, "--format", "sarif", "--no-ruff").stdout)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 11, "startColumn": 36}


def test_a_good_plugin_says_so_and_exits_with_0(folder: Path) -> None:
    (folder / "plugin.py").write_text(BAD.replace('"six"', "6"))
    done = run(folder)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "dice: nothing found" in done.stderr


def test_a_dependency_may_lie_anywhere(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "far" / "ledger"
    other.mkdir(parents=True)
    (other / "manifest.json").write_text('{"name": "ledger"}')
    (other / "plugin.py").write_text(BAD.replace("dice.roll", "ledger.add").replace('"six"', "6"))
    (folder / "plugin.py").write_text('import lumia\n\nlumia.event.start("ledger.add", lumia.Box.any("x"))\n')
    assert run(folder, "--no-ruff").exit_code == 0
    assert "ledger.add" in run(folder, "--no-ruff", "--dependency", other).stdout


def test_a_folder_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    assert run(tmp_path / "gone").exit_code == 2
