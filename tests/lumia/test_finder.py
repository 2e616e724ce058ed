"""The finder: one canonical name for a plugin's modules in every process (DESIGN §3)."""

from __future__ import annotations

import importlib
import importlib.resources
import os
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

import dill
import pytest

from lumia import finder
from tests.support.plugins import PluginBot, in_fresh_process

NOTE = "class Note:\n    def __init__(self, text):\n        self.text = text\n"


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[PluginBot]:
    with PluginBot(tmp_path) as made:
        finder.install(made.base, made.root)
        yield made


def compiled(file: Path, shown_as: str | None = None) -> Path:
    """Replace a source file by its bytecode."""
    target = file.with_suffix(".pyc")
    py_compile.compile(str(file), cfile=str(target), dfile=shown_as, doraise=True)
    file.unlink()
    return target


def test_plugins_of_all_three_places_have_canonical_names(bot: PluginBot) -> None:
    for place, name in (
        ("handlers/heartflow", "handlers.heartflow.plugin"),
        ("adapters/console", "adapters.console.plugin"),
        ("plugins/persona-loader", "lumia_plugins.persona_loader.plugin"),
    ):
        folder = bot.plugin(place, NOTE)
        finder.FINDER.forget(name.rpartition(".")[0])  # another test may have loaded the real one
        module = importlib.import_module(name)
        assert module.__file__ == str(folder / "plugin.py")
        assert module.Note.__module__ == name


def test_a_plugins_own_modules_and_packages_import_each_other(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/two_parts", "from .words import GREETING\nfrom .deep.inner import DEPTH\n")
    (folder / "words.py").write_text("GREETING = 'hello'\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "inner.py").write_text("from lumia_plugins.two_parts.words import GREETING\nDEPTH = GREETING\n")
    module = importlib.import_module("lumia_plugins.two_parts.plugin")
    assert (module.GREETING, module.DEPTH) == ("hello", "hello")


def test_a_package_file_of_the_plugin_runs_first(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/packed", "from lumia_plugins.packed import READY\n")
    (folder / "__init__.py").write_text("READY = True\n")
    assert importlib.import_module("lumia_plugins.packed.plugin").READY
    assert sys.modules["lumia_plugins.packed"].__file__ == str(folder / "__init__.py")


def test_compiled_plugins_need_no_source(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/closed", "from .secret import VALUE\ndef boom():\n    raise ValueError\n")
    (folder / "secret.py").write_text("VALUE = 42\n")
    (folder / "__init__.py").write_text("")
    for name in ("plugin.py", "secret.py", "__init__.py"):
        compiled(folder / name, shown_as=f"/home/author/{name}")
    module = importlib.import_module("lumia_plugins.closed.plugin")
    assert module.VALUE == 42
    assert module.__file__ == str(folder / "plugin.pyc")
    assert module.boom.__code__.co_filename == str(folder / "plugin.pyc")


def test_files_beside_the_code_are_readable_as_resources(bot: PluginBot) -> None:
    folder = bot.plugin("adapters/page")
    (folder / "page.html").write_text("<p>hello</p>")
    importlib.import_module("adapters.page.plugin")
    assert importlib.resources.files("adapters.page").joinpath("page.html").read_text() == "<p>hello</p>"


def test_a_linked_plugin_folder_is_served(bot: PluginBot, tmp_path: Path) -> None:
    workplace = bot.plugin("plugins/mine", NOTE).rename(tmp_path / "workplace")
    (bot.root / "plugins" / "mine").symlink_to(workplace)
    assert importlib.import_module("lumia_plugins.mine.plugin").Note("x").text == "x"


@pytest.mark.parametrize(
    "name",
    ["lumia_plugins.absent", "lumia_plugins.bare", "handlers.heartflow.absent", "adapters.none.plugin"],
)
def test_what_is_not_there_is_a_module_not_found(bot: PluginBot, name: str) -> None:
    bot.plugin("handlers/heartflow")
    (bot.root / "plugins" / "bare.txt").write_text("no folder")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


def test_a_bot_without_plugins_folder_is_fine(bot: PluginBot) -> None:
    (bot.root / "plugins").rmdir()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("lumia_plugins.echo")


def test_other_modules_are_none_of_its_business() -> None:
    assert finder.FINDER.find_spec("json", None) is None
    assert finder.FINDER.find_spec("handlersish.x", None) is None


def test_installing_twice_changes_nothing(bot: PluginBot) -> None:
    finder.install(bot.base, bot.root)
    finder.install(bot.base)
    assert sys.meta_path.count(finder.FINDER) == 1
    folder = bot.plugin("handlers/once")
    spec = finder.FINDER.find_spec("handlers", None)
    assert spec is not None
    assert (spec.submodule_search_locations or []).count(str(bot.base / "handlers")) == 1
    assert finder.FINDER.folder("handlers.once") == folder


def test_the_bot_installed_last_is_searched_first(bot: PluginBot, tmp_path: Path) -> None:
    bot.plugin("plugins/echo", "WHICH = 'first'\n")
    with PluginBot(tmp_path / "second") as second:
        folder = second.plugin("plugins/echo", "WHICH = 'second'\n")
        finder.install(second.base, second.root)
        assert finder.FINDER.folder("lumia_plugins.echo") == folder
        finder.install(bot.base, bot.root)
        assert finder.FINDER.folder("lumia_plugins.echo") == bot.root / "plugins" / "echo"
    finder.uninstall(bot.base, bot.root)
    assert finder.FINDER.folder("lumia_plugins.echo") is None


def test_a_base_alone_can_be_taken_out_again(tmp_path: Path) -> None:
    with PluginBot(tmp_path) as other:
        other.plugin("handlers/lone")
        finder.install(other.base)
        assert finder.FINDER.folder("handlers.lone") is not None
        finder.uninstall(other.base)
        assert finder.FINDER.folder("handlers.lone") is None


def test_a_served_folder_goes_before_the_search_until_it_is_forgotten_or_gone(bot: PluginBot, tmp_path: Path) -> None:
    found = bot.plugin("plugins/a-b", "WHICH = 'found'\n")
    served = bot.plugin("plugins/a_b", "WHICH = 'served'\n")
    assert finder.FINDER.folder("lumia_plugins.a_b") == found
    finder.FINDER.serve("lumia_plugins.a_b", served)
    assert importlib.import_module("lumia_plugins.a_b.plugin").WHICH == "served"
    finder.FINDER.serve("lumia_plugins.a_b", tmp_path / "gone")
    assert finder.FINDER.folder("lumia_plugins.a_b") == found
    finder.FINDER.serve("lumia_plugins.a_b", served)
    finder.FINDER.forget("lumia_plugins.a_b")
    assert importlib.import_module("lumia_plugins.a_b.plugin").WHICH == "found"


def test_forgetting_takes_out_the_package_with_all_its_modules(bot: PluginBot) -> None:
    bot.plugin("plugins/echo", NOTE)
    bot.plugin("plugins/echo_two", NOTE)
    for name in ("echo", "echo_two"):
        importlib.import_module(f"lumia_plugins.{name}.plugin")
    gone = finder.FINDER.forget("lumia_plugins.echo")
    assert set(gone) == {"lumia_plugins.echo", "lumia_plugins.echo.plugin"}
    assert not {name for name in sys.modules if name.startswith("lumia_plugins.echo.")}
    assert "lumia_plugins.echo_two.plugin" in sys.modules
    assert not hasattr(sys.modules["lumia_plugins"], "echo")
    assert finder.FINDER.forget("lumia_plugins.never_there") == {}


def test_an_edit_of_the_same_length_at_the_same_instant_is_seen(
    bot: PluginBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = bot.plugin("plugins/quick", "VALUE = 0.5\n")
    stamp = (folder / "plugin.py").stat()
    assert importlib.import_module("lumia_plugins.quick.plugin").VALUE == 0.5
    finder.FINDER.forget("lumia_plugins.quick")
    (folder / "plugin.py").write_text("VALUE = 0.7\n")
    os.utime(folder / "plugin.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert importlib.import_module("lumia_plugins.quick.plugin").VALUE == 0.7


def test_unchanged_source_is_not_compiled_again(bot: PluginBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = bot.plugin("plugins/cached", "VALUE = 1\n")
    importlib.import_module("lumia_plugins.cached.plugin")
    (cache,) = (folder / "__pycache__").glob("plugin.*.pyc")
    before = cache.stat().st_mtime_ns
    finder.FINDER.forget("lumia_plugins.cached")
    os.utime(folder / "plugin.py")
    importlib.import_module("lumia_plugins.cached.plugin")
    assert cache.stat().st_mtime_ns == before


def test_an_object_stored_in_one_process_is_of_the_same_class_in_another(bot: PluginBot, tmp_path: Path) -> None:
    bot.plugin("handlers/notes", NOTE)
    bot.plugin("plugins/sticky-notes", NOTE)
    foreign = tmp_path / "foreign"
    (foreign / "handlers").mkdir(parents=True)
    (foreign / "handlers" / "__init__.py").write_text("raise RuntimeError('the working folder must not win')\n")
    for package in ("handlers.notes", "lumia_plugins.sticky_notes"):
        store = f"import dill\nfrom {package}.plugin import Note\nprint(dill.dumps(Note('from afar')).hex())"
        stored = in_fresh_process(bot, store, foreign)
        read = f"import dill\nnote = dill.loads(bytes.fromhex({stored!r}))\n"
        read += f"from {package}.plugin import Note\nprint(type(note) is Note, note.text)"
        assert in_fresh_process(bot, read, tmp_path) == "True from afar"
        note = dill.loads(bytes.fromhex(stored))
        assert type(note) is importlib.import_module(f"{package}.plugin").Note


def test_bytecode_of_another_python_is_called_that(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/closed")
    file = compiled(folder / "plugin.py")
    file.write_bytes(b"\x00\x00\r\n" + file.read_bytes()[4:])
    with pytest.raises(ImportError, match=r"plugin\.pyc is bytecode of another version of Python than \d\.\d+"):
        importlib.import_module("lumia_plugins.closed.plugin")
