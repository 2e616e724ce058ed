"""Isolated plugins as other processes see them: described elsewhere, never imported; and their environments."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from lumia.errors import ConfigSchemaError, ManifestError, ServiceError, SourceError
from lumia.inmemory import InMemoryTransport
from lumia.isolation import isolated_queues
from lumia.isolation_env import environment, environment_of, sweep
from lumia.manifest import load_manifest
from lumia.paths import ISOLATED
from lumia.pkg import pip, python_deps
from lumia.pkg.layers import Package
from lumia.runtime import Runtime, open_bot
from lumia.testing import Bot
from tests.support.wheels import pip_env, wheel
from tests.support.workers import bot_root, write_plugin

CODE = """
import lumia

lumia.config.declare("apart", {"depth": lumia.config.field(int, 3), "key": lumia.config.field(str, "", secret=True)})


@lumia.pipe.on("apart.asked", priv=7, retry=lumia.Retry(attempts=2, backoff=0.5))
def asked(content: lumia.Box) -> None:
    lumia.utils.next()


@lumia.event.consumer_re("apart.*", timeout=1.0)
def heard(src: str, content: lumia.Box) -> None:
    pass


@lumia.cron("*/5 * * * *", tz="Europe/Berlin")
def tick(content: lumia.Box) -> None:
    pass
"""


def opened(root: Path) -> Runtime:
    return open_bot(root, load="all", transport=InMemoryTransport(), start=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return bot_root(tmp_path / "bot")


def test_others_know_its_routes_schedules_and_settings_and_never_import_it(root: Path) -> None:
    write_plugin(root, "apart", CODE, isolation="process", limits={"seconds": 2}, provides=["apart"])
    bot = opened(root)
    try:
        assert bot.plugins is not None and bot.config is not None and bot.services is not None
        table = bot.install(bot.plugins)
        found = {route.handler: route for route in table.routes}
        assert {(one.queue, one.timeout, one.generation) for one in found.values()} == {
            ("plugin.apart", 2.0, table.plugins["apart"]), ("plugin.apart", 1.0, table.plugins["apart"]),
        }  # fmt: skip
        asked = found["apart.asked"]
        assert (asked.kind, asked.priv, asked.retry.attempts, asked.source) == (
            "pipe",
            7,
            2,
            "plugins/apart/plugin.py:7",
        )
        assert found["apart.heard"].glob and found["apart.heard"].timeout == 1.0
        assert [(one.expression, one.tz) for one in table.schedules][-1] == ("*/5 * * * *", "Europe/Berlin")
        assert bot.config.settings("apart").depth == 3
        assert "lumia_plugins.apart.plugin" not in sys.modules
        assert isolated_queues(bot.plugins) == {"plugin.apart"}
        with pytest.raises(ServiceError, match="apart provides it, but it runs in processes of its own"):
            bot.services.get("apart")
    finally:
        bot.close()


def test_a_plugin_that_fails_in_its_own_process_is_a_failure_like_any_other(root: Path) -> None:
    write_plugin(root, "apart", "import lumia\n\nraise ValueError('no luck')\n", isolation="process")
    write_plugin(root, "quits", "import os\n\nprint('bye', flush=True)\nos._exit(3)\n", isolation="process")
    code = "import lumia\n\n\n@lumia.mcp.tool('mine', 'dig', description='Dig')\ndef dig() -> dict:\n    return {}\n"
    write_plugin(root, "tools", code, isolation="process")
    bot = opened(root)
    assert bot.plugins is not None
    failures = {one.name: str(one) for one in bot.plugins.failures}
    bot.close()
    assert failures["apart"] == "plugin apart (import, plugins/apart/plugin.py:3): ValueError: no luck"
    assert "importing quits in its own process (at most 512 MiB) ended it with exit code 3: bye" in failures["quits"]
    assert "tools.dig is a tool, which is called in the bot's own processes" in failures["tools"]


def test_in_its_own_process_it_is_loaded_and_the_others_stand_in(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plugin(root, "apart", CODE, isolation="process", dependencies={"helper": ""})
    write_plugin(root, "helper", "raise AssertionError('not here')\n", provides=["help"])
    monkeypatch.setenv(ISOLATED, "apart")
    bot = opened(root)
    try:
        assert bot.plugins is not None and bot.services is not None
        assert set(bot.plugins.plugins) == {"apart", "helper"} and not bot.plugins.failures
        assert set(bot.handlers) == {"apart.asked", "apart.heard", "apart.tick"}
        with pytest.raises(ServiceError, match="helper provides it, but it is in the bot's processes"):
            bot.services.get("help")
    finally:
        bot.close()


def test_a_test_of_the_plugin_imports_it_like_any_other(root: Path) -> None:
    write_plugin(root, "apart", CODE, isolation="process")
    with Bot(root / "plugins" / "apart") as bot:
        assert bot.start("apart.asked", 1).outcome == "done"


@pytest.mark.parametrize(
    "more, why",
    [
        ({"limits": {"memory_mb": 512}}, '"limits" are those of a process of its own'),
        ({"isolation": "process", "gateway": True}, '"isolation" and "gateway" exclude each other'),
        ({"isolation": "process", "limits": {"memory_mb": 8}}, "memory_mb"),
        ({"isolation": "process", "limits": {"concurrency": 0}}, "concurrency"),
        ({"isolation": "process", "limits": {"memroy_mb": 512}}, "did you mean 'memory_mb'"),
        ({"isolation": "thread"}, "isolation"),
    ],
)
def test_a_manifest_says_what_can_be(root: Path, more: dict[str, Any], why: str) -> None:
    write_plugin(root, "apart", CODE, **more)
    with pytest.raises(ManifestError, match=why):
        load_manifest(root / "plugins" / "apart")


def test_its_environment_has_its_own_packages_in_front_of_the_bots(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "wheels", "mypy", "0.1")
    for name, value in pip_env(tmp_path / "wheels").items():
        monkeypatch.setenv(name, value)
    write_plugin(root, "apart", CODE, isolation="process", python_dependencies=["mypy<1"])
    manifest = load_manifest(root / "plugins" / "apart")
    told: list[str] = []
    env = environment(root, manifest, told.append)
    assert told[0] == "making the environment of apart" and environment(root, manifest, told.append) == env
    code = (
        "import importlib.metadata as m, mypy, pydantic; print(mypy.VERSION, m.version('mypy'), m.version('pydantic'))"
    )
    done = subprocess.run([env.python, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.split() == ["0.1", "0.1", version("pydantic")]
    (root / "data/python/isolated/old-0123").mkdir()
    assert sweep(root, [manifest]) == ["old-0123"] and env.ready


def test_an_environment_that_can_not_be_made_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise SourceError("gone")

    write_plugin(root, "apart", CODE, isolation="process", python_dependencies=["here-once"])
    manifest = load_manifest(root / "plugins" / "apart")
    monkeypatch.setattr(python_deps, "resolve_isolated", lambda *_, **__: (Package("here-once", "1.0"),))
    monkeypatch.setattr(pip, "install", gone)
    with pytest.raises(SourceError, match="gone"):
        environment(root, manifest)
    assert not environment_of(root, manifest).folder.exists()


def test_a_command_of_an_isolated_plugin_runs_in_its_environment(root: Path) -> None:
    code = "import sys\nimport lumia\n\n\n@lumia.command('where')\ndef where() -> None:\n    print(sys.prefix)\n"
    write_plugin(root, "apart", code, isolation="process", commands={"where": "Say where it runs"})
    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run(
        [sys.executable, "-m", "lumia", "where"], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(str(root / "data/python/isolated/apart-"))


def test_a_declared_setting_has_to_be_one_that_can_be_told() -> None:
    from lumia.config_field import Field
    from lumia.isolation_describing import _told_field

    assert _told_field("apart", "depth", Field("int", 3)) == {
        "type": "int",
        "default": 3,
        "description": "",
        "secret": False,
    }
    with pytest.raises(ConfigSchemaError, match="put the setting into config-schema"):
        _told_field("apart", "when", Field("datetime", object()))
