"""The test double that plugin authors use."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lumia
from lumia import box, runtime
from lumia.errors import BoxTooLargeError, ConfigError, PluginError, RegistrationError
from lumia.paths import base
from lumia.ports import Limits
from lumia.testing import Bot, ManualClock

Boxed = lumia.Box[Any]

GREETER = """
import lumia

lumia.config.declare("greeter", {"greeting": lumia.config.field(str, default="hello", desc="How it greets")})


def on_load():
    LOADED.append("on_load")


def on_unload():
    LOADED.append("on_unload")


LOADED = []


@lumia.pipe.on("msg")
def greet(content):
    msg = content.into()
    to = lumia.payloads.destination(1, "console", msg["chat"]["kind"], msg["chat"]["id"])
    text = f"{lumia.config.get('greeter').greeting}, {msg['sender']['name']}"
    lumia.event.start(to, lumia.Box.any({"text": text}))
"""


@lumia.pipe.on("msg", priv=5)
def echo(content: Boxed) -> None:
    lumia.event.start("msg.send, dest=1.console.private-ann", lumia.Box.any(content.into()["text"]))


def plugin(folder: Path, code: str = GREETER, name: str = "greeter", **manifest: Any) -> Path:
    home = folder / name.replace("-", "_")
    home.mkdir(parents=True)
    fields = {"name": name, "display_name": name, "description": "For a test", "author": "t", "license": "x",
              "main": "plugin.py"}  # fmt: skip
    (home / "manifest.json").write_text(json.dumps(fields | manifest))
    (home / "plugin.py").write_text(code)
    return home


def test_a_handler_is_tested_in_a_few_lines() -> None:
    with Bot(echo) as bot:
        assert bot.send("hello").replies == ["hello"]


def test_a_module_stands_for_all_its_handlers() -> None:
    module = ModuleType("a_bot_in_one_module")
    exec("import lumia\n@lumia.pipe.on('a')\ndef a(content): pass\n@lumia.pipe.on('b')\ndef b(content): pass\n",
         module.__dict__)  # fmt: skip
    with Bot(module) as bot:
        assert [bot.start(id, 1).steps[0].handler for id in "ab"] == ["test.a", "test.b"]


def test_a_plugins_folder_is_loaded_as_the_bot_would_load_it(tmp_path: Path) -> None:
    home = plugin(tmp_path)
    with Bot(home) as bot:
        assert bot.send("hi", sender="ann").replies == ["hello, ann"]
        loaded = sys.modules["lumia_plugins.greeter.plugin"].LOADED
        assert loaded == ["on_load"]
    assert loaded == ["on_load", "on_unload"]


def test_a_first_party_plugin_is_loaded_from_where_it_is() -> None:
    with Bot(base() / "handlers" / "heartflow") as bot:
        plugins = bot.runtime.plugins
        assert plugins is not None and plugins.plugins["heartflow"].module_name == "handlers.heartflow.plugin"


def test_a_clone_may_be_called_otherwise_than_its_plugin(tmp_path: Path) -> None:
    folder = plugin(tmp_path).rename(tmp_path / "greeter-repository")
    with Bot(folder) as bot:
        assert bot.send("hi", sender="ann").replies == ["hello, ann"]


def test_a_folder_whose_plugin_is_not_found_is_named(tmp_path: Path) -> None:
    hidden = tmp_path / ".hidden"
    hidden.mkdir()
    with pytest.raises(PluginError, match=r"hidden"), Bot(hidden):
        raise AssertionError


def test_settings_are_given_by_plugin_and_those_of_the_core_by_dotted_key(tmp_path: Path) -> None:
    settings: dict[str, dict[str, Any]] = {
        "greeter": {"greeting": "ahoy"},
        "lumia": {"worker.max_losses": 7, "box.max_bytes": 2000},
    }
    with Bot(plugin(tmp_path), config=settings) as bot:
        assert bot.send("hi").replies == ["ahoy, ann"]
        assert bot.runtime.limits.max_losses == bot.transport.limits.max_losses == 7
        with pytest.raises(BoxTooLargeError):
            bot.start("msg", "x" * 3000)
    assert box.limit() == box.DEFAULT_LIMIT


def test_two_bots_live_in_one_process() -> None:
    with Bot(echo, name="one") as one, Bot(echo, name="two") as two:
        assert two.send("hi").steps[0].handler == "two.echo"
        with one.runtime.activated():
            assert one.send("hi").steps[0].handler == "one.echo"
        assert runtime.current() is two.runtime
    assert runtime.active() is None


@lumia.pipe.on("msg")
def wrong_shape() -> None:
    """Take nothing."""


@pytest.mark.parametrize(
    "what, error, match",
    [
        ((lambda: print,), RegistrationError, "has no mark"),
        ((lambda: ModuleType("empty"),), RegistrationError, "has no mark"),
        ((lambda: wrong_shape,), RegistrationError, r"test\.wrong_shape"),
        ((lambda: echo, lambda: twin()), RegistrationError, r"two functions are named test\.echo"),
        ((lambda: "nowhere/nobody",), PluginError, "nobody"),
    ],
)
def test_what_can_not_be_loaded_is_told_and_leaves_no_bot_behind(what: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match), Bot(*(make() for make in what)):
        raise AssertionError
    assert runtime.active() is None
    assert box.limit() == box.DEFAULT_LIMIT


def twin() -> Any:
    def echo(content: Boxed) -> None:
        """Have the name of another."""

    return lumia.pipe.on("msg")(echo)


def test_a_plugin_that_fails_to_start_is_told_with_its_file(tmp_path: Path) -> None:
    home = plugin(tmp_path, "def on_load():\n    raise ValueError('no network')\n")
    with pytest.raises(PluginError, match=r"greeter \(on_load, .*plugin\.py:2\): ValueError: no network"), Bot(home):
        raise AssertionError
    assert runtime.active() is None


def test_a_setting_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_losses"), Bot(echo, config={"lumia": {"worker.max_losses": 0}}):
        raise AssertionError
    assert runtime.active() is None


def test_messages_come_from_a_private_chat_or_a_group() -> None:
    seen: list[Any] = []

    @lumia.pipe.on("msg")
    def handler(content: Boxed) -> None:
        seen.append(content.into())

    with Bot(handler) as bot:
        bot.send("a", sender="bob")
        bot.send("b", sender="bob", group="7", mentions_bot=True)
    assert [(msg["text"], msg["sender"]["id"], msg["chat"]) for msg in seen] == [
        ("a", "bob", {"kind": "private", "id": "bob"}), ("b", "bob", {"kind": "group", "id": "7"}),
    ]  # fmt: skip
    assert seen[1]["mentions_bot"] is True


def test_content_may_be_boxed_or_bare() -> None:
    @lumia.event.consumer("news")
    def handler(content: Boxed) -> None:
        lumia.store.append("seen", [content.into(), content.meta])

    with Bot(handler) as bot:
        bot.event("news", "bare")
        bot.event("news", lumia.Box.any("boxed", meta={"a": 1}))
        assert lumia.store.of("test").items("seen") == [["bare", {}], ["boxed", {"a": 1}]]


def test_settling_reaches_what_is_due_within_the_time_and_nothing_later() -> None:
    @lumia.pipe.on("tick")
    def tick(content: Boxed) -> None:
        lumia.store.append("ticks", lumia.system.now())
        lumia.pipe.start("tick", content, delay=10, detach=True)

    with Bot(tick, clock=ManualClock(start=0)) as bot:
        lumia.pipe.start("tick", lumia.Box.any(1))
        bot.settle(35)
        assert lumia.store.of("test").items("ticks") == [0, 10, 20, 30]
        assert bot.clock.now() == 35
        bot.settle(5)
        assert lumia.store.of("test").items("ticks", last=1) == [40]


def test_with_the_machines_clock_settling_executes_what_is_ready() -> None:
    with Bot(echo) as bot:
        run_id = lumia.pipe.start("msg", lumia.Box.any({"text": "hi"}))
        bot.settle()
        result = lumia.runs.result(run_id)
        assert result is not None and result.replies == ["hi"]


def test_limits_may_be_given_whole() -> None:
    with Bot(echo, limits=Limits(max_losses=9), config={"lumia": {"worker.max_losses": 5}}) as bot:
        assert bot.runtime.limits == bot.transport.limits == Limits(max_losses=9)


def test_a_bot_root_of_ones_own_keeps_its_files(tmp_path: Path) -> None:
    with Bot(echo, root=tmp_path) as bot:
        bot.send("hi")
    assert (tmp_path / "data" / "secret.key").is_file()


def test_the_same_seed_gives_the_same_story() -> None:
    def story() -> list[str]:
        with Bot(echo, clock=ManualClock(seed=5)) as bot:
            bot.send("hi", message_id="1", time=0)
            return [entry.run_id for entry in bot.transport.tail("0", 0, 99)]

    assert story() == story()
