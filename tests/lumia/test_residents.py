"""Residents: what plugins have run in a gateway from its start until it drains."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia import gateway
from lumia.errors import BackendUnavailableError, LeaseLostError, PluginLoadError, RegistrationError
from lumia.gateway import residents
from lumia.marks import marks_on, verify
from lumia.testing import Bot
from tests.support.gateway import Served, served
from tests.support.wait import until
from tests.support.workers import bot_root, write_plugin

calls: list[str] = []


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(residents, "LONGEST_PAUSE", 0.01)
    calls.clear()


@lumia.web.resident
async def stays() -> None:
    calls.append(f"began in {gateway.current().settings.port}")
    try:
        await asyncio.Event().wait()
    finally:
        calls.append("ended")


@lumia.web.resident
async def returns() -> None:
    calls.append("returned")


@lumia.web.resident
async def recovers() -> None:
    calls.append("tried")
    if len(calls) < 6:
        raise RuntimeError("the platform said no")


@lumia.web.resident
async def exits() -> None:
    calls.append("exited")
    raise SystemExit(3)


@lumia.web.resident
async def cancels_itself() -> None:
    calls.append("cancelled")
    raise asyncio.CancelledError


@lumia.web.resident
async def ignores_its_end() -> None:
    calls.append("began")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            calls.append("ignored")
            if len(calls) > 2:
                raise


@lumia.web.resident
async def loses() -> None:
    calls.append("lost")
    raise LeaseLostError("a/main is another one's")


@lumia.web.resident
async def has_no_broker() -> None:
    calls.append("away")
    raise BackendUnavailableError("Redis does not answer")


def health(of: Served) -> Any:
    return of.client.get("/healthz").json()


def test_they_run_from_the_start_until_the_gateway_drains() -> None:
    with served(stays, returns) as running:
        until(lambda: sorted(calls) == [f"began in {running.port}", "returned"])
        running.stop()
        assert calls[2:] == ["ended"]
        running.start()
        until(lambda: len(calls) == 5)


def test_one_that_raises_is_begun_anew_and_the_operator_is_told_until_it_is_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served(recovers) as running:
        until(lambda: len(calls) == 6)
        until(lambda: not running.bot.transport.alarms)
        assert health(running) == {"ok": True}
    assert "resident test.recovers failed, error id" in caplog.text and "RuntimeError" in caplog.text


@pytest.mark.parametrize("resident", [exits, cancels_itself])
def test_one_that_fails_again_and_again_ends_nobody_else_and_is_shown(resident: Callable[..., Any]) -> None:
    with served(resident, returns) as running:
        until(lambda: calls.count("returned") == 1)
        until(lambda: health(running).get("residents failing") == [f"test.{resident.__name__}"])
        alarms = running.bot.transport.alarms
        until(lambda: alarms)
        what, fix = alarms[f"resident test.{resident.__name__}"]
        assert "in a row" in what and "error id" in fix
        assert running.client.get("/").status_code == 200


@pytest.mark.parametrize("resident", [loses, has_no_broker])
def test_a_lost_lease_and_an_absent_broker_are_no_failures(
    resident: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with served(resident) as running:
        until(lambda: len(calls) > 5)
        assert health(running) == {"ok": True} and not running.bot.transport.alarms
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_one_that_ignores_its_end_is_left_behind_in_time(caplog: pytest.LogCaptureFixture) -> None:
    with served(ignores_its_end, settings=gateway.Settings(drain=1.0)) as running:
        until(lambda: calls)
        running.stop()
    assert "resident test.ignores_its_end has not ended" in caplog.text


def test_a_resident_is_async_and_takes_nothing() -> None:
    def plain() -> None: ...

    async def takes(what: str) -> None: ...

    for fn, why in ((plain, "async def"), (takes, "parameters")):
        (mark,) = marks_on(lumia.web.resident(fn))
        with pytest.raises(RegistrationError, match=why):
            verify(mark, fn, "test")


def test_its_plugin_has_to_be_one_that_the_gateway_loads(tmp_path: Path) -> None:
    root = bot_root(tmp_path / "bot")
    write_plugin(root, "dweller", "import lumia\n\n\n@lumia.web.resident\nasync def stays(): ...\n")
    with pytest.raises(PluginLoadError, match=r'is a resident.*"gateway": true'), Bot(root / "plugins" / "dweller"):
        raise AssertionError


def test_what_is_logged_of_a_failure_holds_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ValueError("GET https://api.example/bot123:s3cret/getUpdates: refused")

    async def run() -> None:
        found = residents.Residents(bot.runtime, [residents.Resident("test.fails", fails)])
        found.start()
        while "error id" not in caplog.text:
            await asyncio.sleep(0)
        await found.stop(1.0)

    with Bot() as bot:
        bot.runtime.redact = lambda text: text.replace("s3cret", "***")
        asyncio.run(run())
    assert "bot123:***/getUpdates" in caplog.text and "s3cret" not in caplog.text
