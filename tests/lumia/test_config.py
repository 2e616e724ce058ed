"""The public half of the settings: declaring, collecting, getting, and the store of one bot."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lumia import config
from lumia.config import ConfigStore, Settings, field
from lumia.config_schema import Schema, declared_schema
from lumia.config_store import core_schema
from lumia.errors import ConfigError, ConfigKeyError, ConfigSchemaError, ConfigValueError, LumiaError, NotRunningError

SCHEMA = """\
[trigger_threshold]
type = "float"
default = 0.65
description = "Score threshold above which the bot engages"
min = 0.0
max = 1.0
"""

PLUGIN = """\
import lumia

lumia.config.declare('heartflow', {
    'trigger_threshold': lumia.config.field(float, default=0.65, desc="Engagement trigger threshold"),
    'attention_window':  lumia.config.field(int,   default=120,  desc="Attention window in seconds"),
    'planner_model':     lumia.config.field(str,   default='deepseek-chat'),
    'main_model':        lumia.config.field(str,   default='deepseek-reasoner'),
    'polish_model':      lumia.config.field(str,   default='gpt-4o-mini'),
})
"""


class Lumia:
    """What a plugin of these tests gets as `lumia`: the module under test and no more of the package."""

    config = config


def load(source: str) -> None:
    """Execute a plugin's source."""
    exec(source.replace("import lumia\n", ""), {"lumia": Lumia})


@contextmanager
def active(monkeypatch: pytest.MonkeyPatch, store: ConfigStore | None) -> Iterator[None]:
    """Make `store` the active bot's for a block."""

    class Bot:
        config = store

    with monkeypatch.context() as patch:
        patch.setattr("lumia.runtime.active", Bot)
        yield


@pytest.fixture(autouse=True)
def nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test its own pending declarations."""
    monkeypatch.setattr(config, "_pending", {})


# --- Declaring --------------------------------------------------------------------------------------------------------


def test_the_plugin_of_the_specification_runs_as_written_outside_of_a_bot() -> None:
    load(PLUGIN)
    with pytest.raises(NotRunningError):
        _ = config.get("heartflow").trigger_threshold


def test_what_waits_is_taken_by_the_first_bot_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(PLUGIN)
    config.declare("heartflow", {"more": field(int, 1)})
    early = config.get("heartflow")
    with active(monkeypatch, ConfigStore(tmp_path)):
        assert config.get("heartflow").attention_window == 120
        assert (early.more, early.main_model) == (1, "deepseek-reasoner")
        early.more = 2
        assert config.get("heartflow").more == 2


def test_a_loader_collects_what_a_plugin_declares_and_joins_it_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "config-schema.toml").write_text(SCHEMA)
    with config.collect() as declared:
        load(PLUGIN)
        config.declare("heartflow", {"more": field(int, 1)})
    store = ConfigStore(tmp_path)
    settings = store.register("heartflow", tmp_path / "config-schema.toml", declared["heartflow"])
    assert (settings.trigger_threshold, settings.more) == (0.65, 1)
    text = (tmp_path / "config" / "heartflow.toml").read_text()
    assert "# float from 0.0 to 1.0, default 0.65\n" in text
    assert "trigger_threshold = 0.65  # Score threshold above which the bot engages\n" in text
    settings.trigger_threshold = 0.7
    assert (
        "trigger_threshold = 0.7  # Score threshold above which the bot engages\n"
        in Path(tmp_path / "config" / "heartflow.toml").read_text()
    )


def test_declarations_that_disagree_are_refused_at_once() -> None:
    with config.collect() as declared:
        config.declare("my_plugin", {"a": field(int, 1)})
        with pytest.raises(ConfigSchemaError, match="disagree about a: default is 1 in one and 2 in the other"):
            config.declare("my-plugin", {"a": field(int, 2)})
    assert declared == {"my-plugin": {"a": field(int, 1)}}


def test_collecting_ends_with_its_block_even_when_the_plugin_fails() -> None:
    with pytest.raises(ZeroDivisionError), config.collect():
        load("1 / 0")
    with config.collect() as declared:
        pass
    config.declare("p", {"a": field(int)})
    assert declared == {}


def test_two_threads_collect_apart() -> None:
    seen: list[Mapping[str, Any]] = []

    def other() -> None:
        with config.collect() as declared:
            config.declare("theirs", {"a": field(int)})
        seen.append(declared)

    with config.collect() as declared:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        config.declare("ours", {"a": field(int)})
    assert (set(declared), set(seen[0])) == ({"ours"}, {"theirs"})


def test_declaring_in_a_running_bot_adds_to_the_plugins_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ConfigStore(tmp_path)
    with active(monkeypatch, store):
        config.declare("p", {"a": field(int, 1)})
        config.declare("p", {"b": field(int, 2)})
        assert (config.get("p").a, config.get("p").b) == (1, 2)
        with pytest.raises(ConfigSchemaError, match="disagree about b"):
            config.declare("p", {"b": field(str)})


# --- Getting ----------------------------------------------------------------------------------------------------------


def test_settings_taken_while_loading_work_once_the_plugin_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ConfigStore(tmp_path)
    with active(monkeypatch, store):
        with config.collect() as declared:
            config.declare("p", {"a": field(int, 1)})
            settings = config.get("p")
            with pytest.raises(ConfigError, match=r"settings of p can be read once it is loaded: in on_load\(\)"):
                _ = settings.a
        store.register("p", None, declared["p"])
        assert settings.a == 1


def test_getting_what_nobody_declared_names_the_closest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ConfigStore(tmp_path)
    store.register("heartflow", None, {"a": field(int)})
    with (
        active(monkeypatch, store),
        pytest.raises(ConfigKeyError, match=r"no plugin hartflow .*did you mean heartflow\?"),
    ):
        config.get("hartflow")
    with active(monkeypatch, store), pytest.raises(ConfigKeyError, match="there are those of lumia, heartflow"):
        config.get("zzz")


def test_a_bot_without_configuration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with active(monkeypatch, None), pytest.raises(NotRunningError, match=r"open it with lumia\.runtime\.open_bot"):
        _ = config.get("p").a


def test_importing_the_module_loads_no_toml_library_and_no_models() -> None:
    script = "import sys, lumia.config; print([m for m in ('tomlkit', 'pydantic', 'dill') if m in sys.modules])"
    package = "import sys, types; p = types.ModuleType('lumia'); p.__path__ = ['lumia']; sys.modules['lumia'] = p; "
    command = [sys.executable, "-c", package + script]
    root = Path(config.__file__).parents[1]
    assert subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout == "[]\n"


# --- Settings ---------------------------------------------------------------------------------------------------------


def test_hyphens_and_underscores_reach_the_same_settings(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path)
    store.register("memory_graph", None, {"a": field(int, 1)})
    store.settings("memory-graph").a = 2
    assert store.settings("memory_graph").a == 2
    assert (tmp_path / "config" / "memory-graph.toml").is_file()
    assert store.plugins() == ["memory-graph"]


def test_a_file_named_with_underscores_is_used_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory_graph.toml").write_text("a = 5\n")
    assert ConfigStore(tmp_path).register("memory-graph", None, {"a": field(int, 1)}).a == 5


def test_an_unknown_name_is_an_attribute_error_that_lists_the_names(tmp_path: Path) -> None:
    settings = ConfigStore(tmp_path).register("p", None, {"threshold": field(int), "s.inner": field(int)})
    with pytest.raises(
        AttributeError, match=r"p has no setting treshold \(did you mean threshold\?\); there are threshold, s"
    ):
        _ = settings.treshold
    with pytest.raises(ConfigKeyError, match=r"p has no setting treshold \(did you mean threshold\?\)"):
        settings.treshold = 1
    with pytest.raises(ConfigKeyError, match=r"s is a section of p, not a setting; it holds s\.inner"):
        settings.s = {}
    with pytest.raises(ConfigKeyError, match=r"p has no setting s\.x"):
        settings.s.x = 1
    assert not hasattr(settings, "missing")
    assert getattr(settings, "missing", 7) == 7
    with pytest.raises(AttributeError):
        _ = settings._private


def test_dir_lists_the_settings(tmp_path: Path) -> None:
    settings = ConfigStore(tmp_path).register("p", None, {"a": field(int), "s.inner": field(int)})
    assert {"a", "s"} <= set(dir(settings))
    assert "inner" in dir(settings.s)


# --- The store --------------------------------------------------------------------------------------------------------

CORE = {
    "lumia.backend": "tasks", "plugins.disabled": [], "box.max_bytes": 1048576, "dedup.window": 3600,
    "worker.concurrency": 16, "worker.step_timeout": 60, "worker.max_losses": 5, "worker.fuse": True,
    "worker.batch": 64, "worker.batch_ms": 50, "journal.max_bytes": 67108864,
    "journal.hard_bytes": 134217728, "journal.hot": 300, "journal.compact_after": 60, "journal.keep_days": 30,
    "journal.spill_bytes": 268435456, "runs.keep": 3600,
    "gateway.host": "127.0.0.1", "gateway.port": 8470, "flower.port": 8471, "redis.port": 8472,
    "redis.appendfsync": "everysec", "postgres.enabled": True, "models": {}, "bot.name": "Lumia",
}  # fmt: skip


def test_the_cores_settings_have_their_defaults_in_a_commented_file(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path)
    assert {path: store.get_path(path) for path in CORE} == CORE
    assert store.core.worker.concurrency == 16
    text = (tmp_path / "config" / "lumia.toml").read_text()
    assert "concurrency = 16  # Steps one worker executes at once" in text
    assert "# [models.NAME]\n" in text
    assert store.problems() == []


def test_every_setting_of_the_core_is_described_and_every_number_has_a_range() -> None:
    fields = dict(core_schema().leaves())
    inner = {(*keys, name): sub for keys, item in fields.items() for name, sub in (item.fields or {}).items()}
    for keys, item in (fields | inner).items():
        assert item.description, keys
        assert item.item not in ("int", "float") or (item.min is not None and item.max is not None), keys


def test_a_file_that_was_only_touched_is_filled(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "lumia.toml").touch()
    ConfigStore(tmp_path)
    assert (tmp_path / "config" / "lumia.toml").read_text().startswith("# Settings of lumia.")


def test_a_second_start_leaves_the_file_alone(tmp_path: Path) -> None:
    ConfigStore(tmp_path).core.worker.concurrency = 4
    before = (tmp_path / "config" / "lumia.toml").stat()
    assert ConfigStore(tmp_path).core.worker.concurrency == 4
    assert (tmp_path / "config" / "lumia.toml").stat() == before


def test_a_place_reaches_sections_tables_and_their_entries(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path)
    store.set_path("models.main.model", "openai-chat:gpt-4o-mini")
    store.set_path("models.main.settings", {"temperature": 0.7})
    store.set_path(["models", "a.b"], {"timeout": 5})
    assert store.get_path("models.main.model") == "openai-chat:gpt-4o-mini"
    assert store.get_path(("models", "a.b", "timeout")) == 5.0
    assert store.get_path("worker")["batch"] == 64
    store.remove_path(("models", "a.b"))
    store.set_path("worker.batch", 2)
    store.remove_path("worker.batch")
    assert (list(store.core.models), store.core.worker.batch) == (["main"], 64)
    with pytest.raises(
        ConfigKeyError, match=r"lumia has no setting worker\.cuncurrency \(did you mean worker\.concurrency\?\)"
    ):
        store.get_path("worker.cuncurrency")


def test_a_table_can_be_followed_as_a_mapping(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path)
    models = store.table("models")
    assert (dict(models), len(models), "main" in models) == ({}, 0, False)
    store.set_path("models.main.model", "m")
    assert (list(models), models["main"]["model"]) == (["main"], "m")
    with pytest.raises(ConfigKeyError):
        store.table("worker.batch")


def test_secrets_are_known_and_not_shown(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path, environ={"MY_KEY": "sk-from-env", "OTHER": "x"})
    store.set_path("models.main.api_key_env", "MY_KEY")
    declared = {
        "sources": field(dict, fields={"hmac": field(str, secret=True), "n": field(int, 1)}),
        "free": field(dict, {"password": "pw-free", "x": 1}),
        "empty": field(str, secret=True),
    }
    store.register("webhook", None, declared).sources = {"a": {"hmac": "abcdef"}}
    assert store.known_secrets() == {"sk-from-env", "abcdef"}
    assert store.as_dict("webhook") == {
        "sources": {"a": {"hmac": "***", "n": 1}}, "free": {"password": "***", "x": 1}, "empty": "",
    }  # fmt: skip
    assert store.as_dict("webhook", hide=False)["sources"]["a"]["hmac"] == "abcdef"


@pytest.mark.parametrize("name", ["", "../etc/passwd", "a/b", "A", "a b", "a__b", "-a", "a.b", "ä"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigSchemaError, match="is no name of a plugin"):
        ConfigStore(tmp_path).register(name, None)


def test_a_plugin_can_not_take_the_cores_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigSchemaError, match=r"no plugin can be called lumia"):
        ConfigStore(tmp_path).register("lumia", None, {})


def test_a_default_that_is_not_allowed_is_refused_when_it_is_registered(tmp_path: Path) -> None:
    with pytest.raises(ConfigSchemaError, match="port has no default"):
        ConfigStore(tmp_path).register("p", None, {"port": field(int, min=1)})
    assert not (tmp_path / "config" / "p.toml").exists()


def test_a_root_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make one with `lumia init`"):
        ConfigStore(tmp_path / "none")


def test_an_invalid_core_file_stops_the_start_naming_file_key_value_and_range(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "lumia.toml").write_text("[worker]\nconcurrency = 0\n")
    with pytest.raises(
        ConfigValueError, match=r"lumia\.toml: \[worker\] concurrency = 0 is not allowed \(allowed: int from 1"
    ):
        ConfigStore(tmp_path)


def test_two_bots_live_in_one_process(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = ConfigStore(tmp_path / "one"), ConfigStore(tmp_path / "two")
    one.core.bot.name = "One"
    assert (one.core.bot.name, two.core.bot.name) == ("One", "Lumia")


def test_every_error_is_one_of_lumias() -> None:
    assert issubclass(ConfigKeyError, LumiaError)
    assert isinstance(declared_schema("p", {}), Schema)
    assert Settings.__doc__
