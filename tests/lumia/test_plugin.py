"""A set of plugins at work: on_load and on_unload once per process, services, leaving (spec §7.5)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.errors import ServiceError
from lumia.loader import start_plugins
from tests.support.plugins import PluginBot, in_fresh_process

LIFE = """\
import lumia

LIFE = []


def on_load():
    LIFE.append("load")


def on_unload():
    LIFE.append("unload")
"""
PROVIDER = "from lumia import services\ndef on_load():\n    services.provide('memory', ['blue'])\n"
USER = "from lumia import services\ndef on_load():\n    global SEEN\n    SEEN = services.get('memory', list)\n"


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[PluginBot]:
    with PluginBot(tmp_path) as made:
        yield made


def test_on_load_runs_once_however_often_the_set_is_started(bot: PluginBot) -> None:
    bot.plugin("plugins/echo", LIFE)
    loaded = bot.load(on_load=False)
    life = loaded.plugins["echo"].module.LIFE
    assert life == []
    for _ in range(3):
        start_plugins(loaded)
    assert life == ["load"]


FORKING = """
import os
loaded = loader.load(on_load={before})
loads = loaded.plugins["graph"].module.LOADS
child = os.fork()
for _ in range(2):
    loaded.start()
os.write(1, f"{{len(loads)}} {{loaded.failures}} {{services.get('memory')}}\\n".encode())
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("before, loads", [(False, ["1", "1"]), (True, ["1", "2"])])
def test_every_forked_process_runs_on_load_once_for_itself(
    bot: PluginBot, tmp_path: Path, before: bool, loads: list[str]
) -> None:
    code = PROVIDER.replace("def on_load():\n", "LOADS = []\ndef on_load():\n    LOADS.append(1)\n")
    bot.plugin("plugins/graph", code, provides=["memory"], unique=["memory"])
    seen = in_fresh_process(bot, FORKING.format(before=before), tmp_path).splitlines()
    assert sorted(seen) == [f"{count} [] ['blue']" for count in loads]


def test_a_service_provided_in_on_load_serves_those_who_load_later(bot: PluginBot) -> None:
    bot.plugin("plugins/graph", PROVIDER, provides=["memory"])
    bot.plugin("plugins/flow", USER, dependencies={"graph": ""})
    loaded = bot.load()
    assert loaded.failures == []
    assert loaded.plugins["flow"].module.SEEN == ["blue"]
    assert bot.services.get("memory") == ["blue"]


def test_a_failing_on_load_takes_the_dependents_along_and_withdraws_its_services(bot: PluginBot) -> None:
    bot.plugin("plugins/graph", PROVIDER + "    raise OSError('no disk')\n", provides=["memory"])
    bot.plugin("plugins/flow", USER, dependencies={"graph": ""})
    bot.plugin("plugins/whole", LIFE)
    loaded = bot.load()
    assert list(loaded.plugins) == ["whole"]
    graph, flow = sorted(loaded.failures, key=lambda failure: failure.name, reverse=True)
    assert (graph.stage, graph.line, graph.message) == ("on_load", 4, "OSError: no disk")
    assert (flow.stage, flow.file) == ("resolve", "plugins/flow/manifest.json")
    assert flow.message == "flow needs graph, which is not loaded: OSError: no disk"
    assert "lumia_plugins.graph.plugin" not in sys.modules
    with pytest.raises(ServiceError, match="graph provides it, but it failed to load: OSError: no disk"):
        bot.services.get("memory")


def test_a_wrong_provide_is_a_failure_of_the_plugin_with_its_line(bot: PluginBot) -> None:
    bot.plugin("plugins/graph", PROVIDER)
    (failure,) = bot.load().failures
    assert (failure.stage, failure.file, failure.line) == ("on_load", "plugins/graph/plugin.py", 3)
    assert failure.message.startswith("graph provides service 'memory', which its manifest doesn't list")
    assert "services.provide" in failure.traceback


def test_on_unload_still_reaches_the_plugins_own_service(bot: PluginBot) -> None:
    bot.plugin(
        "plugins/graph", PROVIDER + "def on_unload():\n    services.get('memory').clear()\n", provides=["memory"]
    )
    loaded = bot.load()
    memory = bot.services.get("memory")
    loaded.close()
    assert loaded.failures == []
    assert memory == []


def test_unloading_runs_on_unload_and_takes_services_and_modules_out(bot: PluginBot) -> None:
    bot.plugin("plugins/graph", PROVIDER + LIFE.replace("def on_load", "def other"), provides=["memory"])
    loaded = bot.load()
    plugin = loaded.plugins["graph"]
    assert loaded.unload(plugin) is None
    assert plugin.module.LIFE == ["unload"]
    assert loaded.plugins == {}
    assert not [name for name in sys.modules if name.startswith("lumia_plugins.graph")]
    with pytest.raises(ServiceError):
        bot.services.get("memory")
    loaded.unload(plugin)
    assert plugin.module.LIFE == ["unload"]


def test_on_unload_is_not_for_plugins_that_were_never_loaded(bot: PluginBot) -> None:
    bot.plugin("plugins/echo", LIFE)
    loaded = bot.load(on_load=False)
    plugin = loaded.plugins["echo"]
    loaded.close()
    assert plugin.module.LIFE == []


def test_an_on_unload_that_raises_is_reported_and_the_plugin_gone_all_the_same(bot: PluginBot) -> None:
    bot.plugin("plugins/echo", "def on_unload():\n    raise SystemExit('stuck')\n")
    loaded = bot.load()
    failure = loaded.unload(loaded.plugins["echo"])
    assert failure is not None
    assert (failure.stage, failure.line, failure.message) == ("on_unload", 2, "SystemExit: stuck")
    assert loaded.failures == [failure]
    assert "lumia_plugins.echo.plugin" not in sys.modules


def test_closing_unloads_the_dependents_first(bot: PluginBot) -> None:
    journal = "import builtins\n{}\ndef on_unload():\n    ORDER.append(__name__)\n"
    bot.plugin("plugins/zeta", journal.format("ORDER = []"))
    bot.plugin(
        "plugins/alpha", journal.format("from lumia_plugins.zeta.plugin import ORDER"), dependencies={"zeta": ""}
    )
    loaded = bot.load()
    order = loaded.plugins["zeta"].module.ORDER
    loaded.close()
    assert order == ["lumia_plugins.alpha.plugin", "lumia_plugins.zeta.plugin"]
    assert loaded.plugins == {}


def test_the_old_generation_leaves_without_taking_the_new_one_along(bot: PluginBot) -> None:
    bot.plugin("plugins/graph", PROVIDER, provides=["memory"], unique=["memory"])
    before = bot.load()
    old = before.plugins["graph"]
    bot.plugin("plugins/graph", PROVIDER.replace("blue", "red"), provides=["memory"], unique=["memory"])
    after = bot.loader().load(keep=before)
    assert after.failures == []
    before.unload(old)
    assert sys.modules["lumia_plugins.graph.plugin"] is after.plugins["graph"].module
    assert bot.services.get("memory") == ["red"]
