"""The gateway under faults, in short: cut requests, deaths around the commit, a broker that is away; all accounted for.

Every client does what platforms do: without a 2xx it sends the same message again, under the same id.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.ingress.site import KEYS, made_root
from lumia.paths import base
from lumia.runtime import Runtime
from tasks.supervise.ports import free_port
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import connected

RETRY_SECONDS = 15.0


@dataclass
class Site:
    """A bot whose handlers are published, its broker, and its gateways, one after the other on one port."""

    root: Path
    url: str
    bot: Runtime
    folder: Path
    port: int = field(default_factory=free_port)

    @contextmanager
    def gateway(self, failpoints: str = "", keep_from: int = 0) -> Iterator[subprocess.Popen[bytes]]:
        """Run a gateway for a block and wait until it listens. keep_from: when it stores starts before planning."""
        env = {**os.environ, "LUMIA_ROOT": str(self.root), "LUMIA_REDIS_URL": self.url,
               "LUMIA__GATEWAY__PORT": str(self.port), "LUMIA__GATEWAY__KEEP_FROM": str(keep_from),
               "LUMIA_FAILPOINTS": failpoints}  # fmt: skip
        with (self.folder / "gateway.log").open("ab") as log:
            process = subprocess.Popen([sys.executable, "-m", "lumia.gateway"], env=env, cwd=base(), stderr=log)
        try:
            until(lambda: self.answers() or process.poll() is not None, timeout=30, what="the gateway answers")
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(20)

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2):
            return True
        return False

    @property
    def log(self) -> str:
        return (self.folder / "gateway.log").read_text()

    def accepted(self) -> Counter[str]:
        """Count the runs of each message, by what the journal says was begun and what the inbox holds."""
        found: Counter[str] = Counter()
        after = "0"
        while entries := self.bot.transport.tail(after, 0, 1000):
            after = entries[-1].cursor
            found.update(entry.run_id for entry in entries if entry.kind == "start" and entry.id == "msg")
        redis: Any = self.bot.transport.redis  # type: ignore[attr-defined]
        found.update(run.decode() for run in redis.lrange("lumia:inbox", 0, -1))
        return found

    def text_of(self, run_id: str) -> str:
        record = self.bot.transport.run(run_id)
        assert record is not None
        return str(json.loads(record.box)["j"]["text"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("chaos")
    root = made_root(folder / "bot")
    (root / "config" / "webhook.toml").chmod(0o600)
    with servers.valkey(folder / "valkey") as server, connected(root, server.url) as bot:
        publish(root, server.url)
        yield Site(root, server.url, bot, folder)


def publish(root: Path, url: str) -> None:
    """Publish the bot's handlers as a worker would, from a process of its own."""
    code = (
        "from lumia.runtime import open_bot\n"
        "bot = open_bot(load='all')\n"
        "bot.transport.publish(bot.install(bot.plugins))\nbot.close()\n"
    )
    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url}
    subprocess.run([sys.executable, "-c", code], env=env, cwd=base(), check=True, capture_output=True)


@pytest.fixture(autouse=True)
def empty(site: Site) -> Iterator[None]:
    """Every test accounts for its own messages."""
    redis: Any = site.bot.transport.redis  # type: ignore[attr-defined]
    redis.delete("lumia:journal", "lumia:journal:bytes", "lumia:inbox", "lumia:kept")
    yield
    assert not any(key in site.log for key in KEYS.values()), "a secret is in the log"


def post(text: str) -> bytes:
    """Return the bytes of a post whose message id is its text."""
    body = json.dumps({"text": text, "sender_id": "ann", "group_id": "g", "message_id": text}).encode()
    head = f"POST /webhook/bearer HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEYS['bearer']}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def send(site: Site, text: str) -> str | None:
    """Post once; returns the run, or None where no 2xx came back."""
    line = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)
    try:
        raw = post(text)
        head, _, body = raw.partition(b"\r\n\r\n")
        headers = dict(one.decode().split(": ", 1) for one in head.split(b"\r\n")[1:])
        line.request("POST", "/webhook/bearer", body, headers)
        answer = line.getresponse()
        found = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        line.close()
    return str(json.loads(found)["run_id"]) if answer.status == 202 else None


def delivered(site: Site, text: str) -> str:
    """Post until a 2xx comes back."""
    return str(until(lambda: send(site, text), timeout=RETRY_SECONDS, what=f"{text} is accepted"))


def account(site: Site, runs: dict[str, str]) -> None:
    """Check that every message was accepted once, under the run its sender was told, and none besides."""
    accepted = site.accepted()
    assert {text: accepted[run] for text, run in runs.items()} == dict.fromkeys(runs, 1)
    assert {run: site.text_of(run) for run in accepted} == {run: text for text, run in runs.items()}


def test_a_request_cut_at_every_byte_is_accepted_once_it_is_sent_again(site: Site) -> None:
    runs = {}
    with site.gateway():
        for offset in range(len(post("cut at 000")) + 1):
            text = f"cut at {offset:03}"
            with socket.create_connection(("127.0.0.1", site.port), timeout=5) as line:
                line.sendall(post(text)[:offset])
                if offset % 2:  # half of them vanish, the others say goodbye
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            if offset % 7 == 0 or offset == len(post(text)):
                runs[text] = delivered(site, text)
    found = {site.text_of(run): run for run in site.accepted()}
    whole = f"cut at {len(post('cut at 000')):03}"
    assert set(found) - set(runs) <= {whole}, "half a message was accepted"
    account(site, runs)


@pytest.mark.parametrize("script", ["start", "keep"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_gateway_that_dies_around_the_commit_loses_and_doubles_nothing(site: Site, moment: str, script: str) -> None:
    runs: dict[str, str] = {}
    texts = [f"{script} {moment} {number}" for number in range(6)]
    with site.gateway(f"{script}.{moment}=kill@3", keep_from=int(script == "keep")) as dying:
        while (run := send(site, texts[len(runs)])) is not None:
            runs[texts[len(runs)]] = run
        assert dying.wait(10) == -signal.SIGKILL
    fatal = texts[len(runs)]
    assert (fatal in {site.text_of(run) for run in site.accepted()}) == (moment == "after")
    with site.gateway():
        runs |= {text: delivered(site, text) for text in texts[len(runs) :]}
    account(site, runs)


@pytest.mark.parametrize("failpoint, keep_from", [("start.after=kill@15", 0), ("keep.after=kill@2", 4)])
def test_a_crowd_at_a_gateway_that_dies_in_the_middle_of_a_trip(site: Site, failpoint: str, keep_from: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    texts = [f"crowd {failpoint} {number}" for number in range(40)]
    with ThreadPoolExecutor(20) as pool:
        with site.gateway(failpoint, keep_from) as dying:
            first = dict(zip(texts, pool.map(lambda text: send(site, text), texts), strict=True))
            assert dying.wait(10) == -signal.SIGKILL
        with site.gateway():
            again = dict(zip(texts, pool.map(lambda text: delivered(site, text), texts), strict=True))
    told = {text: run for text, run in first.items() if run is not None}
    assert {text: again[text] for text in told} == told, "a message was told another run when it was sent again"
    account(site, again)


@pytest.mark.parametrize(
    "script, faults",
    [
        ("start", "start.after=error@1,start.after=resend@2"),
        ("keep", "keep.after=error@1,keep.after=error@2,keep.after=resend@3"),  # the loop's, and the thread's that asks
    ],
)
def test_a_lost_answer_of_the_broker_is_a_503_and_the_same_run_when_it_is_sent_again(
    site: Site, script: str, faults: str
) -> None:
    lost, again = f"lost answer of {script}", f"resent {script}"
    with site.gateway(faults, keep_from=int(script == "keep")):
        assert send(site, lost) is None
        runs = {lost: delivered(site, lost), again: delivered(site, again)}
    account(site, runs)


def test_an_answer_that_the_event_loop_lost_is_found_out_by_the_thread(site: Site) -> None:
    with site.gateway("keep.after=error@1", keep_from=1):
        run = send(site, "lost by the loop")
        assert run is not None and delivered(site, "lost by the loop") == run
    account(site, {"lost by the loop": run})


def test_while_the_broker_is_away_nothing_is_accepted_and_clients_are_told_when_to_come_back(site: Site) -> None:
    with site.gateway():
        runs = {"before": delivered(site, "before")}
        redis: Any = site.bot.transport.redis  # type: ignore[attr-defined]
        redis.config_set("maxmemory", 1)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{site.port}", trust_env=False, timeout=20) as client:
                headers = {"Authorization": f"Bearer {KEYS['bearer']}"}
                body = {"text": "away", "sender_id": "ann", "group_id": "g", "message_id": "away"}
                answer = client.post("/webhook/bearer", json=body, headers=headers)
        finally:
            redis.config_set("maxmemory", 0)
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
        assert set(site.accepted()) == {runs["before"]}
        runs["away"] = delivered(site, "away")
    account(site, runs)
