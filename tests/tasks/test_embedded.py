"""Gateways own accounts and execute the steps of their queues themselves: real processes, a real broker."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import lumia
from lumia.runtime import Runtime
from tests.support.wait import until
from tests.support.workers import GatewayProcess, bot_root, gateway, worker, write_plugin

TALKER = r"""
import asyncio, os, pathlib, time
import lumia
from lumia import gateway

held = {}
NOTES = pathlib.Path(os.environ["LUMIA_ROOT"], "notes")


def note(what, token):
    with NOTES.open("a") as file:
        file.write(f"{what} {os.getpid()} {token} {time.monotonic()}\n")


@lumia.web.resident
async def owner():
    if "TALKER_OWNS" in os.environ:
        async with lumia.adapters.owning("talker/main", ttl=3.0) as owned:
            note("owns", owned.token)
            try:
                async with lumia.adapters.serving("talker", "main"):
                    await asyncio.Event().wait()
            finally:
                note("ends", owned.token)


@lumia.event.consumer("talker.send", retry=lumia.Retry(attempts=50, backoff=0.05, max_delay=0.2))
def send(content):
    said = content.into()
    if said.get("fail") and not os.path.exists(said["fail"]):
        raise RuntimeError("not yet")
    if said.get("gate"):
        pathlib.Path(said["gate"] + ".begun").touch()
        while not os.path.exists(said["gate"]):
            pass
    lumia.store.append("seen", [said["n"], os.getpid(), said.get("account", "")], keep=10000)


@lumia.event.consumer("talker.elsewhere")
def elsewhere(content):
    lumia.store.append("seen", [content.into()["n"], os.getpid(), ""], keep=10000)


async def hold(account, connected):
    async with lumia.adapters.serving("talker", account):
        connected.set()
        await asyncio.Event().wait()


@lumia.web.route("/talker/{account}", methods=["POST", "DELETE"])
async def connection(request):
    account = request.path_params["account"]
    if request.method == "DELETE":
        task = held.pop(account)
        task.cancel()
        await asyncio.wait([task])
    else:
        connected = asyncio.Event()
        held[account] = asyncio.create_task(hold(account, connected))
        await connected.wait()
    return gateway.JSONResponse({"pid": os.getpid()})
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = bot_root(tmp_path / "bot")
    write_plugin(found, "talker", TALKER, gateway=True)
    return found


OWNS = {"TALKER_OWNS": "1"}


def connect(to: GatewayProcess, account: str) -> None:
    httpx.post(f"{to.url}/talker/{account}", trust_env=False, timeout=20).raise_for_status()


def leave(to: GatewayProcess, account: str) -> None:
    httpx.delete(f"{to.url}/talker/{account}", trust_env=False, timeout=20).raise_for_status()


def say(account: str, n: int, **options: Any) -> str:
    content = lumia.Box.any({"n": n, "account": account, **options})
    return lumia.event.start("talker.send", content, queue=lumia.adapters.queue("talker", account))


def seen() -> list[list[Any]]:
    return lumia.store.of("talker").items("seen")


def waits(account: str) -> int:
    name = lumia.adapters.queue("talker", account)
    return next((one.waiting for one in lumia.adapters.waiting() if one.queue == name), 0)


def gateways() -> dict[str, int]:
    return {one.account: len(one.gateways) for one in lumia.adapters.waiting()}


def owners(root: Path) -> list[tuple[str, int, int, float]]:
    """Return (owns or ends, pid, token, moment) in the order they were noted."""
    notes = root / "notes"
    rows = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
    return [(what, int(pid), int(token), float(at)) for what, pid, token, at in rows]


def owner(root: Path) -> int:
    """Return the pid of the gateway that owns the account by its own account, 0 for none."""
    told = owners(root)
    return told[-1][1] if told and told[-1][0] == "owns" else 0


def test_steps_on_an_accounts_queue_run_where_it_is_connected_and_wait_while_it_is_nowhere(
    root: Path, bot: Runtime, url: str
) -> None:
    with worker(root, url), gateway(root, url) as serving:
        early = say("main", 1)
        until(lambda: waits("main") == 1)
        lumia.runs.wait(lumia.event.start("talker.elsewhere", lumia.Box.any({"n": 2})))
        assert [row[0] for row in seen()] == [2]  # a worker serves what is everybody's, and leaves this one alone
        connect(serving, "main")
        runs = [early, *(say("main", n) for n in range(3, 23))]
        assert {lumia.runs.wait(run).outcome for run in runs} == {"done"}
        pids = {row[1] for row in seen() if row[2] == "main"}
        assert pids == {serving.process.pid} and len(seen()) == 22

        leave(serving, "main")
        late = say("main", 23)
        connect(serving, "other")
        lumia.runs.wait(say("other", 24))
        assert waits("main") == 1
        until(lambda: gateways() == {"main": 0, "other": 1})  # it is told every second
        connect(serving, "main")
        lumia.runs.wait(late)

        ready = root / "ready"
        failing = say("main", 25, fail=str(ready))
        until(lambda: len(lumia.runtime.current().transport.run(failing).steps) > 2)  # type: ignore[union-attr]
        ready.touch()
        assert lumia.runs.wait(failing).outcome == "done"  # its tries came to the same queue
        assert {row[1] for row in seen() if row[2]} == {serving.process.pid}
        assert serving.end() == 0


def test_ownership_and_queue_move_when_the_owner_is_killed_or_drains_and_nothing_is_lost_or_doubled(
    root: Path, bot: Runtime, url: str
) -> None:
    with worker(root, url), gateway(root, url, "one", **OWNS) as one, gateway(root, url, "two", **OWNS) as two:
        first = until(lambda: owner(root))
        killed, heir = (one, two) if first == one.process.pid else (two, one)
        gate = root / "gate"
        stuck = [say("main", n, gate=str(gate)) for n in range(3)]
        until(lambda: (root / "gate.begun").exists())
        more = [say("main", n) for n in range(3, 40)]
        killed.kill()
        gate.touch()
        until(lambda: owner(root) == heir.process.pid, timeout=20)
        assert {lumia.runs.wait(run).outcome for run in stuck + more} == {"done"}
        assert sorted(row[0] for row in seen()) == list(range(40))

        with gateway(root, url, "three", **OWNS) as third:
            gate.unlink()
            (root / "gate.begun").unlink()
            busy = say("main", 40, gate=str(gate))
            until(lambda: (root / "gate.begun").exists())
            load = [say("main", n) for n in range(41, 80)]
            heir.process.terminate()
            until(lambda: "terminat" in heir.text or not accepts(heir), what="the gateway to drain")
            gate.touch()
            assert heir.process.wait(20) == 0
            until(lambda: owner(root) == third.process.pid)
            assert {lumia.runs.wait(run).outcome for run in [busy, *load]} == {"done"}
            rows = seen()
            assert sorted(row[0] for row in rows) == list(range(80))
            assert next(row[1] for row in rows if row[0] == 40) == heir.process.pid
    tokens = [token for what, _, token, _ in owners(root) if what == "owns"]
    assert tokens == sorted(set(tokens))


def accepts(of: GatewayProcess) -> bool:
    try:
        httpx.get(f"{of.url}/healthz", trust_env=False, timeout=5)
    except httpx.HTTPError:
        return False
    return True


def test_an_owner_that_can_not_reach_the_broker_lets_go_in_time_and_comes_back(
    root: Path, bot: Runtime, tmp_path: Path, url: str
) -> None:
    with worker(root, url), gateway(root, url, **OWNS) as running:
        until(lambda: owner(root))
        lumia.runs.wait(say("main", 1))
        server = broker(url)
        stopped = time.monotonic()
        server.send_signal(signal.SIGSTOP)
        try:
            until(lambda: owner(root) == 0)
            assert owners(root)[-1][3] - stopped < 3.0 + 0.5  # before anybody else could own it
        finally:
            server.send_signal(signal.SIGCONT)
        until(lambda: owner(root), timeout=20)
        lumia.runs.wait(say("main", 2), timeout=30)
        assert [row[1] for row in seen()] == [running.process.pid] * 2


def broker(url: str) -> psutil.Process:
    """Return the process of a test's own broker."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    return next(one for one in psutil.process_iter() if _listens_on(one, port))


def _listens_on(process: psutil.Process, port: int) -> bool:
    try:
        found = process.net_connections("tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)
