"""Every code example of LUMIA-SPEC-001 §4–§8 runs as written; `examples.txt` holds them word for word."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.manifest import load_manifest
from lumia.routes import Schedule
from lumia.testing import Bot
from tests.spec import standins

EXAMPLES = dict(
    re.findall(
        r"^## ([\d.]+) [^\n]*\n\n```\w+\n(.*?)^```$",
        Path(__file__).with_name("examples.txt").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)
PRELUDE = "import lumia\nfrom tests.spec.standins import NapcatClient, PlCache, embed_sync, json\n\nready = True\n\n"
STARTS = re.compile(r"^# (?:Emit|Start a pipeline)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def calls() -> Iterator[list[tuple[Any, ...]]]:
    standins.calls.clear()
    yield standins.calls
    standins.calls.clear()


@pytest.fixture(autouse=True)
def fresh_modules() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("lumia_plugins.")]:
        del sys.modules[name]


def example(section: str) -> str:
    """Return the part of an example that belongs into a plugin's module."""
    return STARTS.split(EXAMPLES[section])[0]


def starting(section: str, **names: Any) -> None:
    """Execute the part of an example that starts something, with `names` for the variables it assumes."""
    exec(STARTS.split(EXAMPLES[section])[1], {"lumia": lumia, **names})


def plugin(tmp_path: Path, name: str, code: str, **files: str) -> Path:
    """Write a plugin's folder and return it."""
    folder = tmp_path / name
    folder.mkdir()
    manifest = json.dumps({"name": name, "main": "plugin.py"})
    for file, text in {"manifest.json": manifest, "plugin.py": code, **files}.items():
        (folder / file).write_text(text, encoding="utf-8")
    return folder


def spec_plugin(tmp_path: Path, section: str) -> Path:
    return plugin(tmp_path, f"spec-{section.replace('.', '-')}", PRELUDE + example(section))


def module(section: str) -> Any:
    return sys.modules[f"lumia_plugins.spec_{section.replace('.', '_')}.plugin"]


def handlers(result: Any) -> list[str]:
    return [step.handler.partition(".")[2] for step in result.steps]


def test_no_example_is_left_out() -> None:
    assert list(EXAMPLES) == ["4.1.1", "4.1.3", "4.3", "5.3", "5.4", "6.2", "7.2", "7.5", "8.2", "8.3"]


# --- §4.1.1 Event


def test_the_hourly_tick_refreshes_the_cache(tmp_path: Path, calls: list[Any]) -> None:
    with Bot(spec_plugin(tmp_path, "4.1.1")) as bot:
        assert Schedule("cron.1h", "0 * * * *") in bot.table.schedules
        result = bot.event("cron.1h", "12:00")
    assert (result.outcome, handlers(result)) == ("done", ["cache_refresh"])
    assert calls == [("refresh", "12:00")]


def test_a_message_for_a_group_reaches_the_platform_with_the_groups_id(tmp_path: Path, calls: list[Any]) -> None:
    with Bot(spec_plugin(tmp_path, "4.1.1")) as bot:
        result = bot.event("msg.send, dest=3.11.group-42", '{"text": "hi"}')
        assert handlers(result) == ["send_qq"]
        assert handlers(bot.event("msg.send, dest=3.11.private-42", '{"text": "hi"}')) == []
    assert calls == [("send", {"text": "hi"}, "42")]


def test_an_emitted_message_finds_the_adapter_of_its_destination(tmp_path: Path, calls: list[Any]) -> None:
    with Bot(spec_plugin(tmp_path, "4.1.1"), spec_plugin(tmp_path, "6.2")) as bot:
        starting("4.1.1", gid="42", msg="hello")
        bot.settle()
    assert calls == [("send", "hello", "42")]


# --- §4.1.3 Interceptor


def test_a_heartbeat_is_noted_and_the_event_goes_on(tmp_path: Path) -> None:
    heard: list[str] = []

    @lumia.event.consumer("bus.adapters.qq.find_active")
    def consumer(content: lumia.Box[Any]) -> None:
        heard.append(content.into())

    with Bot(spec_plugin(tmp_path, "4.1.3"), consumer) as bot:
        result = bot.event("bus.adapters.qq.find_active", "qq-main")
        (adapter,) = lumia.system.adapters.list()
    assert (result.outcome, handlers(result), heard) == ("done", ["heartbeat", "consumer"], ["qq-main"])
    assert (adapter.id, adapter.version, adapter.platform) == ("qq-main", "napcat-adapter-qq-1.0.29", "qq")


@pytest.mark.parametrize("version, outcome", [("1.0.28", "blocked"), ("1.0.29", "done"), ("1.1.0", "done")])
def test_old_adapters_are_stopped_before_any_consumer_runs(tmp_path: Path, version: str, outcome: str) -> None:
    heard: list[str] = []

    @lumia.event.consumer_re("bus.adapters.qq.*")
    def consumer(src: str, content: lumia.Box[Any]) -> None:
        heard.append(src)

    with Bot(spec_plugin(tmp_path, "4.1.3"), consumer) as bot:
        result = bot.event("bus.adapters.qq.find_old.napcat", version)
    assert result.outcome == outcome
    assert heard == ([] if outcome == "blocked" else ["bus.adapters.qq.find_old.napcat"])


def test_the_interceptor_of_higher_priv_runs_first(tmp_path: Path) -> None:
    order: list[str] = []

    @lumia.event.interceptor("bus.adapters.qq.find_old.x", priv=10_000)
    def first(content: lumia.Box[Any]) -> None:
        order.append("first")

    @lumia.event.interceptor("bus.adapters.qq.find_old.x", priv=9_998)
    def never(content: lumia.Box[Any]) -> None:
        order.append("never")

    with Bot(never, spec_plugin(tmp_path, "4.1.3"), first) as bot:
        result = bot.event("bus.adapters.qq.find_old.x", "1.0.1")
    assert (handlers(result), order) == (["first", "stop_old"], ["first"])


# --- §4.3 Globs


def test_a_glob_handler_receives_the_matched_id(tmp_path: Path) -> None:
    with Bot(spec_plugin(tmp_path, "4.3")) as bot:
        assert handlers(bot.event("msg.send, dest=3.11.group-42", "x")) == ["send_qq"]


def test_a_glob_handler_without_src_is_refused_at_registration(tmp_path: Path) -> None:
    code = PRELUDE + example("4.3").replace("src: str, ", "")
    with pytest.raises(lumia.LumiaError, match="src"), Bot(plugin(tmp_path, "no-src", code)):
        pass


# --- §5 Pipeline


def test_next_passes_the_message_on_to_lower_priv(tmp_path: Path) -> None:
    @lumia.pipe.on("msg", priv=49)
    def after(content: lumia.Box[Any]) -> None:
        assert content.into() == {"text": "hi"}

    with Bot(after, spec_plugin(tmp_path, "5.3")) as bot:
        starting("5.3", raw_msg={"text": "hi"})
        bot.settle()
        steps = [(entry.handler, entry.outcome) for entry in lumia.runs.tail("0") if entry.kind == "step"]
    assert steps == [("spec_5_3.handle_msg", "next"), ("test.after", "stop")]


def test_exploring_registers_an_adapter_named_by_the_id(tmp_path: Path, calls: list[Any]) -> None:
    with Bot(spec_plugin(tmp_path, "5.3")) as bot:
        result = bot.start("bus.adapters.qq.exp.7", None)
        (adapter,) = lumia.system.adapters.list()
    assert (result.outcome, calls) == ("done", [("initialize",)])
    assert (adapter.id, adapter.version) == ("qq-exp-7", "napcat-adapter-qq-1.0.29")


def test_an_adapter_that_is_not_ready_passes_the_exploration_on(tmp_path: Path, calls: list[Any]) -> None:
    with Bot(spec_plugin(tmp_path, "5.3")) as bot:
        module("5.3").ready = False
        result = bot.start("bus.adapters.qq.exp.7", None)
        assert lumia.system.adapters.list() == []
    assert ([step.outcome for step in result.steps], calls) == (["next"], [])


def test_the_words_of_5_4_do_what_their_comments_say() -> None:
    to_the_next, block = EXAMPLES["5.4"].splitlines()

    @lumia.pipe.on("p", priv=1)
    def first(content: lumia.Box[Any]) -> None:
        exec(to_the_next)

    @lumia.pipe.on("p")
    def second(content: lumia.Box[Any]) -> None: ...

    @lumia.event.interceptor("e")
    def guard(content: lumia.Box[Any]) -> None:
        exec(block)

    @lumia.event.consumer("e")
    def consumer(content: lumia.Box[Any]) -> None: ...

    with Bot(first, second, guard, consumer) as bot:
        assert handlers(bot.start("p", None)) == ["first", "second"]
        blocked = bot.event("e", None)
    assert (blocked.outcome, handlers(blocked)) == ("blocked", ["guard"])


# --- §6.2 Adapter contract


def test_a_received_message_starts_the_pipeline_and_its_raw_twin_with_the_senders_embedding(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    @lumia.pipe.on("msg")
    def normalized(content: lumia.Box[Any]) -> None:
        seen["msg"] = content.into()

    @lumia.event.consumer("msg.qq")
    def raw(content: lumia.Box[Any]) -> None:
        seen["msg.qq"] = content.into()

    with Bot(spec_plugin(tmp_path, "6.2"), normalized, raw) as bot:
        module("6.2").on_receive({"sender_id": "10001", "text": "hi"})
        bot.settle()
    expected = {"sender_id": "10001", "text": "hi", "sender_embedding": [5.0, 0.5]}
    assert seen == {"msg": expected, "msg.qq": expected}


def test_a_reply_is_delivered_to_the_group(tmp_path: Path, calls: list[Any]) -> None:
    with Bot(spec_plugin(tmp_path, "6.2")) as bot:
        to = lumia.payloads.destination(3, "qq", "group", "42")
        result = bot.event(to, "a reply")
    assert (to, result.replies) == ("msg.send, dest=3.qq.group-42", ["a reply"])
    assert calls == [("send", "a reply", "42")]


# --- §7 Plugin, §8 Configuration


@pytest.fixture
def heartflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    """A bot root with the plugin of §7.2, §7.5 and §8.2, and the plugins it depends on at the versions it asks for."""
    monkeypatch.setattr("lumia.testing.base", lambda: tmp_path / "base")  # where no first-party heartflow is
    parts = {"manifest.json": EXAMPLES["7.2"], "config-schema.toml": EXAMPLES["8.2"]}
    home = tmp_path / "root" / "plugins"
    home.mkdir(parents=True)
    folders = [
        plugin(home, "memory-graph", "import lumia\n"),
        plugin(home, "persona-loader", "import lumia\n"),
        plugin(home, "heartflow", EXAMPLES["7.5"], **parts),
    ]
    for folder, version in zip(folders, ("v0.2.0", "v0.1.3", "v0.3.1"), strict=True):
        tagged(folder, version)
    with Bot(*folders, root=tmp_path / "root") as bot:
        yield bot


def tagged(folder: Path, version: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "x"], ["tag", version]):
        subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)


def test_the_manifest_of_the_example_is_read_field_by_field(tmp_path: Path) -> None:
    manifest = load_manifest(plugin(tmp_path, "heartflow", "", **{"manifest.json": EXAMPLES["7.2"]}))
    assert (manifest.name, manifest.main, manifest.min_core_version) == ("heartflow", "plugin.py", "0.2.0")
    assert dict(manifest.dependencies) == {"memory-graph": ">=0.2.0", "persona-loader": ">=0.1.0"}
    assert (manifest.provides, manifest.unique, manifest.closed_source) == (("response",), ("response",), False)
    assert manifest.source is not None
    assert manifest.source.url == "https://github.com/yourname/heartflow"
    assert manifest.config_schema == "config-schema.toml"


def test_the_entry_point_of_the_example_loads_with_its_dependencies_and_answers_its_pipeline(heartflow: Bot) -> None:
    result = heartflow.start("msg", {"text": "hi"})
    assert (result.outcome, [step.handler for step in result.steps]) == ("done", ["heartflow.handle"])
    plugins = heartflow.runtime.plugins
    assert plugins is not None
    assert [(plugin.name, plugin.version) for plugin in plugins.plugins.values()] == [
        ("memory-graph", "0.2.0"),
        ("persona-loader", "0.1.3"),
        ("heartflow", "0.3.1"),
    ]


def test_declaration_and_schema_file_of_the_example_complement_each_other(heartflow: Bot) -> None:
    config = lumia.config.get("heartflow")
    assert (config.trigger_threshold, config.attention_window) == (0.65, 120)
    assert (config.planner_model, config.main_model) == ("deepseek-chat", "deepseek-reasoner")
    with pytest.raises(lumia.errors.ConfigValueError, match=r"trigger_threshold.*1\.0"):
        config.trigger_threshold = 1.5


def test_the_generated_file_holds_defaults_and_descriptions(heartflow: Bot) -> None:
    text = (heartflow.runtime.root / "config" / "heartflow.toml").read_text(encoding="utf-8")
    assert "trigger_threshold = 0.65" in text
    assert re.search(r"#.*Seconds the bot remains attentive after speaking", text)


def test_settings_are_read_typed_and_written_at_once(heartflow: Bot) -> None:
    names: dict[str, Any] = {"lumia": lumia}
    exec(EXAMPLES["8.3"], names)
    assert names["threshold"] == 0.65
    text = (heartflow.runtime.root / "config" / "heartflow.toml").read_text(encoding="utf-8")
    assert re.search(r"^trigger_threshold = 0\.7\b", text, re.MULTILINE)
    assert lumia.config.get("heartflow").trigger_threshold == 0.7
