"""The pools of a worker with stand-ins for a plugin's processes: real processes, which speak over a real socket."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from lumia.errors import PluginLoadError
from lumia.isolation_env import Environment
from lumia.manifest import ProcessLimits
from lumia.plugin import Plugin
from tasks.isolated import pool as pool_module
from tasks.isolated import pools as pools_module
from tasks.isolated import process as process_module
from tasks.isolated.pool import Pool
from tasks.isolated.pools import Pools
from tasks.supervise.account import shimmed
from tests.support.wait import until

UNLOADS = """
import os, pathlib, socket, sys, time
own = socket.socket(fileno=int(os.environ["LUMIA_ISOLATED_SOCKET"]))
own.sendall(b'{"ready": 1}\\n')
while own.recv(4096):
    pass
pathlib.Path("unloading").touch()
until = time.monotonic() + 10
while not pathlib.Path("go on").exists() and time.monotonic() < until:
    time.sleep(0.01)
pathlib.Path("unloaded").touch()
"""
"""Says that it is ready, and when it is to end, unloads until it is let."""


FLOODS = """
import os, socket
own = socket.socket(fileno=int(os.environ["LUMIA_ISOLATED_SOCKET"]))
own.sendall(b'{"ready": 1}\\n')
own.recv(4096)
while True:
    own.sendall(%s)
"""
"""Writes something to the socket without end, once it is given a step."""


class Named:
    """What a pool must know of a plugin."""

    name, manifest = "risky", None

    def __init__(self, generation: str) -> None:
        self.generation = generation


class Started:
    """Pools whose processes run `code` in `root`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.code = root, UNLOADS
        self.pools = Pools(root)
        self.limits = ProcessLimits(memory_mb=256, concurrency=1)

        def command(_: Any, *options: str) -> list[str]:
            return shimmed((sys.executable, "-c", self.code), *options)

        monkeypatch.setattr(process_module, "shimmed", command)
        monkeypatch.setattr(process_module, "limits_of", lambda manifest: self.limits)
        monkeypatch.setattr(pool_module, "limits_of", lambda manifest: self.limits)
        environment = Environment(Path(sys.prefix))
        monkeypatch.setattr(pool_module, "environment", lambda root, manifest: environment)
        monkeypatch.setattr(pools_module, "STRAYS_SECONDS", 0.0)

    def plugin(self, generation: str = "one") -> Plugin:
        return cast(Plugin, Named(generation))

    def there(self, name: str) -> bool:
        return (self.root / name).exists()


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    made = Started(tmp_path, monkeypatch)
    yield made
    (tmp_path / "go on").touch()
    made.pools.close()


@pytest.mark.parametrize("end", [lambda one: one.pools.stop(one.plugin()), lambda one: one.pools.close()])
def test_a_process_that_unloads_its_plugin_is_no_stray(
    started: Started, end: Callable[[Started], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "lumia")
    started.pools.start(started.plugin())
    looked = threading.Semaphore(0)
    ended = pools_module.Pools._end_strays

    def end_strays(self: Pools) -> None:
        ended(self)
        looked.release()

    pools_module_patch = pytest.MonkeyPatch()
    pools_module_patch.setattr(Pools, "_end_strays", end_strays)
    ending = threading.Thread(target=end, args=(started,))
    ending.start()
    try:
        until(lambda: started.there("unloading"), what="on_unload begins")
        while looked.acquire(blocking=False):
            pass
        assert looked.acquire(timeout=5)
        assert looked.acquire(timeout=5), "strays were looked for twice while it unloads"
        (started.root / "go on").touch()
        ending.join(timeout=10)
    finally:
        pools_module_patch.undo()
    assert started.there("unloaded")
    assert "left behind" not in caplog.text
    assert started.pools.of("one") is None


@pytest.mark.parametrize(
    "what, said", [("b'x' * 65536", "a line of more than 64 KiB"), ("b'[]\\n'", "a line that can't be read"),
                       ("b'x\\n'", "a line that can't be read")]
)  # fmt: skip
def test_a_process_that_writes_what_it_likes_to_its_socket_is_ended_and_named(
    started: Started, what: str, said: str
) -> None:
    started.code = FLOODS % what
    started.pools.start(started.plugin())
    pool = started.pools.of("one")
    assert pool is not None
    process = pool.take(5.0)
    assert process is not None and process.send("step")
    assert process.told(30.0) is None
    assert said in process.ended_for
    assert pool.drop(process) == -9


def test_a_process_that_writes_nonsense_before_it_is_ready_is_named(started: Started) -> None:
    started.code = FLOODS.replace('{"ready": 1}', "what?") % "b''"
    with pytest.raises(PluginLoadError, match="a line that can't be read was written to the socket"):
        started.pools.start(started.plugin())


def test_the_limits_of_others_hold_while_a_worn_process_unloads(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "CLOSE_SECONDS", 30.0)
    started.pools.start(started.plugin())
    pool = started.pools.of("one")
    assert pool is not None
    worn = pool.take(5.0)
    assert worn is not None and worn.send("step")
    monkeypatch.setattr(Pool, "_excess", lambda self, process, share, *, thorough: "worn" if share < 1 else "")
    pool.give(worn)
    until(lambda: started.there("unloading"), what="the worn process unloads")
    after = pool.take(5.0)
    assert after is not None and after is not worn
    monkeypatch.setattr(Pool, "_excess", lambda self, process, share, *, thorough: "much" * (process is after))
    until(lambda: after.ended_for == "much", what="another that takes too much is ended meanwhile")
    assert worn.pid in pool.pids
    pool.drop(after)
    (started.root / "go on").touch()
    until(lambda: worn.pid not in pool.pids, what="the worn process is gone")
    assert started.there("unloaded")
