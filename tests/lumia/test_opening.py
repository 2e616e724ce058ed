"""Opening the bot of a folder in this process."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia import box, opening, runtime
from lumia.config import ConfigStore
from lumia.errors import BackendUnavailableError, ConfigError, RootNotFoundError
from lumia.inmemory import InMemoryTransport
from lumia.loader import discover
from lumia.opening import limits_of
from lumia.paths import base
from lumia.runtime import Runtime, open_bot

WORKS = "import lumia\n\n@lumia.pipe.on('works')\ndef works(content): pass\n"


def plugin(root: Path, name: str, code: str = WORKS, **manifest: Any) -> None:
    home = root / "plugins" / name
    home.mkdir(parents=True)
    fields = {"name": name, "display_name": name, "description": "For a test", "author": "t", "license": "x",
              "main": "plugin.py"}  # fmt: skip
    (home / "manifest.json").write_text(json.dumps(fields | manifest))
    (home / "plugin.py").write_text(code)


@pytest.fixture
def root(bot_root: Path) -> Path:
    """A bot root without the first-party plugins."""
    off = [found.name for found in discover(base(), bot_root, ())]
    (bot_root / "config" / "lumia.toml").write_text(f"[plugins]\ndisabled = {json.dumps(off)}\n")
    return bot_root


@pytest.fixture
def opened(root: Path) -> Iterator[Any]:
    bots: list[Runtime] = []

    def open_one(**options: Any) -> Runtime:
        bots.append(open_bot(root, transport=InMemoryTransport(), **options))
        return bots[-1]

    yield open_one
    for bot in bots:
        bot.close()
    box.set_limit(box.DEFAULT_LIMIT)


def test_an_opened_bot_is_the_active_one_and_has_all_its_parts(opened: Any, root: Path) -> None:
    bot = opened()
    assert runtime.current() is bot
    assert (bot.root, bot.base, len(bot.secret)) == (root, base(), 32)
    assert None not in (bot.config, bot.services, bot.models, bot.blobs)
    assert bot.handlers == {}
    bot.close()
    assert runtime.active() is None


def test_all_plugins_are_loaded_and_started(opened: Any, root: Path) -> None:
    plugin(root, "works", WORKS + "\nSTARTED = []\ndef on_load():\n    STARTED.append(1)\n")
    bot = opened(load="all")
    assert list(bot.handlers) == ["works.works"]
    assert bot.plugins.plugins["works"].module.STARTED == [1]


def test_plugins_can_be_loaded_without_being_started(opened: Any, root: Path) -> None:
    plugin(root, "works", WORKS + "\nSTARTED = []\ndef on_load():\n    STARTED.append(1)\n")
    assert opened(load="all", start=False).plugins.plugins["works"].module.STARTED == []


def test_the_gateway_loads_only_what_it_serves(opened: Any, root: Path) -> None:
    plugin(root, "works")
    plugin(root, "serves", WORKS, gateway=True)
    assert list(opened(load="gateway").handlers) == ["serves.works"]


def test_a_plugin_that_fails_is_logged_and_the_others_go_on(
    opened: Any, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin(root, "works")
    plugin(root, "broken", "raise ValueError('at import')\n")
    plugin(root, "unstartable", WORKS + "\ndef on_load():\n    raise ValueError('at start')\n")
    with caplog.at_level(logging.WARNING, "lumia"):
        bot = opened(load="all")
    assert list(bot.handlers) == ["works.works"]
    assert "plugin broken (import, plugins/broken/plugin.py:1): ValueError: at import" in caplog.text
    assert "plugin unstartable (on_load" in caplog.text


def test_a_warning_of_the_loader_is_logged(opened: Any, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / "config" / "lumia.toml").write_text('[plugins]\ndisabled = ["no-such-plugin"]\n')
    for folder in ("handlers", "adapters"):
        assert (base() / folder).is_dir()
    with caplog.at_level(logging.WARNING, "lumia"):
        opened(load="gateway", start=False)
    assert "no-such-plugin" in caplog.text


def test_loading_that_breaks_leaves_no_bot_behind(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "load_plugins", breaks)
    with pytest.raises(KeyboardInterrupt):
        opened(load="all")
    assert runtime.active() is None


@pytest.mark.parametrize("load", ["some", "", None])
def test_what_to_load_is_one_of_three_words(root: Path, load: Any) -> None:
    with pytest.raises(ConfigError, match="none, gateway, all"):
        open_bot(root, load=load)


def test_a_folder_that_is_no_bot_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RootNotFoundError):
        open_bot(tmp_path / "nowhere")


def test_a_backend_that_is_not_there_is_named_with_its_setting(root: Path) -> None:
    with (root / "config" / "lumia.toml").open("a") as file:
        file.write('[lumia]\nbackend = "no_such_backend"\n')
    with pytest.raises(BackendUnavailableError, match=r"'no_such_backend' of config/lumia\.toml, \[lumia\] backend"):
        open_bot(root)
    assert runtime.active() is None


def test_a_backend_is_a_module_that_connects(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_backend"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "backend.py").write_text(
        "from lumia.inmemory import InMemoryTransport\n"
        "def connect(root, limits, config):\n    return InMemoryTransport(limits)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with (root / "config" / "lumia.toml").open("a") as file:
        file.write('[lumia]\nbackend = "some_backend"\n[worker]\nmax_losses = 9\n')
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry != str(base())])
    bot = open_bot(root)
    try:
        assert isinstance(bot.transport, InMemoryTransport)
        assert bot.transport.limits.max_losses == bot.limits.max_losses == 9
    finally:
        bot.close()


def test_the_figures_of_the_configuration_reach_the_mechanism(root: Path) -> None:
    with (root / "config" / "lumia.toml").open("a") as file:
        file.write(
            "[worker]\nconcurrency = 3\nstep_timeout = 7.5\nmax_losses = 2\nfuse = false\nbatch = 5\nbatch_ms = 250\n"
            "[dedup]\nwindow = 60\n[runs]\nkeep = 30\n[journal]\nhard_bytes = 5000000\nmax_bytes = 2000000\n"
        )
    limits = limits_of(ConfigStore(root))
    assert (limits.concurrency, limits.step_timeout, limits.max_losses, limits.fuse) == (3, 7.5, 2, False)
    assert (limits.batch, limits.batch_seconds) == (5, 0.25)
    assert (limits.dedup_window, limits.keep_runs, limits.journal_bytes) == (60, 30, 5_000_000)


def test_the_size_of_a_box_is_limited_as_configured(opened: Any, root: Path) -> None:
    with (root / "config" / "lumia.toml").open("a") as file:
        file.write("[box]\nmax_bytes = 2000\n")
    opened()
    with pytest.raises(lumia.errors.BoxTooLargeError):
        lumia.Box.any("x" * 3000)


def test_secrets_do_not_reach_the_journal(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "open-sesame-please")
    monkeypatch.setenv("SHORT_KEY", "short")
    bot = opened()
    assert bot.redact("") == ""
    assert bot.redact("the key is open-sesame-please, in short") == "the key is ***, in short"
    assert bot.secret.hex() not in bot.redact(f"secret {bot.secret.hex()}")
