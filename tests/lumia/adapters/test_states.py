"""How accounts fare: told by a thread of the process, and seen by every other one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia import adapters
from lumia.adapters.states import LOST_AFTER, Board
from lumia.errors import BackendUnavailableError, PayloadError
from lumia.testing import Bot, ManualClock
from tests.support.wait import until


@lumia.pipe.on("msg")
def stage(content: lumia.Box[Any]) -> None:
    """Take what comes."""


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[Bot]:
    folder = tmp_path / "plugins" / "toy"
    folder.mkdir(parents=True)
    about = {"name": "toy", "adapter": {"platform": "toy", "pid": 100}}
    (folder / "manifest.json").write_text(json.dumps(about))
    (folder / "plugin.py").touch()
    (folder / "config-schema.toml").write_text('[accounts]\ntype = "table"\ndefault = {}\n')
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "toy.toml").write_text("[accounts.main]\n[accounts.off]\nenabled = false\n")
    with Bot(stage, clock=ManualClock(), root=tmp_path) as bot:
        yield bot


def found(account: str = "main") -> adapters.AccountInfo:
    return next(one for one in adapters.accounts() if (one.adapter, one.account) == ("toy", account))


def told(state: str, account: str = "main") -> adapters.AccountInfo:
    until(lambda: (account, state) in [(one.account, one.state) for one in adapters.accounts()], what=f"it is {state}")
    return found(account)


def test_an_account_is_unseen_or_disabled_until_a_gateway_speaks_of_it(bot: Bot) -> None:
    assert (found("main").state, found("off").state) == ("unseen", "disabled")


def test_a_change_is_told_at_once_with_its_detail(bot: Bot) -> None:
    state = adapters.account("toy", "main", platform="toy")
    assert state is adapters.account("toy", "main")
    state.connecting()
    told("connecting")
    state.connected("@toy_bot\nand more")
    info = told("connected")
    assert (info.detail, info.platform, info.gateway) == ("@toy_bot and more", "toy", bot.runtime.worker)
    state.refused("401 Unauthorized")
    assert told("refused").detail == "401 Unauthorized"


def test_a_detail_holds_no_secret(bot: Bot) -> None:
    bot.runtime.redact = lambda text: text.replace("s3cret", "***")
    adapters.account("toy", "main").disconnected("GET https://toy.test/bots3cret/getMe")
    assert told("disconnected").detail == "GET https://toy.test/bot***/getMe"


def test_since_is_when_it_entered_its_state_and_not_when_it_was_said_again(bot: Bot) -> None:
    clock = bot.clock
    assert isinstance(clock, ManualClock)
    state = adapters.account("toy", "main")
    state.connected()
    began = told("connected").since
    clock.move(20)
    state.connected("with more detail")
    until(lambda: found().detail == "with more detail")
    assert found().since == began


def test_an_account_whose_gateway_is_silent_is_lost(bot: Bot) -> None:
    adapters.account("toy", "main").connected()
    seen = told("connected").since
    clock = bot.clock
    assert isinstance(clock, ManualClock) and bot.runtime.board is not None
    bot.runtime.board.close = lambda: None  # type: ignore[method-assign]  # it was killed
    bot.runtime.board._closing = True
    clock.move(LOST_AFTER + 1)
    info = found()
    assert (info.state, info.since) == ("lost", seen)
    assert bot.runtime.worker in info.detail


def test_what_arrives_is_noted_with_how_late_it_is(bot: Bot) -> None:
    msg = lumia.payloads.message(
        platform="toy", account="main", chat={"kind": "private", "id": "7"}, sender={"id": "7"}, text="hi",
        time=lumia.system.now() - 4.0,
    )  # fmt: skip
    adapters.accept("toy", msg)
    assert bot.runtime.board is not None
    bot.runtime.board.flush()
    assert (found().last_event, found().lag) == (lumia.system.now(), 4.0)
    assert found().state == "unseen"


def test_a_process_that_ends_says_so(bot: Bot) -> None:
    adapters.account("toy", "main").listening()
    told("listening")
    assert bot.runtime.board is not None
    bot.runtime.board.close()
    assert (found().state, found().detail) == ("disconnected", "its gateway was stopped")


def test_news_wait_for_a_broker_that_is_away(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    write = bot.transport.write
    refused = []

    def away(ops: Any) -> None:
        refused.append(ops)
        raise BackendUnavailableError("no broker")

    monkeypatch.setattr(bot.transport, "write", away)
    adapters.account("toy", "main").connected()
    until(lambda: refused, what="the broker was asked")
    monkeypatch.setattr(bot.transport, "write", write)
    assert bot.runtime.board is not None and bot.runtime.board.flush()
    assert found().state == "connected"


def test_an_account_that_was_taken_out_of_the_file_is_shown_while_it_is_connected(bot: Bot) -> None:
    adapters.account("toy", "old").connected()
    told("connected", "old")
    adapters.account("toy", "old").disconnected("taken out of its file")
    until(lambda: all(one.account != "old" for one in adapters.accounts()), what="it is gone")


def test_what_goes_down_is_told_although_the_process_has_begun_to_serve_steps(bot: Bot) -> None:
    state = adapters.account("toy", "main", platform="toy")
    state.connecting()
    told("connecting")
    bot.runtime.worker = "host:1:serving"  # as a gateway is called from its first connection on that steps need
    state.refused("wrong token")
    assert told("refused").detail == "wrong token"


def test_what_goes_down_here_is_no_news_while_another_gateway_serves_the_account(bot: Bot) -> None:
    other = Board(dataclasses.replace(bot.runtime, worker="other:1"))
    here = adapters.account("toy", "main")
    here.connected("here")
    told("connected")
    there = other.account("toy", "main", "toy")
    there.connected("there")
    until(lambda: found().gateway == "other:1", what="the other gateway has it")
    here.disconnected("another gateway has it now")
    assert bot.runtime.board is not None
    bot.runtime.board.flush(again=True)
    assert (found().state, found().gateway) == ("connected", "other:1")
    other.close()
    assert found().state == "disconnected"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 600])
def test_a_name_that_is_none_is_refused(bot: Bot, name: str) -> None:
    with pytest.raises(PayloadError):
        adapters.account("toy", name)
