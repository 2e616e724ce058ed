"""A bot root that is brought in step with the bot."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lumia.config import ConfigStore
from lumia.deployment import Wanted
from lumia.errors import SignatureError
from lumia.pkg import mutex
from lumia.pkg.bringing import Root
from lumia.pkg.lockfile import Lock
from tests.support.packages import Bot, Shop
from tests.support.registry import DATE, Answer, fake_registry


def bring(bot: Bot, wanted: Wanted) -> None:
    root = Root(bot.layout.root, ConfigStore(bot.layout.root))
    root.bring(root.sealed(wanted))


def test_what_was_revoked_is_asked_before_anything_is_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(tmp_path / "shop")
    dice = shop.publish("dice", "1.0.0")
    bot, other = Bot(tmp_path / "bot", shop), Bot(tmp_path / "other", shop)
    wanted = Wanted({"dice": dice.as_dict()})
    with fake_registry() as registry:
        monkeypatch.setenv("LUMIA_REGISTRY_URL", registry.url)
        versions = [{"name": "dice", "tag": "v1.0.0", "reason": "it leaks", "date": DATE}]
        registry.answers["/revoked"] = Answer({"keys": [], "versions": versions})
        with pytest.raises(SignatureError, match="it leaks"):
            bring(bot, wanted)
        assert bot.lock == Lock()
    bring(other, wanted)
    assert other.lock == Lock({"dice": dice})
    assert "what was revoked since then isn't known" in caplog.text


def test_putting_back_does_not_wait_for_a_pkg_that_waits_for_this_process(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    bot = Bot(tmp_path / "bot", shop)
    root = Root(bot.layout.root, ConfigStore(bot.layout.root))
    wanted = root.sealed(Wanted({"dice": shop.publish("dice", "1.0.0").as_dict()}))
    with ThreadPoolExecutor(1) as pool, mutex.hold(bot.layout):
        pool.submit(root.restore, wanted).result(30)
    assert bot.lock == Lock()
    root.restore(wanted)
    assert list(bot.lock.plugins) == ["dice"]
