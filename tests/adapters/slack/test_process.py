"""Slack against a real gateway, worker and broker: killed between commit and answer, nothing is lost or twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.slack.common import message
from tests.peers.slack import BOT, SlackPeer
from tests.peers.slack_events import Delivery, EventsSender
from tests.peers.slack_socket import SocketPeer
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import first_party, gateway, worker, write_plugin

pytestmark = [pytest.mark.services, pytest.mark.slow]
KILLED = {"LUMIA_FAILPOINTS": "start.after=kill@1"}
"""The process dies when the first message is stored and nobody has been told yet."""
ECHO = """
import lumia


@lumia.pipe.on("msg")
def echo(content):
    msg = content.into()
    meta = {name: content.meta[name] for name in ("account", "thread") if name in content.meta}
    reply = {"text": "you said: " + msg["text"], "reply_to": msg["message_id"]}
    lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any(reply, meta=meta))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.fixture
def slack() -> Iterator[SlackPeer]:
    with SlackPeer() as peer:
        yield peer


def make_root(folder: Path, slack: SlackPeer, mode: str) -> Path:
    (folder / "config").mkdir(parents=True)
    off = json.dumps([name for name in first_party() if name != "slack"])
    (folder / "config" / "lumia.toml").write_text(f"[worker]\nconcurrency = 4\n[plugins]\ndisabled = {off}\n")
    account = {"bot_token": slack.bot_token, "signing_secret": slack.signing_secret, "app_token": slack.app_token,
               "api_url": slack.api_url, "mode": mode}  # fmt: skip
    lines = [f"{key} = {json.dumps(value)}" for key, value in account.items()]
    (folder / "config" / "slack.toml").write_text("\n".join(["[accounts.main]", *lines, ""]))
    write_plugin(folder, "echo", ECHO)
    return folder


def texts(slack: SlackPeer) -> list[str]:
    return [one["text"] for one in slack.posted]


def test_a_gateway_killed_before_its_200_accepts_the_retry_as_the_same_message(
    tmp_path: Path, url: str, slack: SlackPeer
) -> None:
    root = make_root(tmp_path / "bot", slack, "events")

    def deliver(port: int, envelope: dict[str, object]) -> Delivery:
        return EventsSender(f"http://127.0.0.1:{port}/slack/main/events", schedule=()).deliver(envelope)

    sender = EventsSender("http://127.0.0.1/")
    mention = message(f"<@{BOT}> once", "1718000400.000001")
    envelope, twin = sender.envelope(mention), sender.envelope({**mention, "type": "app_mention"})
    with worker(root, url):
        with gateway(root, url, "dying", **KILLED) as dying:
            assert deliver(dying.port, envelope).statuses == [0]
            assert until(lambda: dying.process.poll()) == -9
        until(lambda: len(slack.posted) == 1)
        with gateway(root, url) as alive:
            for again in (envelope, twin, sender.envelope(message("last", "1718000400.000002"))):
                assert deliver(alive.port, again).statuses == [200]
            until(lambda: len(slack.posted) >= 2)
        assert texts(slack) == [f"you said: @{BOT} once", "you said: last"]
        assert [slack.bot_token in log.read_text() for log in root.glob("*.log")] == [False] * 3


def test_an_envelope_of_a_killed_gateway_comes_again_to_the_next_one_and_is_one_message(
    tmp_path: Path, url: str, slack: SlackPeer
) -> None:
    root = make_root(tmp_path / "bot", slack, "socket")
    sender = EventsSender("http://127.0.0.1/")
    with worker(root, url), SocketPeer(slack) as socket:
        with gateway(root, url, "dying", **KILLED) as dying:
            until(lambda: socket.links)
            first = socket.send("events_api", sender.envelope(message("once", "1718000500.000001")))
            assert until(lambda: dying.process.poll()) == -9
            until(lambda: not socket.links)
            assert socket.acknowledged == []
        with gateway(root, url):
            until(lambda: first in socket.acknowledged, timeout=30)
            last = socket.send("events_api", sender.envelope(message("last", "1718000500.000002")))
            until(lambda: last in socket.acknowledged and len(slack.posted) >= 2)
        assert texts(slack) == ["you said: once", "you said: last"]
        assert ["ticket=" in log.read_text() for log in root.glob("*.log")] == [False] * 3


def test_while_the_broker_is_away_slack_is_asked_to_come_back_and_then_it_is_one_message(
    tmp_path: Path, slack: SlackPeer
) -> None:
    root, folder = make_root(tmp_path / "bot", slack, "events"), tmp_path / "valkey"
    data = json.dumps(EventsSender("http://x/").envelope(message("once", "1718000600.000001"))).encode()
    with servers.valkey(folder) as first, worker(root, first.url), gateway(root, first.url) as serving:
        sender = EventsSender(f"{serving.url}/slack/main/events", patience=10)
        os.kill(first.pid, signal.SIGKILL)
        away = sender.post(data)
        assert (away.status_code, int(away.headers["retry-after"]) >= 1) == (503, True)
        with servers.valkey(folder, port=first.port):
            until(lambda: sender.post(data, headers={"X-Slack-Retry-Num": "1"}).status_code == 200, timeout=30)
            assert sender.post(data, headers={"X-Slack-Retry-Num": "2"}).status_code == 200
            until(lambda: slack.posted, timeout=30)
            last = sender.event(message("last", "1718000600.000002"))
            assert last.arrived
            until(lambda: len(slack.posted) >= 2, timeout=30)
            assert texts(slack) == ["you said: once", "you said: last"]
            serving.end()
