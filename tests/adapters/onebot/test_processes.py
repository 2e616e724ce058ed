"""OneBot with real processes: a gateway, a worker and Valkey; killed, moved, and with 200 bots at once."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

import lumia
from lumia.runtime import Runtime
from tests.adapters.onebot.site import TOKEN
from tests.peers.onebot import OneBot, PeerLoop
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import bot_root, gateway, opened, worker, write_plugin

pytestmark = pytest.mark.services

PARROT = """
import lumia


@lumia.pipe.on("msg")
def answer(content):
    msg = content.into()
    lumia.store.append("heard", [msg["account"], msg["text"], bool(content.meta.get("backfilled"))], keep=10000)
    if msg["text"].startswith("echo "):
        to = lumia.payloads.reply_to(msg)
        lumia.event.start(to, lumia.Box.any({"text": msg["text"][5:]}, meta={"account": msg["account"]}))
    lumia.utils.next()
"""
SETTINGS = f"""
[accounts.main]
access_token = "{TOKEN}"
self_id = "10001"
interval = 0.0

[accounts.farm]
access_token = "{TOKEN}"
self_id = "*"
interval = 0.0
"""
CHECK = """
from lumia import __version__
from lumia.cli.opened import opened
from lumia.loader import Loader

with opened() as bot:
    loader = Loader(bot.base, bot.root, config=bot.config, services=bot.services, core_version=__version__)
    plugins = loader.load({"onebot"}, on_load=False)
    bot.install(plugins)
    print(plugins.handlers("adapter_check")[0].fn("main"))
"""
BOTS = 200


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = bot_root(tmp_path / "bot")
    core = found / "config" / "lumia.toml"
    core.write_text(core.read_text().replace('"onebot"', '"none"'))
    (found / "config" / "onebot.toml").write_text(SETTINGS)
    write_plugin(found, "parrot", PARROT)
    return found


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with servers.valkey(tmp_path / "valkey") as server:
        yield server.url


@pytest.fixture
def bot(root: Path, url: str) -> Iterator[Runtime]:
    with opened(root, url) as runtime, worker(root, url):
        yield runtime


def heard(account: str = "main") -> list[str]:
    return [row[1] for row in lumia.store.of("parrot").items("heard") if row[0] == account]


def test_a_message_is_answered_and_a_killed_gateway_loses_nothing(bot: Runtime, root: Path, url: str) -> None:
    with OneBot("10001", token=TOKEN) as qq:
        with gateway(root, url) as first:
            qq.connect(f"ws://127.0.0.1:{first.port}")
            qq.say("echo hello", group="12")
            qq.wait_sent(timeout=30)
            assert qq.texts() == ["hello"]
            for n in range(20):
                qq.say(f"burst {n}", group="12")
            first.kill()
        until(lambda: not qq.lines, what="the connection to be gone")
        for n in range(5):
            qq.message(f"away {n}", group="12")
        with gateway(root, url, "again") as second:
            qq.connect(f"ws://127.0.0.1:{second.port}")
            qq.say("echo back", group="12")
            qq.wait_sent(2, timeout=30)
            wanted = ["echo hello", *(f"burst {n}" for n in range(20)), *(f"away {n}" for n in range(5)), "echo back"]
            until(lambda: len(heard()) >= len(wanted), timeout=20, what=f"all of it: {heard()}")
            assert heard() == wanted
            assert qq.texts() == ["hello", "back"]


def test_a_reply_waits_while_no_gateway_has_the_connection(bot: Runtime, root: Path, url: str) -> None:
    with OneBot("10001", token=TOKEN) as qq:
        with gateway(root, url) as first:
            qq.connect(f"ws://127.0.0.1:{first.port}")
            qq.say("hello", group="12")
            until(lambda: heard() == ["hello"], timeout=20)
            assert first.end() == 0
        to = lumia.payloads.destination(3, "qq", "group", "12")
        lumia.event.start(to, lumia.Box.any({"text": "patient"}, meta={"account": "main"}))
        with gateway(root, url, "again") as second:
            qq.connect(f"ws://127.0.0.1:{second.port}")
            qq.wait_sent(timeout=30)
            assert qq.texts() == ["patient"]


def test_the_newest_connection_counts_across_gateways(bot: Runtime, root: Path, url: str) -> None:
    with ExitStack() as stack:
        one, two = (stack.enter_context(gateway(root, url, name)) for name in ("one", "two"))
        old, new = (stack.enter_context(OneBot("10001", token=TOKEN)) for _ in range(2))
        old.connect(f"ws://127.0.0.1:{one.port}")
        old.say("echo first", group="12")
        old.wait_sent(timeout=30)
        new.connect(f"ws://127.0.0.1:{two.port}")
        until(lambda: old.closed, timeout=30, what="the old connection to be sent away")
        assert old.closed[0][0] == 4001
        for n in range(5):
            new.say(f"echo {n}", group="12")
        new.wait_sent(5, timeout=30)
        assert old.texts() == ["first"]
        checked(root, url)
        until(lambda: standing() == ("connected", ""), timeout=30, what="the account to be shown as connected")


def checked(root: Path, url: str) -> None:
    """Check the account from a process that has not its connection."""
    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url}
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=env, cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert "ok=True, identity='Lumia (10001)'" in done.stdout, done.stdout + done.stderr


def standing() -> tuple[str, str]:
    found = next(info for info in lumia.adapters.accounts() if info.account == "main")
    return found.state, "" if found.state == "connected" else found.detail


@pytest.mark.slow
def test_two_hundred_bots_fit_on_one_gateway(
    bot: Runtime, root: Path, url: str, record_property: Callable[[str, object], None]
) -> None:
    with gateway(root, url) as running, ExitStack() as stack:
        loop = PeerLoop()
        stack.callback(loop.close)
        process = psutil.Process(running.process.pid)
        before = process.memory_info().rss
        bots = [stack.enter_context(OneBot(str(50001 + n), token=TOKEN, shared=loop)) for n in range(BOTS)]
        took = []
        for one in bots:
            begun = time.perf_counter()
            one.connect(f"ws://127.0.0.1:{running.port}")
            took.append(time.perf_counter() - begun)
        for one in bots:
            one.say(f"echo {one.self_id}", group="12")
        for one in bots:
            one.wait_sent(timeout=60)
            assert one.texts() == [one.self_id]
        states = {info.account: info.state for info in lumia.adapters.accounts()}
        grown = (process.memory_info().rss - before) / BOTS / 1024
        figures = {
            "accept ms, median": round(statistics.median(took) * 1000, 1),
            "accept ms, worst": round(max(took) * 1000, 1),
            "KiB per connection": round(grown),
        }
        record_property("figures", figures)
        print(figures)
    assert sum(state == "connected" for state in states.values()) == BOTS
    assert max(took) < 2.0, f"NapCat gives up after two seconds: {figures}"
    assert grown < 1024, figures
