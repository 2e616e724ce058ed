"""A table whose name can't be an account's takes no other account with it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import lumia
from lumia.adapters import configured
from lumia.paths import base
from tests.support.gateway import served
from tests.support.wait import until


@pytest.mark.parametrize(
    "adapter, platform", [("telegram", ""), ("discord", ""), ("slack", ""), ("satori", ""), ("onebot", "qq")]
)
@pytest.mark.parametrize("name", ["", "a\nb"])
def test_a_name_that_is_none_stops_no_other_account(
    adapter: str, platform: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = {"discord": {"token": "t"}, "satori": {"url": "http://127.0.0.1:9"}}.get(adapter, {})
    tables = {name: {"mode": "forward"} if adapter == "onebot" else {}, "good": {"enabled": False, **token}}
    with served(base() / "adapters" / adapter, config={adapter: {"accounts": tables}}) as running:
        until(lambda: lumia.adapters.account(adapter, "good", platform=platform).state == "disabled")
        assert running.gateway.residents.failing == []
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert said and not [line for line in said if "error id" in line]


def test_such_a_name_is_not_among_the_accounts(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "telegram.toml").write_text('[accounts.""]\n[accounts."a\\nb"]\n[accounts.good]\n')
    (plugin,) = [one for one in configured.plugins(base(), tmp_path) if one.name == "telegram"]
    assert [one.account for one in configured.of_plugin(plugin, tmp_path)] == ["good"]
