from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.packages import Bot, Shop
from tests.support.plugins import git


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


@pytest.fixture
def bot(tmp_path: Path, shop: Shop) -> Bot:
    return Bot(tmp_path / "bot", shop)


def test_install_upgrade_remove(bot: Bot, shop: Shop) -> None:
    shop.publish("memory-graph", "1.0.0")
    shop.publish("memory-graph", "1.1.0")
    done = bot.install("memory-graph", "1.0.0")
    print(bot.state())
    assert git(bot.layout.plugins, "rev-parse", "HEAD") == done.commit
    bot.install("memory-graph", "1.1.0")
    print(git(bot.layout.plugins, "log", "--stat"))
    bot.remove("memory-graph")
    print(bot.state(), bot.leftovers())
    print((bot.layout.log/(done.id+'.log')).read_text())
