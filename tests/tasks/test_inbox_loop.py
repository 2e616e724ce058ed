"""Starts that a gateway keeps from its event loop: stored as by a thread, which finds out what became of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from lumia.bus import Asked
from lumia.errors import BackendUnavailableError
from lumia.gateway.intake import Intake
from tasks import failpoints
from tasks.connection import LoopLines
from tasks.scripts import NAMES
from tests.support import servers
from tests.support.accepting import Bot, fresh, rooted
from tests.support.wait import until


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rooted(tmp_path_factory.mktemp("bot"))


@pytest.fixture
def bot(root: Path, valkey_server: servers.Server) -> Iterator[Bot]:
    with fresh(root, valkey_server) as bot:
        yield bot


class Sent:
    """Counts who kept starts: the event loop, or a thread of the intake."""

    def __init__(self, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here, self.thread = list[int](), list[int]()
        inbox: Any = bot.transport.inbox
        keep_here, keep = inbox.keep_here, inbox.keep

        async def counted_here(starts: Sequence[Any]) -> Any:
            self.here.append(len(starts))
            return await keep_here(starts)

        def counted(starts: Sequence[Any]) -> Any:
            self.thread.append(len(starts))
            return keep(starts)

        monkeypatch.setattr(inbox, "keep_here", counted_here)
        monkeypatch.setattr(inbox, "keep", counted)


@pytest.fixture
def sent(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(bot, monkeypatch)


def kept(bot: Bot, starts: Sequence[Asked], *, after: Sequence[Asked] = (), faults: Any = None) -> list[Any]:
    """Have an intake that keeps everything start these at once; faults: called once the first of `after` are kept."""

    async def play() -> list[Any]:
        intake = Intake(bot.runtime, 512, keep_from=1)
        try:
            async with asyncio.timeout(30):
                for one in after:
                    await intake.start(one)
                if faults is not None:
                    faults()
                return await asyncio.gather(*(intake.start(one) for one in starts), return_exceptions=True)
        finally:
            await intake.leave()
            intake.close()

    return asyncio.run(play())


def killed(server: servers.Server) -> None:
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(server.pid) or psutil.Process(server.pid).status() == psutil.STATUS_ZOMBIE)


def test_many_starts_are_kept_in_their_order_without_a_thread(bot: Bot, sent: Sent) -> None:
    bot.keep(bot.asked(0, "first"))  # which teaches the server the script
    sent.thread.clear()
    asked = [bot.asked(n, "ab"[n % 2]) for n in range(100)]
    runs = kept(bot, asked)
    assert [run for run, _ in bot.inbox._inbox.oldest()][1:] == runs[:63]
    assert (sum(sent.here), sent.thread) == (100, [])
    while bot.take():
        bot.work()
    assert (bot.heard("a"), bot.heard("b")) == (list(range(0, 100, 2)), list(range(1, 100, 2)))


def test_a_duplicate_gets_the_run_of_the_first(bot: Bot) -> None:
    first, again, other = kept(bot, [bot.asked(1), bot.asked(1), bot.asked(2)])
    assert first == again != other
    assert kept(bot, [bot.asked(1)]) == [first]
    assert bot.transport.inbox.waiting()[0] == 2


def test_a_server_that_forgot_the_script_is_taught_by_the_thread(bot: Bot, sent: Sent) -> None:
    runs = kept(bot, [bot.asked(1), bot.asked(2)], faults=bot.redis.script_flush)
    assert [run for run, _ in bot.inbox._inbox.oldest()] == runs
    assert (sent.here, sent.thread) == ([2], [2])
    assert len(kept(bot, [bot.asked(3)])) == 1 and sent.thread == [2], "and then the loop can do it"


def test_a_connection_that_was_cut_is_made_anew(bot: Bot, sent: Sent) -> None:
    def cut() -> None:
        bot.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    runs = kept(bot, [bot.asked(2)], after=[bot.asked(1)], faults=cut)
    assert [run for run, _ in bot.inbox._inbox.oldest()][1:] == runs


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_nobody_knows_of_is_sent_again_and_kept_once(bot: Bot, sent: Sent, moment: str) -> None:
    bot.transport._run = failpoints.around(bot.transport._scripts, NAMES, f"keep.{moment}=error@1")
    runs = kept(bot, [bot.asked(1), bot.asked(2)])
    assert [run for run, _ in bot.inbox._inbox.oldest()] == runs
    assert (sent.here, sent.thread) == ([2], [2])


def test_a_pause_on_the_loop_lets_the_loop_go_on(bot: Bot) -> None:
    bot.transport._run = failpoints.around(
        bot.transport._scripts, NAMES, "keep.before=pause(300)@1,keep.after=resend@*"
    )
    turns = 0

    async def play() -> list[str]:
        nonlocal turns
        keeping = asyncio.ensure_future(bot.transport.inbox.keep_here([bot.asked(1).kept(bot.runtime)]))
        while not keeping.done():
            turns += 1
            await asyncio.sleep(0.001)
        await bot.transport.inbox.leave()
        return list((await keeping)[1])

    assert asyncio.run(play()) == [run for run, _ in bot.inbox._inbox.oldest()]
    assert turns > 20


def test_a_server_that_is_away_is_told_to_everybody_who_waits(root: Path, tmp_path: Path) -> None:
    with servers.valkey(tmp_path) as own, fresh(root, own) as bot:
        found = kept(bot, [bot.asked(2), bot.asked(3)], after=[bot.asked(1)], faults=lambda: killed(own))
        assert [type(one) for one in found] == [BackendUnavailableError] * 2


def test_a_server_that_refuses_to_write_says_so(bot: Bot) -> None:
    bot.redis.config_set("maxmemory", "1mb")
    try:
        (found,) = kept(bot, [bot.asked(1)])
    finally:
        bot.redis.config_set("maxmemory", "0")
    assert isinstance(found, BackendUnavailableError) and "maxmemory" in str(found)


def test_what_only_the_threads_client_can_connect_to_is_kept_by_the_thread(bot: Bot, sent: Sent) -> None:
    bot.transport._scripts._loops = LoopLines("rediss://127.0.0.1:1/0?ssl_validate_ocsp=true")
    runs = kept(bot, [bot.asked(1), bot.asked(2)])
    assert [run for run, _ in bot.inbox._inbox.oldest()] == runs
    assert (sent.here, sent.thread) == ([2], [2])


@pytest.mark.parametrize("scheme", ["redis", "unix"])
def test_a_socket_file_and_a_password_are_known_on_the_loop(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    at = tmp_path / "x.sock"
    with servers.valkey(tmp_path / "valkey", password="s3cret", config=f"unixsocket {at}\n") as own:
        url = {"redis": f"redis://:s3cret@127.0.0.1:{own.port}/1", "unix": f"unix://{at}?db=1&password=s3cret"}
        with fresh(root, replace(own, url=url[scheme])) as bot:
            sent = Sent(bot, monkeypatch)
            runs = kept(bot, [bot.asked(2)], after=[bot.asked(1)])
            assert [run for run, _ in bot.inbox._inbox.oldest()][1:] == runs
            assert (sent.here, sent.thread) == ([1, 1], [1]), "the first one taught the server the script"
