"""Undoing, when what was kept for it is no longer all there."""

from __future__ import annotations

from pathlib import Path

import pytest

from lumia.errors import OperationError
from lumia.pkg import failpoints, operation
from lumia.pkg.model import Plan
from tests.support.packages import Bot, Shop

SCHEMA = '[sides]\ntype = "int"\ndefault = 6\n'
MORE = SCHEMA + '[loud]\ntype = "bool"\n'


@pytest.mark.parametrize("image", ["before", "after"])
def test_settings_whose_image_is_gone_are_left_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str
) -> None:
    shop = Shop(tmp_path / "shop")
    shop.publish("dice", "1.0.0", {"config-schema.toml": SCHEMA})
    shop.publish("dice", "1.1.0", {"config-schema.toml": MORE})
    bot = Bot(tmp_path / "bot", shop)
    bot.install("dice", "1.0.0")
    settings = bot.layout.settings("dice")
    settings.write_text(settings.read_text().replace("6", "20  # mine"))
    plan = Plan((bot.action("upgrade", "dice", "1.1.0"),))

    def hit(step: str, plugin: str = "") -> None:
        if step == "lock":
            kept = list(bot.layout.undo.glob(f"*/settings-*.{image}"))
            assert kept
            for one in kept:
                one.unlink()
            raise OperationError("no")

    monkeypatch.setattr(failpoints, "hit", hit)
    with pytest.raises(
        OperationError, match=rf"settings-0\.{image} in .* is gone, and not for us; .* is left as it is"
    ):
        operation.run(plan, layout=bot.layout)
    assert "20  # mine" in settings.read_text()
    assert "loud" in settings.read_text()
    assert bot.lock.plugins["dice"].version == "1.0.0"
