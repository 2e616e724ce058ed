"""Real processes, a real broker: a gateway that is killed or ended hands its session on, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.discord import TOKEN, Discord
from tests.support.wait import until
from tests.support.workers import bot_root, gateway, worker, write_plugin

pytestmark = [pytest.mark.services, pytest.mark.slow]

ECHO = """
import lumia


@lumia.pipe.on("msg")
def echo(content):
    msg = content.into()
    said = {"text": msg["text"], "reply_to": msg["message_id"]}
    lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any(said, meta={"account": msg["account"]}))
"""


@pytest.fixture
def root(tmp_path: Path, discord: Discord) -> Path:
    found = bot_root(tmp_path / "bot")
    write_plugin(found, "echo", ECHO)
    settings = found / "config" / "lumia.toml"
    settings.write_text(settings.read_text().replace('"discord", ', ""))
    lines = [f"{key} = {json.dumps(value)}" for key, value in discord.settings.items()]
    (found / "config" / "discord.toml").write_text("\n".join(["[accounts.main]", *lines]) + "\n")
    return found


@pytest.fixture
def working(root: Path, valkey_url: str) -> Iterator[str]:
    with worker(root, valkey_url):
        yield valkey_url


def test_a_session_outlives_its_gateways(discord: Discord, root: Path, working: str) -> None:
    """The first is ended, the second killed in the middle of a stream of messages, the third resumes once more."""
    said: list[str] = []

    def say(count: int) -> None:
        for _ in range(count):
            said.append(f"message {len(said)}")
            discord.say(said[-1])

    with gateway(root, working, "first") as first:
        until(lambda: discord.gateway.ready, timeout=20)
        say(5)
        until(lambda: len(discord.rest.posted(discord.channel)) == 5, timeout=20)
        assert first.end() == 0
    say(5)
    with gateway(root, working, "second") as second:
        until(lambda: len(discord.rest.posted(discord.channel)) >= 10, timeout=20)
        say(200)
        until(lambda: len(discord.rest.posted(discord.channel)) >= 30, timeout=20)
        second.kill()
    say(5)
    with gateway(root, working, "third") as third:
        until(lambda: len(discord.rest.posted(discord.channel)) >= len(said), timeout=60)
        asked = discord.command("ask", "and now?")
        assert discord.interact(f"{third.url}/discord/main/interactions", asked).json() == {"type": 5}
        until(lambda: discord.rest.interactions[asked["token"]].get("original"), timeout=20)
    assert discord.rest.posted(discord.channel)[: len(said)] == said, "in order, each once"
    assert len(discord.rest.posted(discord.channel)) == len(said) + 1  # and the command's answer
    assert len(discord.gateway.identifies) == 1
    assert len(discord.gateway.resumes) >= 2
    assert not {1000, 1001} & set(discord.gateway.closes)
    logs = "".join(file.read_text(errors="replace") for file in root.glob("*.log"))
    assert TOKEN not in logs
    assert "-secret" not in logs
    assert "Traceback" not in logs
