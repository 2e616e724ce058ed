"""What the plugin's author tests: `python -m pytest plugins/hello`."""

from __future__ import annotations

from pathlib import Path

from lumia.testing import Bot

HERE = Path(__file__).parent


def test_ping_is_answered() -> None:
    with Bot(HERE) as bot:
        assert bot.send("!ping").replies == ["pong"]
