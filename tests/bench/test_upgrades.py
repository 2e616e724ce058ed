"""The quick variant of `python -m bench.upgrades`."""

from __future__ import annotations

from pathlib import Path

from bench import upgrades


def test_no_message_is_lost_doubled_or_out_of_order_while_a_plugin_is_upgraded(tmp_path: Path) -> None:
    account = upgrades.run(tmp_path, rate=100, upgrades=3, machines=1, pause=0.2, broken=2)
    assert account.ok, account
    assert (account.upgrades, account.rolled_back) == (3, 1)
    assert account.sent > 20 and account.versions >= 3
