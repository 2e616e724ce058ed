"""The whole: nothing is executed, comments silence, neighbours are found, this repository's plugins are clean."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lumia
from lumia.pkg.validate import failed, validate
from lumia.pkg.validate.beside import dependencies_of

ROOT = Path(lumia.__file__).resolve().parents[1]
OURS = sorted(
    path.parent for place in ("handlers", "adapters", "plugins") for path in ROOT.glob(f"{place}/*/manifest.json")
)


def plugin(folder: Path, code: str, manifest: str = '{"name": "dice"}') -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(manifest)
    (folder / "plugin.py").write_text(code)
    return folder


@pytest.mark.parametrize("folder", OURS, ids=lambda folder: folder.name)
def test_the_plugins_of_this_repository_are_clean(folder: Path) -> None:
    assert validate(folder, dependencies=dependencies_of(folder), lint=False) == []


def test_nothing_of_the_plugin_is_executed_or_written(tmp_path: Path) -> None:
    code = (
        "import lumia, pathlib, sys\n"
        "pathlib.Path('executed').touch()\n"
        "sys.exit('executed')\n"
        "@lumia.event.consumer('a', priv=sys.exit(3))\n"
        "def f(content: lumia.Box = sys.exit(4)) -> sys.exit(5): ...\n"
    )
    folder = plugin(tmp_path / "dice", code)
    before = set(sys.modules)
    validate(folder, lint=False)
    assert not [name for name in set(sys.modules) - before if "dice" in name]
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "plugin.py"]


def test_a_comment_silences_one_rule_or_all_on_its_line(tmp_path: Path) -> None:
    start = "    lumia.event.start('a', 1)"
    head = "import lumia\n\n\ndef go():\n"
    for comment, silent in (("", False), ("  # noqa: LUM104", True), ("  # noqa", True), ("  # noqa: LUM101", False)):
        folder = plugin(tmp_path / "dice", f"{head}{start}{comment}\n")
        assert (validate(folder, lint=False) == []) is silent, comment


def test_the_plugins_it_depends_on_are_found_beside_it(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "dice", "", '{"name": "dice", "dependencies": {"led-ger": "", "heartflow": ""}}')
    plugin(tmp_path / "led_ger", "", '{"name": "led-ger", "dependencies": {"dice": "", "gone": ""}}')
    found = [path.name for path in dependencies_of(folder)]
    assert found[0] in ("heartflow", "led_ger") and {"heartflow", "led_ger"} <= set(found)
    assert "dice" not in found


def test_findings_of_a_plugin_it_depends_on_are_not_shown(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "dice", "")
    other = plugin(tmp_path / "other", "import lumia\nlumia.event.start('a', 1)\n", '{"name": "other"}')
    assert validate(folder, dependencies=[other], lint=False) == []
    assert failed(validate(other, lint=False))


def test_code_nested_beyond_measure_hides_only_its_own_file(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "dice", "import lumia\nlumia.event.start('a', 1)\n")
    (folder / "table.py").write_text(f"x = {' + '.join('1' * 900)}\ny = {'[' * 80}{']' * 80}\n")
    assert [(one.file, one.rule) for one in validate(folder, lint=False)] == [("plugin.py", "LUM104")]


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "secret.py"
    outside.write_text("def (:\n")
    folder = plugin(tmp_path / "dice", "")
    (folder / "linked.py").symlink_to(outside)
    assert validate(folder, lint=False) == []


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"x = '\x00'\n", b"# coding: nonsense\n", b"(" * 5000, b"x = " + b"-" * 20000 + b"1\n"]
)
def test_a_file_that_cannot_be_read_is_a_finding(content: bytes, tmp_path: Path) -> None:
    folder = plugin(tmp_path / "dice", "")
    (folder / "odd.py").write_bytes(content)
    assert {one.rule for one in validate(folder, lint=False)} == {"LUM003"}
