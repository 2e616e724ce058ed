"""Python packages of plugins: real pip, wheels from a folder, no index."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from lumia.errors import PlanError, SourceError
from lumia.pkg import import_path, journal, layers, mutex, pip, python_deps
from lumia.pkg.layers import Layer, Package
from lumia.pkg.layout import Layout
from lumia.pkg.python_deps import build, ensure, resolve, resolve_isolated
from tests.support.wheels import pip_env, wheel, wheels
from tests.support.workers import bot_root

HERE = version("pydantic")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in pip_env(tmp_path / "wheels").items():
        monkeypatch.setenv(name, value)
    return wheels(
        tmp_path / "wheels",
        ("feedreader", "6.0", "sgml-parts>=1"),
        ("sgml-parts", "1.0"),
        ("sgml-parts", "2.0"),
        ("needs-old", "1.0", "sgml-parts<2"),
        ("needs-new", "1.0", "sgml-parts>=2"),
    )


def laid(root: Path, file: Path, name: str, version: str) -> Layer:
    """Make a layer of one wheel the current one, without pip."""
    layer = layers.layer_of(root, [Package(name, version)], {"one": (name,)}, "test")
    zipfile.ZipFile(file).extractall(layer.folder)
    layers.write_about(layer, layer.folder)
    layers.switch(root, layer)
    return layer


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(import_path, "_held", {})


def test_packages_are_resolved_then_built_then_used_and_nothing_happens_before(shelf: Path, tmp_path: Path) -> None:
    told: list[str] = []
    layer = resolve({"feeds": ["feedreader>=6,<7"], "plain": []}, root=tmp_path, say=told.append)
    assert layer is not None and not layer.folder.exists()
    assert [(one.name, one.version, len(one.sha256)) for one in layer.packages] == [
        ("feedreader", "6.0", 64),
        ("sgml-parts", "2.0", 64),
    ]
    assert told[0] == "looking for the Python packages of feeds"
    assert build(layer) == layer and layer.built
    assert layers.current(tmp_path) is None
    assert layers.switch(tmp_path, layer) is None
    assert layers.current(tmp_path) == layer
    import_path.activate(tmp_path, layer)
    assert sys.path[-1] == str(layer.folder)
    code = (
        f"import sys; sys.path.append({str(layer.folder)!r}); import feedreader, sgml_parts; print(sgml_parts.VERSION)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "2.0\n"
    # The same again asks nobody, and neither does less.
    (shelf / "feedreader-6.0-py3-none-any.whl").unlink()
    assert ensure({"feeds": ["feedreader>=6,<7"]}, root=tmp_path) == layer
    less = ensure({"other": ["sgml-parts"]}, root=tmp_path)
    assert less is not None and less.name == layer.name and less.requirements == {"other": ("sgml-parts",)}
    assert ensure({}, root=tmp_path) is None


def test_what_the_bot_has_is_not_installed_again(tmp_path: Path) -> None:
    assert resolve({"feeds": ["pydantic>=2", "packaging"]}, root=tmp_path) is None


def test_a_requirement_of_another_system_does_not_count(tmp_path: Path) -> None:
    assert resolve({"feeds": ["pywin32 ; sys_platform == 'nowhere'"]}, root=tmp_path) is None


def test_a_conflict_with_the_bot_names_both_sides_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        resolve({"old-timer": ["pydantic<2"]}, root=tmp_path)
    text = str(caught.value)
    assert text.startswith(f"plugin old-timer needs pydantic<2, and the bot has pydantic {HERE} (lumia ")
    assert '"isolation": "process"' in text


def test_a_conflict_further_down_names_the_plugin_and_what_the_bot_has(shelf: Path, tmp_path: Path) -> None:
    wheel(shelf, "old-school", "1.0", "pydantic<2")
    with pytest.raises(PlanError) as caught:
        resolve({"old-timer": ["old-school"]}, root=tmp_path)
    text = str(caught.value)
    assert "old-school 1.0 needs pydantic<2" in text and f"the bot has pydantic {HERE}" in text


def test_a_conflict_of_two_plugins_names_both_requirements(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        resolve({"one": ["sgml-parts<2"], "two": ["sgml-parts>=2"]}, root=tmp_path)
    text = str(caught.value)
    assert "plugin one needs sgml-parts<2" in text and "plugin two needs sgml-parts>=2" in text


def test_plugins_keep_the_versions_they_have_until_one_needs_another(shelf: Path, tmp_path: Path) -> None:
    laid(tmp_path, shelf / "sgml_parts-1.0-py3-none-any.whl", "sgml-parts", "1.0")
    second = resolve({"one": ["sgml-parts"], "feeds": ["feedreader"]}, root=tmp_path)
    assert second is not None and ("sgml-parts", "1.0") in {(one.name, one.version) for one in second.packages}
    third = resolve({"one": ["sgml-parts"], "two": ["needs-new"]}, root=tmp_path)
    assert third is not None and ("sgml-parts", "2.0") in {(one.name, one.version) for one in third.packages}


def test_a_package_nobody_has_is_named(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no Python package to be had fits no-such-thing>=1"):
        resolve({"feeds": ["no-such-thing>=1"]}, root=tmp_path)


def test_a_file_that_is_not_the_resolved_one_is_refused_and_leaves_nothing(shelf: Path, tmp_path: Path) -> None:
    layer = resolve({"one": ["sgml-parts<2"]}, root=tmp_path)
    wheel(shelf, "sgml-parts", "1.0", code="import os; os.abort()\n")
    with pytest.raises(SourceError, match="can't be installed"):
        build(layer)
    assert [path.name for path in (tmp_path / "data" / "python").iterdir()] == [".lock"]


def test_an_isolated_plugin_has_to_agree_with_lumia_only(shelf: Path, tmp_path: Path) -> None:
    bots = version("mypy")
    wheel(shelf, "mypy", "0.1")
    found = resolve_isolated("odd", ["mypy<1", "sgml-parts"], root=tmp_path)
    assert [(one.name, one.version) for one in found] == [("mypy", "0.1"), ("sgml-parts", "2.0")]
    with pytest.raises(PlanError, match=f"the bot has mypy {bots}"):
        resolve({"odd": ["mypy<1"]}, root=tmp_path)
    wheel(shelf, "pydantic", "1.0")
    with pytest.raises(PlanError, match="plugin odd needs pydantic<2; Lumia needs pydantic<3 and >=2"):
        resolve_isolated("odd", ["pydantic<2"], root=tmp_path)


def test_what_undoing_an_operation_needs_is_not_tidied_away(tmp_path: Path) -> None:
    root, shelf = bot_root(tmp_path / "bot"), tmp_path / "wheels"
    old, new, idle = (
        laid(root, wheel(shelf, "sgml-parts", version), "sgml-parts", version) for version in ("1.0", "2.0", "3.0")
    )
    switched = journal.Packages(old=layers.pointing(old), new=layers.pointing(new))
    layers.point(root, switched.new)
    layout = Layout(root)
    with mutex.hold(layout):  # as one that was cut off, and can't be undone just now
        begun = journal.Journal(
            id="20261122T000000-abcdef", started="2026-11-22T00:00:00Z", command="pkg -U", area="data/pkg/undo/x",
            changes=(), commit=journal.Commit(branch="main", old=None), had_lock=False, packages=switched,
        )  # fmt: skip
        journal.write(layout, begun)
    assert python_deps.tidy(root) == [idle.name]
    layout.journal.unlink()
    assert python_deps.tidy(root) == [old.name]


def test_without_pip_in_the_environment_the_one_that_python_brings_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    pip._pip.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else real(name))
    words = pip._pip(sys.executable)
    pip._pip.cache_clear()
    assert subprocess.check_output([*words, "--version"], text=True).startswith("pip ")


def test_the_password_of_an_index_is_not_shown() -> None:
    assert pip._shown("Looking in https://me:hunter2@index.example/all\x1b[2J") == (
        "Looking in https://***@index.example/all[2J"
    )
