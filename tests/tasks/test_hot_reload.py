"""Plugins exchanged under a running bot: real workers and gateways on two bot roots, a real Valkey, real operations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from websockets.sync.client import connect as websocket

import lumia
from lumia.config import ConfigStore
from lumia.errors import OperationError
from lumia.pkg.bringing import Root
from lumia.pkg.deploying import Outcome
from lumia.runtime import Runtime
from tests.support import packages, servers
from tests.support.machines import Machine
from tests.support.wait import until
from tests.support.wheels import wheels
from tests.support.workers import Celery, GatewayProcess, gateway, opened, worker

CODE = """
import lumia

@lumia.pipe.on("count", priv=1)
def first(content: lumia.Box):
    lumia.store.append("seen", [content.into(), "first", VERSION])
    lumia.utils.next()

@lumia.pipe.on("count")
def second(content: lumia.Box):
    lumia.store.append("seen", [content.into(), "second", VERSION])
"""
WAITS = """
import time, pathlib, lumia

@lumia.pipe.on("wait", priv=1)
def begin(content: lumia.Box):
    lumia.store.append("seen", ["begin", VERSION])
    pathlib.Path(content.into() + " begun").touch()
    while not pathlib.Path(content.into()).exists():
        time.sleep(0.01)
    lumia.utils.next()

@lumia.pipe.on("wait")
def end(content: lumia.Box):
    lumia.store.append("seen", ["end", VERSION])

def on_unload():
    with (pathlib.Path(__file__).parents[2] / f"unloaded-{VERSION}").open("a") as file:
        file.write("x")
"""
WEB = """
import asyncio, lumia
from lumia import gateway

@lumia.web.route("/NAME")
async def page(request):
    return gateway.PlainTextResponse(VERSION)

@lumia.web.websocket("/NAME/socket")
async def socket(socket):
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(f"{VERSION} {text}")

@lumia.web.resident
async def resident():
    seen = lumia.store.of("NAME")
    await asyncio.to_thread(seen.append, "residents", f"{VERSION} begins")
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.1)
        await asyncio.to_thread(seen.append, "residents", f"{VERSION} ends")
"""


@dataclass
class World:
    """Two machines, a worker on each, and a gateway on the first."""

    one: Machine
    two: Machine
    bot: Runtime
    url: str
    workers: list[Celery]
    gateway: GatewayProcess

    def get(self, path: str) -> str:
        with urlopen(f"{self.gateway.url}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def run(self, id: str, content: Any) -> lumia.runs.RunResult:
        return lumia.runs.wait(lumia.pipe.start(id, lumia.Box.any(content)), 20)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("hot")
    shop = packages.Shop(folder / "shop")
    one, two = Machine(folder / "one", shop), Machine(folder / "two", shop)
    with ExitStack() as stack:
        url = stack.enter_context(servers.valkey(folder / "valkey")).url
        workers = [stack.enter_context(worker(one.layout.root, url, name="one"))]
        workers.append(stack.enter_context(worker(two.layout.root, url, name="two")))
        served = stack.enter_context(gateway(one.layout.root, url))
        bot = one.bot = two.bot = stack.enter_context(opened(one.layout.root, url))
        until(lambda: len(bot.transport.deployments().members()) == 3, what="three members")
        yield World(one, two, bot, url, workers, served)


def items(plugin: str, key: str = "seen") -> list[Any]:
    return lumia.store.of(plugin).items(key)


def test_install_upgrade_downgrade_and_remove_reach_every_machine(world: World) -> None:
    assert world.one.install("counter", "1.0.0", CODE).processes == 3
    world.run("count", 1)
    assert world.one.install("counter", "2.0.0", CODE).processes == 3
    world.run("count", 2)
    assert world.two.lock.plugins == world.one.lock.plugins
    assert (world.two.layout.folder("counter") / "plugin.py").read_text().startswith("VERSION = '2.0.0'")
    assert world.one.install("counter", "1.0.0", CODE).state == "active"
    world.run("count", 3)
    assert world.two.drop("counter").state == "active"
    assert world.run("count", 4).reason == "no handler"
    serials = [Root(one.layout.root, ConfigStore(one.layout.root)).serial for one in (world.one, world.two)]
    assert serials[0] == serials[1] >= 4  # neither takes an older record any more
    assert not world.one.layout.folder("counter").exists()
    assert items("counter") == [[n, step, version] for n, version in ((1, "1.0.0"), (2, "2.0.0"), (3, "1.0.0"))
                                for step in ("first", "second")]  # fmt: skip


def test_two_operations_begun_on_two_machines_at_the_same_moment_both_succeed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIA_REDIS_URL", world.url)
    ready = threading.Barrier(2)

    def install(machine: Machine, name: str) -> str:
        ready.wait(10)
        return machine.install(name, "1.0.0", CODE.replace("count", name)).state

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.submit(install, world.one, "left"), pool.submit(install, world.two, "right")
        assert (one.result(60), two.result(60)) == ("active", "active")
    assert {"left", "right"} <= world.one.lock.plugins.keys()
    assert world.two.lock.plugins == world.one.lock.plugins


def test_a_run_in_flight_ends_on_its_generation_which_is_then_unloaded_once(world: World, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    world.one.install("waiter", "1.0.0", WAITS)
    run = lumia.pipe.start("wait", lumia.Box.any(str(gate)))
    until(Path(f"{gate} begun").exists, what="the step to begin")
    world.one.install("waiter", "2.0.0", WAITS)
    other = tmp_path / "other"
    other.touch()
    world.run("wait", str(other))
    gate.touch()
    lumia.runs.wait(run, 20)
    assert sorted(items("waiter")) == [[step, f"{n}.0.0"] for step in ("begin", "end") for n in (1, 2)]
    for machine in (world.one, world.two):
        gone = machine.layout.root / "unloaded-1.0.0"
        until(gone.exists, what=f"{gone} of the last run's end")
        assert gone.read_text() == "x"
    assert not (world.one.layout.root / "unloaded-2.0.0").exists()


FAILS = {
    "import": ("import nothing_like_this", "plugins/broken/plugin.py:2"),
    "on_load on one machine": (
        "import os\ndef on_load():\n    if os.environ['LUMIA_ROOT'].endswith('two'):\n        raise ValueError('no')",
        "ValueError: no",
    ),
}


@pytest.mark.parametrize("case", FAILS)
def test_a_version_that_fails_anywhere_is_rolled_back_everywhere_and_reported(world: World, case: str) -> None:
    code, told = FAILS[case]
    world.one.install("broken", "1.0.0", CODE.replace("count", "broken"))
    version = f"2.0.{list(FAILS).index(case)}"
    before = world.two.lock.plugins
    with pytest.raises(OperationError, match=f"the running bot did not take broken {version}") as failed:
        world.one.install("broken", version, code)
    assert "plugins/broken/plugin.py" in str(failed.value) and told in str(failed.value)
    assert world.one.lock.plugins["broken"].version == "1.0.0"
    until(lambda: world.two.lock.plugins == before, what="the other machine to go back")
    world.run("broken", case)
    assert items("broken")[-1] == [case, "second", "1.0.0"]


def test_a_gateway_serves_what_is_exchanged_and_drops_no_connection_of_others(world: World) -> None:
    at = world.gateway.url.replace("http", "ws")
    world.one.install("steady", "1.0.0", WEB.replace("NAME", "steady"), gateway=True)
    world.one.install("moving", "1.0.0", WEB.replace("NAME", "moving"), gateway=True)
    until(lambda: items("moving", "residents") == ["1.0.0 begins"], what="the resident")
    with websocket(f"{at}/steady/socket") as steady, websocket(f"{at}/moving/socket") as moving:
        moving.send("a")
        assert moving.recv(10) == "1.0.0 a"
        world.one.install("moving", "2.0.0", WEB.replace("NAME", "moving"), gateway=True)
        assert (world.get("/moving"), world.get("/steady")) == ("2.0.0", "1.0.0")
        until(lambda: moving.close_code == 1001 or not list(moving), what="the socket to be sent away")
        steady.send("b")
        assert steady.recv(10) == "1.0.0 b"
    until(lambda: items("moving", "residents") == ["1.0.0 begins", "1.0.0 ends", "2.0.0 begins"],
          what="one resident after the other")  # fmt: skip
    assert items("steady", "residents") == ["1.0.0 begins"]
    world.one.drop("moving")
    with pytest.raises(OSError, match="404"):
        world.get("/moving")


def pkg(world: World, *args: str) -> list[str]:
    """Run the real command on the first machine and return what it prints."""
    command = [sys.executable, "-c", "from lumia.cli.pkg import main; main()", *args]
    root = world.one.layout.root
    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": world.url}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_disable_takes_handlers_out_of_running_workers_and_enable_brings_them_back(
    world: World, tmp_path: Path
) -> None:
    world.one.install("switched", "1.0.0", WAITS.replace('"wait"', '"switched"'))
    gate, through = tmp_path / "gate", tmp_path / "through"
    through.touch()
    run = lumia.pipe.start("switched", lumia.Box.any(str(gate)))
    until(Path(f"{gate} begun").exists, what="the step to begin")
    assert pkg(world, "disable", "switched", "--yes") == ["disabled switched"]
    assert world.run("switched", str(through)).reason == "no handler"
    gate.touch()
    assert lumia.runs.wait(run, 20).outcome == "done", "what was in flight ends on what it began with"
    assert items("switched") == [["begin", "1.0.0"], ["end", "1.0.0"]]
    with worker(world.one.layout.root, world.url, name="restarted"):
        assert world.run("switched", str(through)).reason == "no handler"
        (kind,) = [one["kind"] for one in json.loads(pkg(world, "enable", "switched", "--json")[0])["actions"]]
        assert kind == "enable"
        assert world.run("switched", str(through)).outcome == "done"
    assert world.two.lock.plugins["switched"].enabled


def test_a_machine_that_was_away_syncs_before_it_loads(world: World, tmp_path: Path) -> None:
    late = Machine(tmp_path / "late", world.one.shop)
    world.one.install("counter", "2.0.0", CODE)
    with worker(late.layout.root, world.url, name="late"):
        assert late.lock.plugins == world.one.lock.plugins
        (folder,) = [one for one in late.layout.plugins.iterdir() if one.name == "counter"]
        assert folder.is_dir()


def test_what_was_installed_while_the_bot_was_stopped_is_deployed_at_its_start(tmp_path: Path, world: World) -> None:
    """So it is with what a running bot can't take: a library that it has imported, in another version."""
    machine = Machine(tmp_path / "bot", world.one.shop)
    machine.shelf = wheels(tmp_path / "wheels", ("layered", "1.0"), ("layered", "2.0"))
    code = f"from layered import VERSION\n{CODE}"

    def needing(library: str) -> Outcome:
        return machine.install("layers", f"{library}.0", code, python_dependencies=[f"layered=={library}"])

    def counted(n: int) -> str:
        lumia.runs.wait(lumia.pipe.start("count", lumia.Box.any(n)), 20)
        assert [n, "second"] == items("layers")[-1][:2]
        return str(items("layers")[-1][2])

    with servers.valkey(tmp_path / "valkey") as server, opened(machine.layout.root, server.url) as bot:
        machine.bot = bot
        assert needing("1.0").state == "stopped"
        before = machine.state()
        with worker(machine.layout.root, server.url):
            assert counted(1) == "1.0"
            with pytest.raises(OperationError) as refused:
                needing("2.0")
            assert machine.state() == before and counted(2) == "1.0"
        assert (
            "layered 1.0 is imported here, and layered 2.0 comes for plugin layers (layered==2.0); a running process "
            "can't exchange a library: end the bot on all its machines (`lumia down`; SIGTERM for workers you started "
            "yourself), run the same `pkg` command again, and start the bot. Everything is as it was before"
        ) in str(refused.value)
        assert needing("2.0").state == "stopped"
        machine.shop.publish("layers", "3.0.0", {"plugin.py": code})
        packages.Bot.install(machine, "layers", "3.0.0")  # not handed over: the broker was away
        with worker(machine.layout.root, server.url):
            assert machine.lock.plugins["layers"].version == "3.0.0" and counted(3) == "2.0"


def test_prefork_children_and_those_forked_later_have_the_upgrade(tmp_path: Path, world: World) -> None:
    machine = Machine(tmp_path / "bot", world.one.shop)
    with servers.valkey(tmp_path / "valkey") as server, opened(machine.layout.root, server.url) as bot:
        machine.bot = bot
        machine.install("counter", "1.0.0", CODE)
        with worker(machine.layout.root, server.url, "-P", "processes", "-c", "2") as running:
            assert machine.install("counter", "2.0.0", CODE).processes == 2, running.text
            lumia.runs.wait(lumia.pipe.start("count", lumia.Box.any(1)), 20)
            until(lambda: running.text.count("deployment 2 is at work") >= 2)
            for member in bot.transport.deployments().members():
                os.kill(int(member.name.split(":")[1]), signal.SIGKILL)
            assert lumia.runs.wait(lumia.pipe.start("count", lumia.Box.any(2)), 30).outcome == "done"
            assert items("counter") == [[n, step, "2.0.0"] for n in (1, 2) for step in ("first", "second")]
