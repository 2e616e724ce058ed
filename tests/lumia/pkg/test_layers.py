"""Layers: switched, taken over by running processes, and removed when nobody uses them."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from lumia.errors import PluginLoadError
from lumia.opening import use_layer
from lumia.pkg import import_path, layers
from lumia.pkg.layers import Layer, Package
from tests.support.wheels import wheel


def made(root: Path, version: str, name: str = "layered") -> Layer:
    layer = layers.layer_of(root, [Package(name, version)], {"one": (name,)}, "test")
    zipfile.ZipFile(wheel(root / "wheels", name, version)).extractall(layer.folder)
    layers.write_about(layer, layer.folder)
    return layer


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(import_path, "_held", {})
    yield
    for name in ("layered", "compiled", "spaced", "spaced.first", "spaced.second"):
        sys.modules.pop(name, None)


def test_a_layer_is_named_by_its_content(tmp_path: Path) -> None:
    one, two = made(tmp_path, "1.0"), made(tmp_path, "2.0")
    assert one.name != two.name and one.name.startswith("test-")
    assert layers.layer_of(tmp_path, one.packages, {}, "test").name == one.name
    assert layers.read(tmp_path, one.name) == layers.layer_of(tmp_path, one.packages, {}, "test")
    for name in ("", "..", "../x", ".lock", "absent"):
        assert layers.read(tmp_path, name) is None


def test_a_switch_can_be_undone(tmp_path: Path) -> None:
    one, two = made(tmp_path, "1.0"), made(tmp_path, "2.0")
    assert layers.switch(tmp_path, one) is None
    before = layers.switch(tmp_path, two)
    assert before == one and layers.current(tmp_path) == two
    layers.switch(tmp_path, before)
    assert layers.current(tmp_path) == one
    layers.switch(tmp_path, None)
    assert layers.current(tmp_path) is None


def test_a_damaged_pointer_is_no_layer(tmp_path: Path) -> None:
    layers.switch(tmp_path, made(tmp_path, "1.0"))
    (tmp_path / "data/python/current.json").write_text("{broken")
    assert layers.current(tmp_path) is None


def test_a_process_that_imported_another_version_is_told_so_and_one_that_did_not_goes_on(tmp_path: Path) -> None:
    one, two = made(tmp_path, "1.0"), made(tmp_path, "2.0")
    assert import_path.activate(tmp_path, one) == ()
    assert import_path.activate(tmp_path, two) == ()
    assert sys.path[-2:] == [str(two.folder), str(one.folder)]
    assert import_path.activate(tmp_path, None) == ()
    assert importlib.import_module("layered").VERSION == "2.0"
    assert import_path.clashes(two) == () and import_path.clashes(None) == ()
    path = list(sys.path)
    layers.switch(tmp_path, one)
    with pytest.raises(PluginLoadError, match=r"layered 2\.0 is imported here, .*: end the bot .*`lumia down`"):
        use_layer(tmp_path)
    assert sys.path == path
    assert import_path.activate(tmp_path, one) == (
        "layered 2.0 is imported here, and layered 1.0 comes for plugin one (layered)",
    )


def test_a_process_goes_back_to_the_layers_it_had_and_forgets_the_modules_of_others(tmp_path: Path) -> None:
    one, two = made(tmp_path, "1.0"), made(tmp_path, "2.0")
    for layer, part in ((one, "first"), (two, "second")):
        (layer.folder / "spaced").mkdir()
        (layer.folder / "spaced" / f"{part}.py").write_text("")
    import_path.activate(tmp_path, one)
    importlib.import_module("spaced.first")
    before = import_path.on_path(tmp_path)
    import_path.activate(tmp_path, two)
    importlib.import_module("spaced.second")
    spaced = sys.modules["spaced"]
    assert importlib.import_module("layered").VERSION == "2.0"
    import_path.back_to(tmp_path, before)
    assert import_path.on_path(tmp_path) == (str(one.folder),)
    assert hasattr(spaced, "first") and not hasattr(spaced, "second")
    assert importlib.import_module("layered").VERSION == "1.0"
    assert layers.sweep(tmp_path) == [two.name]  # nobody uses it any more

    # Compiled modules can't be loaded twice, and use what they came with: all stay, and say so.
    sys.modules.pop("layered")
    two = made(tmp_path, "2.0")
    import_path.activate(tmp_path, two)
    compiled = sys.modules["compiled"] = ModuleType("compiled")
    compiled.__file__ = f"{two.folder}/compiled{EXTENSION_SUFFIXES[0]}"
    importlib.import_module("layered")
    import_path.back_to(tmp_path, before)
    assert sys.modules["layered"].VERSION == "2.0" and import_path.clashes(made(tmp_path, "3.0"))
    layers.switch(tmp_path, one)
    assert layers.sweep(tmp_path, keep=[layers.layer_of(tmp_path, [Package("layered", "3.0")], {}, "test").name]) == []


def test_layers_nobody_uses_are_removed(tmp_path: Path) -> None:
    current, kept, idle, used = (made(tmp_path, f"{n}.0") for n in range(4))
    layers.switch(tmp_path, current)
    (tmp_path / "data/python/.building-of-one-that-was-killed/layered").mkdir(parents=True)
    code = (
        "import sys; from pathlib import Path; from lumia.pkg import import_path, layers; root = Path(sys.argv[1]); "
        "import_path.activate(root, layers.read(root, sys.argv[2])); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), used.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        assert layers.sweep(tmp_path, keep=[kept.name]) == [idle.name]
        holder.kill()
    assert layers.sweep(tmp_path, keep=[kept.name]) == [used.name]
    left = {path.name for path in (tmp_path / "data/python").iterdir()}
    assert left == {current.name, kept.name, "current.json", ".lock"}
