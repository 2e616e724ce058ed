"""Loading: import, marks, verification, configuration; one bad plugin never stops the others (spec §7)."""

from __future__ import annotations

import py_compile
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.box import Box
from lumia.config import ConfigStore
from lumia.discovery import digest
from lumia.errors import BoxTypeError
from lumia.loader import Loader, PluginFailure, PluginSet
from tests.support.plugins import PluginBot, commit, git, in_fresh_process

ECHO = """\
import lumia


@lumia.pipe.on("msg", priv=50)
def handle(content: lumia.Box):
    lumia.utils.next()
"""


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[PluginBot]:
    with PluginBot(tmp_path) as made:
        yield made


def only_failure(loaded: PluginSet) -> PluginFailure:
    (failure,) = loaded.failures
    return failure


def test_a_loaded_plugin_is_described_completely(bot: PluginBot) -> None:
    folder = bot.plugin("handlers/heart_flow", ECHO)
    loaded = bot.load()
    plugin = loaded.plugins["heart-flow"]
    assert loaded.failures == []
    assert (plugin.version, plugin.folder, plugin.package) == ("0.2.0", folder, "handlers.heart_flow")
    assert plugin.generation == f"0.2.0+{digest(folder)}"
    assert plugin.module is sys.modules["handlers.heart_flow.plugin"]
    (handler,) = plugin.handlers
    assert (handler.name, handler.plugin, handler.generation) == ("heart_flow.handle", "heart-flow", plugin.generation)
    assert (handler.mark.kind, handler.mark.id, handler.mark.priv) == ("pipe", "msg", 50)
    assert handler.fn is plugin.module.handle
    assert handler.source == "handlers/heart_flow/plugin.py:4"


def test_marks_of_all_the_plugins_modules_are_collected_in_registration_order(bot: PluginBot) -> None:
    folder = bot.plugin(
        "plugins/parts",
        "import lumia\nfrom . import stages\n@lumia.event.consumer('b')\n@lumia.cron('* * * * *')\n"
        "def last(content): ...\n",
    )
    (folder / "stages.py").write_text(
        "import lumia\n@lumia.pipe.on('a')\ndef first(content): ...\n"
        "@lumia.pipe.on_re('a.*')\ndef second(src, content): ...\n"
    )
    loaded = bot.load()
    assert [(handler.name, handler.mark.kind) for handler in loaded.handlers()] == [
        ("parts.first", "pipe"),
        ("parts.second", "pipe"),
        ("parts.last", "cron"),
        ("parts.last", "consumer"),
    ]
    assert [handler.name for handler in loaded.handlers("cron")] == ["parts.last"]
    assert loaded.handlers()[0].source == "plugins/parts/stages.py:2"


def test_functions_another_plugin_marked_stay_its_own(bot: PluginBot) -> None:
    bot.plugin("plugins/a", ECHO)
    bot.plugin("plugins/b", "from lumia_plugins.a.plugin import handle\n", dependencies={"a": ""})
    loaded = bot.load()
    assert [handler.name for handler in loaded.handlers()] == ["a.handle"]
    assert list(loaded.plugins) == ["a", "b"]


def test_plugins_load_after_what_they_depend_on(bot: PluginBot) -> None:
    bot.plugin("plugins/alpha", "from lumia_plugins.zeta.plugin import WORD\n", dependencies={"zeta": ">=1.2"})
    zeta = bot.plugin("plugins/zeta", "WORD = 'hello'\n")
    commit(zeta)
    git(zeta, "tag", "v1.2.3")
    loaded = bot.load()
    assert [(plugin.name, plugin.version) for plugin in loaded.plugins.values()] == [
        ("zeta", "1.2.3"),
        ("alpha", "0.0.0"),
    ]
    assert loaded.plugins["alpha"].module.WORD == "hello"


def test_an_untagged_plugin_loads_with_a_warning(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo", ECHO)
    sha = commit(folder)[:12]
    loaded = bot.load()
    assert loaded.plugins["echo"].version == f"0.0.0+{sha}"
    assert loaded.plugins["echo"].generation.startswith(f"0.0.0+{sha}.")
    (warning,) = loaded.warnings
    assert "no version tag" in warning


BROKEN = {
    "syntax": ("def handle(:\n", "import", 1, "SyntaxError"),
    "import": ("import os\nimport no_such_library\n", "import", 2, "ModuleNotFoundError: No module named 'no_such_lib"),
    "crash": ("def f():\n    return 1 / 0\nf()\n", "import", 2, "ZeroDivisionError: division by zero"),
    "exit": ("import sys\n\nsys.exit(3)\n", "import", 3, "SystemExit: 3"),
    "silent exit": ("raise SystemExit\n", "import", 1, "SystemExit"),
    "cancelled": ("import asyncio\nraise asyncio.CancelledError('no')\n", "import", 2, "CancelledError: no"),
    "odd error": (
        "class Odd(Exception):\n    def __str__(self):\n        raise ValueError\nraise Odd\n",
        "import", 4, "Odd: (its message can't be shown)",
    ),
    "glob without src": (
        "import lumia\n\n@lumia.pipe.on_re('a.*')\ndef handle(content): ...\n",
        "register", 3, "broken.handle (pipe 'a.*') uses a glob, so its first parameter must be `src: str`",
    ),
    "bad mark": ("import lumia\n\n@lumia.pipe.on('')\ndef handle(content): ...\n", "import", 3, "needs an id"),
    "twins": (
        "import lumia\n@lumia.pipe.on('a')\ndef handle(content): ...\n@lumia.pipe.on('b')\ndef handle(content): ...\n",
        "register", 4,
        "two functions are named broken.handle: at plugins/broken/plugin.py:2 and plugins/broken/plugin.py:4",
    ),
    "same mark twice": (
        "import lumia\n@lumia.pipe.on('a')\n@lumia.pipe.on('a', priv=3)\ndef handle(content): ...\n",
        "register", 2, "broken.handle has the mark pipe 'a' twice",
    ),
    "lambda": (
        "import lumia\nlumia.pipe.on('a')(lambda content: None)\n", "register", 2, "marks a lambda",
    ),
    "unlisted command": (
        "import lumia\n@lumia.command('hi')\ndef hi(): ...\n", "register", 2, "'hi', which the manifest doesn't list",
    ),
    "route without gateway": (
        "import lumia\n@lumia.web.route('/x')\nasync def x(request): ...\n", "register", 2, '"gateway": true',
    ),
    "websocket without gateway": (
        "import lumia\n@lumia.web.websocket('/x')\nasync def x(socket): ...\n", "register", 2, "serves /x, but the",
    ),
    "foreign configuration": (
        "import lumia\nlumia.config.declare('other', {})\n", "config", None, "broken declares settings of other",
    ),
    "on_load": ("def on_load():\n    raise OSError('no disk')\n", "on_load", 2, "OSError: no disk"),
    "on_load with a parameter": ("def on_load(bot): ...\n", "on_load", None, "TypeError: on_load() missing 1"),
    "async on_load": ("async def on_load(): ...\n", "on_load", None, "write it as `def on_load():`"),
    "on_load that is no function": ("on_load = 3\n", "on_load", None, "write it as `def on_load():`"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_plugin_that_fails_is_reported_with_its_place_and_the_others_load(bot: PluginBot, case: str) -> None:
    code, stage, line, message = BROKEN[case]
    bot.plugin("plugins/alpha", ECHO)
    bot.plugin("plugins/broken", code)
    bot.plugin("plugins/gamma", ECHO)
    loaded = bot.load()
    assert list(loaded.plugins) == ["alpha", "gamma"]
    assert [handler.name for handler in loaded.handlers()] == ["alpha.handle", "gamma.handle"]
    failure = only_failure(loaded)
    assert (failure.name, failure.stage, failure.file, failure.line) == (
        "broken", stage, "plugins/broken/plugin.py", line,
    )  # fmt: skip
    assert message in failure.message
    place = "plugins/broken/plugin.py" + (f":{line}" if line else "")
    assert str(failure).startswith(f"plugin broken ({stage}, {place}): ")
    assert "lumia_plugins.broken.plugin" not in sys.modules


def test_a_failure_can_be_raised_with_all_it_knows(bot: PluginBot) -> None:
    bot.plugin("plugins/broken", "1 / 0\n")
    error = only_failure(bot.load()).as_error()
    assert str(error).startswith("plugin broken (import, plugins/broken/plugin.py:1): ZeroDivisionError")
    assert "Traceback" in str(error)


def test_a_failure_deep_in_another_library_is_blamed_on_the_plugins_line(bot: PluginBot) -> None:
    bot.plugin("plugins/broken", "import json\n\nDATA = json.loads('{')\n")
    failure = only_failure(bot.load())
    assert (failure.line, failure.stage) == (3, "import")
    assert "JSONDecodeError" in failure.traceback
    assert "json.loads('{')" in failure.traceback


def test_a_broken_module_of_the_plugin_is_named_itself(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/broken", "from . import inner\n")
    (folder / "inner.py").write_text("x = 1\ny = (\n")
    failure = only_failure(bot.load())
    assert (failure.file, failure.line) == ("plugins/broken/inner.py", 2)
    assert not [name for name in sys.modules if name.startswith("lumia_plugins.broken")]


def test_a_control_c_while_loading_ends_the_load(bot: PluginBot) -> None:
    bot.plugin("plugins/slow", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        bot.load()
    bot.plugin("plugins/slow", "def on_load():\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        bot.load()


def test_unusable_folders_and_rejected_plugins_are_failures_with_their_file(bot: PluginBot) -> None:
    (bot.plugin("plugins/broken") / "manifest.json").write_text('{\n"name": }')
    bot.plugin("handlers/echo", ECHO)
    bot.plugin("plugins/echo", ECHO)
    bot.plugin("plugins/needy", ECHO, dependencies={"broken": ""})
    loaded = bot.load()
    assert list(loaded.plugins) == ["echo"]
    assert [(failure.name, failure.stage, failure.file, failure.line) for failure in loaded.failures] == [
        ("broken", "discover", "plugins/broken/manifest.json", 2),
        ("echo", "discover", "plugins/echo/manifest.json", None),
        ("needy", "resolve", "plugins/needy/manifest.json", None),
    ]
    assert all(failure.traceback == "" or failure.stage == "discover" for failure in loaded.failures)


def test_a_failed_import_rejects_the_dependents_with_the_chain(bot: PluginBot) -> None:
    bot.plugin("plugins/alpha", "raise ValueError('no luck')\n", unique=["response"])
    bot.plugin("plugins/beta", ECHO, dependencies={"alpha": ""})
    bot.plugin("plugins/gamma", ECHO, dependencies={"beta": ""})
    bot.plugin("plugins/other", ECHO, unique=["response"])
    loaded = bot.load()
    assert loaded.plugins == {}
    reasons = {failure.name: failure.message for failure in loaded.failures}
    assert reasons["beta"] == "beta needs alpha, which is not loaded: ValueError: no luck"
    assert reasons["gamma"] == f"gamma needs beta, which is not loaded: {reasons['beta']}"
    assert "other and alpha both claim the unique domain 'response'" in reasons["other"]


def test_importing_a_plugin_without_depending_on_it_is_refused(bot: PluginBot) -> None:
    bot.plugin("plugins/alpha", "import lumia_plugins.beta.plugin\n")
    bot.plugin("plugins/beta", ECHO)
    loaded = bot.load()
    assert list(loaded.plugins) == ["beta"]
    assert "alpha imports lumia_plugins.beta without depending on it" in only_failure(loaded).message
    assert loaded.plugins["beta"].module is sys.modules["lumia_plugins.beta.plugin"]


def test_disabled_plugins_are_neither_loaded_nor_reported_and_free_their_domain(bot: PluginBot) -> None:
    bot.plugin("plugins/alpha", "raise ValueError\n", unique=["response"], provides=["memory"])
    bot.plugin("plugins/beta", ECHO, unique=["response"])
    loaded = bot.load(disabled=["alpha", "betta"])
    assert list(loaded.plugins) == ["beta"]
    assert loaded.failures == []
    assert loaded.warnings == [
        "config/lumia.toml, [plugins] disabled: no plugin is named 'betta'; did you mean 'beta'?"
    ]
    with pytest.raises(Exception, match=r"alpha provides it, but it is disabled in config/lumia\.toml"):
        bot.services.get("memory")


def test_a_command_is_in_the_manifest_and_marked(bot: PluginBot) -> None:
    code = "import lumia\n@lumia.command('greet')\ndef greet(): ...\n"
    bot.plugin("plugins/alpha", code, commands={"greet": "Say hello", "part": "Say goodbye"})
    bot.plugin("plugins/beta", code, commands={"greet": "Say hello"})
    loaded = bot.load()
    assert [handler.name for handler in loaded.handlers("command")] == ["beta.greet"]
    failure = only_failure(loaded)
    assert (failure.stage, failure.file) == ("register", "plugins/alpha/plugin.py")
    assert "lists the command 'part', but no function is marked @lumia.command('part')" in failure.message


def test_a_gateway_plugin_may_mount_routes_and_sockets(bot: PluginBot) -> None:
    code = "import lumia\n@lumia.web.route('/a')\nasync def a(request): ...\n"
    bot.plugin("adapters/web", code + "@lumia.web.websocket('/b')\nasync def b(socket): ...\n", gateway=True)
    assert [handler.mark.id for handler in bot.load().handlers("route", "websocket")] == ["/a", "/b"]


def test_only_the_named_plugins_and_their_dependencies_are_loaded(bot: PluginBot) -> None:
    bot.plugin("plugins/alpha", ECHO, dependencies={"deep": "", "deeper": ""})
    bot.plugin("plugins/beta", "raise ValueError\n", provides=["memory"])
    bot.plugin("plugins/broken", ECHO, min_core_version="99")
    bot.plugin("plugins/deep", ECHO, dependencies={"deeper": ""})
    bot.plugin("plugins/deeper", ECHO)
    loaded = bot.load("alpha")
    assert list(loaded.plugins) == ["deeper", "deep", "alpha"]
    assert loaded.failures == []
    with pytest.raises(Exception, match="beta provides it, but it is not loaded in this process"):
        bot.services.get("memory")
    assert bot.load("alfa").warnings == ["no plugin is named 'alfa'; did you mean 'alpha'?"]


SIZE = '[size]\ntype = "int"\ndefault = 1\ndescription = "How large"\n'


def test_settings_from_schema_file_and_declaration_reach_the_configuration(bot: PluginBot) -> None:
    declare = "import lumia\nlumia.config.declare('{}', {{'colour': lumia.config.field(str, default='blue')}})\n"
    named = bot.plugin("plugins/named", declare.format("named"), config_schema="schema/own.toml")
    (named / "schema").mkdir()
    (named / "schema" / "own.toml").write_text(SIZE)
    usual = bot.plugin("plugins/usual")
    (usual / "config-schema.toml").write_text(SIZE)
    bot.plugin("plugins/without_file", declare.format("without-file"))
    bot.plugin("plugins/without_settings")
    assert bot.load().failures == []
    assert bot.config.registered == {
        "named": (named / "schema" / "own.toml", ["colour"]),
        "usual": (usual / "config-schema.toml", []),
        "without-file": (None, ["colour"]),
    }


def test_a_loaded_plugin_reads_its_settings_from_its_generated_file(bot: PluginBot) -> None:
    store = ConfigStore(bot.root)
    folder = bot.plugin("plugins/echo")
    (folder / "config-schema.toml").write_text(SIZE)
    loader = Loader(bot.base, bot.root, config=store, services=bot.services, core_version="0.2.0")
    assert loader.load().failures == []
    assert store.settings("echo").size == 1
    assert "# How large" in (bot.root / "config" / "echo.toml").read_text()


def test_a_schema_that_is_missing_or_refused_is_a_failure_at_its_file(bot: PluginBot) -> None:
    bot.plugin("plugins/absent", config_schema="config-schema.toml")
    (bot.plugin("plugins/odd") / "config-schema.toml").write_text('[size]\ntype = "colour"\n')
    disagreeing = "import lumia\nlumia.config.declare('torn', {'size': lumia.config.field(str, default='x')})\n"
    (bot.plugin("plugins/torn", disagreeing) / "config-schema.toml").write_text(SIZE)
    store = ConfigStore(bot.root)
    loaded = Loader(bot.base, bot.root, config=store, services=bot.services, core_version="0.2.0").load()
    assert loaded.plugins == {}
    assert [(failure.stage, failure.file) for failure in loaded.failures] == [
        ("config", "plugins/absent/plugin.py"),
        ("config", "plugins/odd/config-schema.toml"),
        ("config", "plugins/torn/config-schema.toml"),
    ]
    assert "'config-schema.toml', which isn't in the plugin's folder" in loaded.failures[0].message


def compiled(folder: Path) -> Path:
    target = folder / "plugin.pyc"
    py_compile.compile(str(folder / "plugin.py"), cfile=str(target), dfile="/home/author/plugin.py", doraise=True)
    return target


def test_a_closed_plugin_loads_from_bytecode_and_its_places_are_its_own(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/closed", ECHO, main="plugin.pyc", closed_source=True)
    compiled(folder)
    (folder / "plugin.py").unlink()
    broken = bot.plugin("plugins/cracked", "x = 1\nraise ValueError\n", main="plugin.pyc")
    compiled(broken)
    (broken / "plugin.py").unlink()
    loaded = bot.load()
    assert [handler.source for handler in loaded.handlers()] == ["plugins/closed/plugin.pyc:4"]
    failure = only_failure(loaded)
    assert (failure.file, failure.line) == ("plugins/cracked/plugin.pyc", 2)


def test_an_entry_that_is_not_there_or_would_not_be_the_one_imported_is_refused(bot: PluginBot) -> None:
    compiled(bot.plugin("plugins/both", ECHO, main="plugin.pyc"))
    (bot.plugin("plugins/absent") / "plugin.py").unlink()
    loaded = bot.load()
    assert loaded.plugins == {}
    absent, both = loaded.failures
    assert (absent.stage, absent.file) == ("import", "plugins/absent/plugin.py")
    assert "main is 'plugin.py', which isn't in the plugin's folder" in absent.message
    assert (both.stage, both.file) == ("import", "plugins/both/plugin.pyc")
    assert "plugin.py is there too" in both.message


def test_bytecode_of_another_python_is_reported(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/old", main="plugin.pyc")
    (folder / "plugin.py").unlink()
    (folder / "plugin.pyc").write_bytes(b"\x17\x0d\x0d\x0a" + b"\0" * 12)
    failure = only_failure(bot.load())
    assert (failure.stage, failure.file) == ("import", "plugins/old/plugin.pyc")
    assert "plugin.pyc is bytecode of another version of Python than" in failure.message


def test_an_unreadable_file_of_a_plugin_is_reported(bot: PluginBot, monkeypatch: pytest.MonkeyPatch) -> None:
    bot.plugin("plugins/alpha", ECHO)
    locked = bot.plugin("plugins/beta", ECHO) / "plugin.py"
    read = Path.read_bytes

    def guarded(path: Path) -> bytes:
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", guarded)  # root may read everything, so the refusal is made here
    loaded = bot.load()
    assert list(loaded.plugins) == ["alpha"]
    assert "Permission denied" in only_failure(loaded).message


def test_two_bots_with_a_plugin_of_one_name_each_have_their_own(bot: PluginBot, tmp_path: Path) -> None:
    bot.plugin("plugins/echo", ECHO + "WHO = 'first'\n")
    first = bot.load()
    with PluginBot(tmp_path / "second") as other:
        other.plugin("plugins/echo", ECHO + "WHO = 'second'\n")
        second = other.load()
        assert first.plugins["echo"].module.WHO == "first"
        assert second.plugins["echo"].module.WHO == "second"
        first.close()
        assert sys.modules["lumia_plugins.echo.plugin"] is second.plugins["echo"].module
        second.close()
        assert "lumia_plugins.echo.plugin" not in sys.modules


def test_keeping_a_set_loads_only_what_has_changed(bot: PluginBot) -> None:
    steady = "LOADS = []\ndef on_load():\n    LOADS.append(1)\n"
    bot.plugin("plugins/steady", steady)
    bot.plugin("plugins/moving", steady)
    bot.plugin("plugins/leaving", steady)
    before = bot.load()
    bot.plugin("plugins/moving", steady + "NEW = True\n")
    (bot.root / "plugins" / "leaving" / "plugin.py").unlink()
    (bot.root / "plugins" / "leaving" / "manifest.json").unlink()
    after = bot.loader().load(keep=before)
    assert list(after.plugins) == ["moving", "steady"]
    assert after.plugins["steady"] is before.plugins["steady"]
    assert after.plugins["steady"].module.LOADS == [1]
    assert after.plugins["moving"].module.NEW
    assert after.plugins["moving"].generation != before.plugins["moving"].generation


def test_an_object_boxed_before_a_reload_is_told_from_the_new_version(bot: PluginBot) -> None:
    bot.plugin("plugins/notes", "class Note:\n    text = 'old'\n")
    wire = Box.any(bot.load().plugins["notes"].module.Note()).dump(b"secret")

    def opened(loaded: PluginSet) -> str:
        box = Box.load(wire, b"secret").expecting(loaded.plugins["notes"].module.Note, "notes.read")
        return str(box.into().text)

    assert opened(bot.load()) == "old"
    bot.plugin("plugins/notes", "class Note:\n    text = 'new'\n")
    after = bot.load()
    with pytest.raises(BoxTypeError, match=f"runs generation {re.escape(after.plugins['notes'].generation)}"):
        opened(after)


def test_a_kept_plugin_that_was_never_started_is_started(bot: PluginBot) -> None:
    bot.plugin("plugins/echo", "LOADS = []\ndef on_load():\n    LOADS.append(1)\n")
    parent = bot.load(on_load=False)
    child = bot.loader().load(keep=parent)
    assert child.plugins["echo"] is parent.plugins["echo"]
    assert child.plugins["echo"].module.LOADS == [1]


def test_a_new_version_that_fails_leaves_the_old_one_importable(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo", "from . import words\n")
    (folder / "words.py").write_text("WORD = 'old'\n")
    before = bot.load()
    bot.plugin("plugins/echo", "from . import words\nraise ValueError\n")
    after = bot.loader().load(keep=before)
    assert after.plugins == {}
    assert sys.modules["lumia_plugins.echo.plugin"] is before.plugins["echo"].module
    assert sys.modules["lumia_plugins.echo.words"].WORD == "old"


def test_loading_works_from_any_working_folder(bot: PluginBot, tmp_path: Path) -> None:
    bot.plugin("handlers/flow", ECHO)
    bot.plugin("plugins/echo", ECHO)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "handlers" / "flow").mkdir(parents=True)
    (elsewhere / "handlers" / "flow" / "plugin.py").write_text("raise RuntimeError('the wrong handlers folder')\n")
    seen = in_fresh_process(bot, "print([handler.name for handler in loader.load().handlers()])", elsewhere)
    assert seen == "['echo.handle', 'flow.handle']"
