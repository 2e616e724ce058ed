"""Refused requests leave a number, and no number is lost while the store is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import lumia
from lumia import adapters, gateway
from lumia.errors import BackendUnavailableError
from lumia.store import Store
from lumia.testing import Bot, ManualClock


def test_refusals_are_counted_by_account_at_most_once_a_second_and_kept_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def call(function: Any, *args: Any) -> Any:
        calls.append(1)
        return function(*args)

    def incr(store: Store, *args: Any, **options: Any) -> Any:
        if away:
            raise BackendUnavailableError("away")
        return real(store, *args, **options)

    calls: list[int] = []
    away: list[int] = []
    real = Store.incr
    monkeypatch.setattr(Store, "incr", incr)
    monkeypatch.setattr(gateway, "call", call, raising=False)
    clock, counted = ManualClock(), lumia.store.of("toy")
    with Bot(clock=clock):
        refusals = adapters.Refusals("toy")
        for _ in range(3):
            asyncio.run(refusals.note("main"))
        assert (len(calls), counted.get("refused", scope="main")) == (1, 1)
        away.append(1)
        clock.move(1.5)
        asyncio.run(refusals.note("other"))
        away.clear()
        clock.move(1.5)
        asyncio.run(refusals.note("main"))
        assert (counted.get("refused", scope="main"), counted.get("refused", scope="other")) == (4, 1)
