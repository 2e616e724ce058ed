"""Generations of plugins side by side in one process: prepared, at work, older."""

from __future__ import annotations

import gc
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.config import ConfigStore
from lumia.deployment import Member
from lumia.generations import Changed
from lumia.inmemory import InMemoryTransport
from lumia.loader import Loader
from lumia.opening import use_layer
from lumia.pkg import layers
from lumia.plugin import PluginSet
from lumia.routes import PlanStep
from lumia.runtime import MAX_SEEKING, Runtime
from tests.support.plugins import PluginBot
from tests.support.wheels import wheel

DICE = """
import lumia
SEEN = []
class Roll:
    sides = {n}
@lumia.pipe.on("roll")
def roll(content):
    SEEN.append({n})
def on_load():
    lumia.services.provide("dice", "dice {n}")
    SEEN.append("on_load")
def on_unload():
    SEEN.append("on_unload")
"""


class Live:
    """A bot whose plugins change while it runs."""

    def __init__(self, files: PluginBot) -> None:
        self.files = files
        self.transport = InMemoryTransport()
        self.bot = Runtime(files.root, files.base, self.transport, b"secret", ConfigStore(files.root),
                           services=files.services)  # fmt: skip
        self.files.config = self.bot.config  # type: ignore[assignment]
        self.disabled: tuple[str, ...] = ()
        with self.bot.activated():
            loaded = self.load(PluginSet(files.services))
            self.bot.use_routes(self.transport.publish(self.bot.install(loaded)))
            loaded.start()

    def load(self, keep: PluginSet) -> PluginSet:
        files = self.files
        loader = Loader(files.base, files.root, config=self.bot.config, services=files.services,  # type: ignore[arg-type]
                        core_version="0.2.0", disabled=self.disabled)  # fmt: skip
        return loader.load(on_load=False, keep=keep)

    def write(self, n: Any, name: str = "dice", code: str = DICE, **manifest: Any) -> None:
        self.files.plugin(f"plugins/{name}", code.replace("{n}", str(n)), provides=["dice"], **manifest)

    def prepare(self) -> list[str]:
        return [str(failure) for failure in self.bot.generations.prepare(self.load)]

    def switch(self) -> Changed:
        assert self.prepare() == []
        changed = self.bot.generations.switch()
        assert self.bot.plugins is not None
        self.bot.use_routes(self.transport.publish(self.bot.describe(self.bot.plugins)))
        return changed

    def retire(self) -> int:
        return self.bot.generations.retire(self.transport.deployments().in_use())

    def start(self, id: str = "roll", content: Any = None) -> str:
        with self.bot.activated():
            return lumia.pipe.start(id, lumia.Box.any(content))

    def drain(self) -> None:
        with self.bot.activated():
            self.transport.drain(self.bot)

    def module(self, name: str = "dice") -> Any:
        assert self.bot.plugins is not None
        return self.bot.plugins.plugins[name].module


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with PluginBot(tmp_path) as files:
        files.plugin("plugins/dice", DICE.replace("{n}", "1"), provides=["dice"])
        made = Live(files)
        yield made
        made.bot.close()


def test_a_run_ends_on_the_generation_it_began_with(live: Live) -> None:
    old = live.module()
    live.start()
    live.write(2)
    live.switch()
    live.start()
    live.drain()
    assert old.SEEN == ["on_load", 1]
    assert live.module().SEEN == ["on_load", 2]


def test_a_prepared_generation_can_be_executed_before_the_switch(live: Live) -> None:
    live.write(2)
    live.prepare()
    table = live.bot.generations.prepared
    assert table is not None
    route = table.routes[0]
    step = PlanStep(route.handler, "pipe", route.generation, "default", None, False, route.retry)
    asked: list[int] = []
    live.bot.generations.needed = lambda: asked.append(1)
    found = live.bot.handler(step)
    assert found is not None and found.generation == route.generation and asked
    assert not live.bot.is_behind(step)


def test_an_old_generation_is_unloaded_once_when_its_last_run_has_ended(live: Live) -> None:
    old = live.module()
    live.start()
    live.write(2)
    live.switch()
    assert live.retire() == 0
    live.drain()
    assert live.retire() == 1
    assert live.retire() == 0
    assert old.SEEN == ["on_load", 1, "on_unload"]
    assert live.bot.services is not None and live.bot.services.get("dice") == "dice 2"


def test_services_of_a_prepared_generation_are_not_seen_before_the_switch(live: Live) -> None:
    services = live.bot.services
    assert services is not None
    live.write(2)
    live.prepare()
    assert services.get("dice") == "dice 1"
    live.bot.generations.switch()
    assert services.get("dice") == "dice 2"


BROKEN = {
    "import": "import nothing_like_this",
    "on_load": "def on_load():\n    raise ValueError('no sides')",
    "register": "import lumia\n@lumia.pipe.on('x')\ndef f(): ...",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_version_that_fails_changes_nothing_and_names_its_place(live: Live, broken: str) -> None:
    old = live.module()
    live.write(2, code=broken)
    (reason,) = live.prepare()
    assert "plugin dice" in reason and "plugins/dice/plugin.py" in reason
    assert live.bot.services is not None and live.bot.services.get("dice") == "dice 1"
    live.start()
    live.drain()
    assert old.SEEN == ["on_load", 1]
    live.write(3)
    assert live.prepare() == []


def test_dropping_what_was_prepared_unloads_it_and_leaves_the_old_one_at_work(live: Live) -> None:
    import sys

    old = live.module()
    live.write(2)
    live.prepare()
    live.bot.generations.drop()
    assert sys.modules["lumia_plugins.dice.plugin"] is old
    assert live.bot.services is not None and live.bot.services.get("dice") == "dice 1"
    live.start()
    live.drain()
    assert old.SEEN == ["on_load", 1]


def test_a_plugin_that_failed_before_is_no_reason_to_fail(live: Live) -> None:
    live.files.plugin("plugins/broken", "raise ValueError\n")
    assert len(live.prepare()) == 1
    assert live.bot.plugins is not None
    live.bot.plugins.failures += live.load(live.bot.plugins).failures
    live.write(2)
    assert live.prepare() == []


def test_going_back_to_a_generation_that_is_still_needed_takes_it_over(live: Live) -> None:
    first = live.module()
    live.start()
    live.write(2)
    live.switch()
    live.start()
    live.write(1)
    live.switch()
    assert live.module() is first
    live.drain()
    live.retire()
    assert first.SEEN == ["on_load", 1]
    assert live.bot.services is not None and live.bot.services.get("dice") == "dice 1"


def test_dropping_a_generation_that_was_taken_over_leaves_it_where_it_was(live: Live) -> None:
    first = live.module()
    live.start()
    live.write(2)
    live.switch()
    live.write(1)
    live.prepare()
    live.bot.generations.drop()
    assert live.module() is not first
    live.drain()
    assert first.SEEN == ["on_load", 1]
    assert live.retire() == 1
    assert first.SEEN == ["on_load", 1, "on_unload"]


def test_a_process_without_a_generation_leaves_its_steps_to_one_that_has_it_for_a_while(live: Live) -> None:
    table = live.bot.table.index.routes[0]
    old = PlanStep(table.handler, "pipe", "0.9.0+gone", "default", None, False, table.retry)
    assert not live.bot.is_behind(old)
    live.transport.deployments().attend(Member("other", holds=("dice 0.9.0+gone",)))
    live.bot.generations._asked_at = -10.0
    assert live.bot.is_behind(old) and live.bot.is_behind(old, MAX_SEEKING - 1)
    assert not live.bot.is_behind(old, MAX_SEEKING)


def test_a_removed_plugin_ends_its_runs_and_no_others(live: Live) -> None:
    old = live.module()
    live.start()
    live.disabled = ("dice",)
    live.switch()
    live.start()
    live.drain()
    assert old.SEEN == ["on_load", 1]
    assert live.retire() == 1
    assert live.bot.services is not None and live.bot.services.names() == []


def test_what_depends_on_a_changed_plugin_is_loaded_anew_with_it(live: Live) -> None:
    live.files.plugin("plugins/game", "from lumia_plugins.dice.plugin import Roll\n", dependencies={"dice": ""})
    live.switch()
    assert live.module("game").Roll.sides == 1
    live.write(2)
    changed = live.switch()
    assert [plugin.name for plugin in changed.fresh] == ["dice", "game"]
    assert live.module("game").Roll.sides == 2
    assert live.retire() == 2


def test_a_live_resource_of_an_old_generation_is_closed_once(live: Live) -> None:
    code = """
import io, lumia
CLOSED = []
class Port(io.RawIOBase):
    def close(self):
        if not self.closed:
            CLOSED.append({n})
        super().close()
PORT = lumia.Box.any(Port())
MORE = {"nested": [lumia.Box.any(Port())]}
"""
    live.write(1, "port", code)
    live.switch()
    closed = live.module("port").CLOSED
    live.write(2, "port", code)
    live.switch()
    assert closed == []
    assert live.retire() == 1
    assert closed == [1, 1]
    fresh = live.module("port").CLOSED
    live.bot.close()
    gc.collect()
    assert closed == [1, 1] and fresh == [2, 2]


def test_settings_of_the_version_at_work_hold_again_after_a_drop(live: Live) -> None:
    folder = live.files.plugin("plugins/tea", "")
    (folder / "config-schema.toml").write_text('[cups]\ntype = "int"\ndefault = 3\n')
    live.switch()
    config = live.bot.config
    assert config is not None
    before = config.schema("tea")
    (folder / "config-schema.toml").write_text('[pots]\ntype = "int"\ndefault = 5\n')
    live.prepare()
    assert config.settings("tea").pots == 5
    live.bot.generations.drop()
    assert config.schema("tea") is before and config.settings("tea").cups == 3


def test_objects_of_a_class_of_the_plugin_reach_the_handlers_of_their_own_generation(live: Live) -> None:
    code = """
import lumia
SEEN = []
class Note:
    def __init__(self, text): self.text = text
@lumia.pipe.on("note")
def note(content: lumia.Box[Note]):
    SEEN.append((content.into().text, {n}))
    if not content.meta.get("again"):
        content.meta["again"] = True
        lumia.pipe.start("later", lumia.Box.any(Note("child")))
@lumia.pipe.on("later")
def later(content: lumia.Box[Note]):
    SEEN.append((content.into().text, {n}))
"""
    live.write(1, "notes", code)
    live.switch()
    old = live.module("notes")
    live.start("note", old.Note("first"))
    live.write(2, "notes", code)
    live.prepare()
    live.drain()
    assert old.SEEN == [("first", 1), ("child", 1)]
    live.start("note", old.Note("second"))
    live.bot.generations.switch()
    live.drain()
    assert old.SEEN == [("first", 1), ("child", 1), ("second", 1), ("child", 1)]


def test_the_packages_of_a_version_that_was_not_taken_leave_the_process(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    root, shelf = live.bot.root, live.bot.root / "wheels"
    code = "import layered\nimport lumia\nVERSION = layered.VERSION\n"

    def comes_with(version: str, more: str = "") -> list[str]:
        layer = layers.layer_of(root, [layers.Package("layered", version)], {"dice": ("layered",)}, "test")
        zipfile.ZipFile(wheel(shelf, "layered", version)).extractall(layer.folder)
        layers.write_about(layer, layer.folder)
        layers.switch(root, layer)
        live.write(version, code=f"{code}{more}")

        def load(keep: PluginSet) -> PluginSet:
            use_layer(root)
            return live.load(keep)

        return [str(failure) for failure in live.bot.generations.prepare(load)]

    before = list(sys.path)
    assert "ZeroDivisionError" in comes_with("1.0", "1 / 0\n")[0]
    assert sys.path == before and "layered" not in sys.modules
    assert comes_with("2.0") == []
    live.bot.generations.drop()  # another process could not take it
    assert sys.path == before and "layered" not in sys.modules
    assert comes_with("3.0") == []
    live.bot.generations.switch()
    assert live.module().VERSION == "3.0" and sys.path[:-1] == before
    monkeypatch.delitem(sys.modules, "layered")
