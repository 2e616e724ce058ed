"""A gateway executes the steps of its accounts' queues itself: in real processes, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import lumia
from lumia.runtime import Runtime
from tests.support.wait import until
from tests.support.workers import GatewayProcess, bot_root, gateway, worker, write_plugin

TALKER = """
import asyncio, os, pathlib
import lumia
from lumia import gateway

held = {}


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


@pytest.fixture
def serving(root: Path, url: str) -> Iterator[GatewayProcess]:
    with worker(root, url), gateway(root, url) as running:
        yield running


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


def test_steps_on_an_accounts_queue_run_in_the_gateway_that_serves_it_and_nowhere_else(
    bot: Runtime, serving: GatewayProcess
) -> None:
    early = say("main", 1)
    until(lambda: waits("main") == 1)
    other = lumia.event.start("talker.elsewhere", lumia.Box.any({"n": 2}))
    lumia.runs.wait(other)
    assert [row[0] for row in seen()] == [2]  # the worker serves what is everybody's, and leaves this one alone
    connect(serving, "main")
    runs = [early, *(say("main", n) for n in range(3, 23))]
    assert {lumia.runs.wait(run).outcome for run in runs} == {"done"}
    pids = {row[1] for row in seen() if row[2] == "main"}
    assert pids == {serving.process.pid} and len(seen()) == 22
