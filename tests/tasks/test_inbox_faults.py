"""What was accepted is begun once and in the order of its lane, whatever happens to those that begin it."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumia
from lumia import revival
from lumia.bus import Asked
from lumia.dead import DeadFilter
from lumia.errors import BackendUnavailableError, StaleRoutesError
from lumia.ports import Kept
from lumia.runtime import open_bot
from tasks import failpoints
from tasks.backend import worker_name
from tasks.failpoints import Failing, parse
from tasks.inbox import InboxThread
from tasks.scripts import NAMES, source
from tasks.transport import RedisTransport, connect
from tests.support import servers
from tests.support.accepting import Bot, fresh, rooted
from tests.support.wait import until
from tests.support.workers import Celery, worker

CHATS = "ab"
FAULTS = {"lose": "start.after=error", "fail": "start.before=error"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rooted(tmp_path_factory.mktemp("bot"))


@pytest.fixture(scope="module")
def crew(root: Path, valkey_server: servers.Server) -> Iterator[tuple[Bot, Sequence[InboxThread]]]:
    """A bot, and two that believe to have the inbox's lease."""
    with fresh(root, valkey_server) as bot, closing(
        RedisTransport(connect(valkey_server.url), worker=worker_name(), url=valkey_server.url)
    ) as other:  # fmt: skip
        yield bot, (bot.inbox, InboxThread(bot.runtime, other))


class Play:
    """What is done to an inbox, and what has to come of it: `moves` are called with a chat and a number."""

    moves = ("keep", "start", "crowd", "again", "double", "look", "begin", "take", "work", "cancel", "bury", "retry",
             "flush", "routes", "expire", "cut", "forget", "lose", "fail")  # fmt: skip

    def __init__(self, bot: Bot, leaders: Sequence[InboxThread]) -> None:
        self.bot, self.leaders = bot, dict(zip(CHATS, leaders, strict=True))
        self.looked: dict[str, list[tuple[str, str]]] = {name: [] for name in CHATS}
        self.order: dict[str, list[int]] = {chat: [] for chat in CHATS}
        self.runs: dict[str, int] = {}
        self.known: dict[int, tuple[str, str]] = {}
        self.kept: list[Kept] = []
        self.cancelled, self.given_up = set[int](), set[int]()
        self.fault, self.count = ("", 0), 0

    def play(self, move: str, chat: str, number: int) -> None:
        getattr(self, move)(chat, number)

    # --- accepting

    def new(self, chat: str) -> Asked:
        self.count += 1
        return self.bot.asked(self.count, chat, also=[("msg.raw", lumia.Box.any(self.count))])

    def accepted(self, run: str, chat: str, n: int) -> None:
        self.order[chat].append(n)
        self.runs[run], self.known[n] = n, (chat, run)

    def keep(self, chat: str, number: int) -> None:
        for _ in range(1 + number % 3):
            kept = self.new(chat).kept(self.bot.runtime)
            (run,) = self.bot.transport.inbox.keep([kept])[1]
            self.accepted(run, chat, self.count)
            self.kept.append(kept)

    def start(self, chat: str, number: int) -> None:
        (run,) = self.sent([self.new(chat)])
        assert isinstance(run, str)
        self.accepted(run, chat, self.count)

    def crowd(self, chat: str, number: int) -> None:
        """Several start in one trip; whoever is told that its answer was lost asks again."""
        chats = [chat if at != number else CHATS[0] for at in range(4)]
        crowd = [(one, self.new(one), self.count) for one in chats]
        with self.faults(self.bot.transport):
            answers = self.sent([asked for _, asked, _ in crowd])
        late = []
        for (one, asked, n), answer in zip(crowd, answers, strict=True):
            assert isinstance(answer, str | BackendUnavailableError)
            if isinstance(answer, str) or self.bot.transport.run(asked._ids[0]):
                self.accepted(asked._ids[0], one, n)
            if not isinstance(answer, str):
                late.append((one, asked, n))
        for one, asked, n in late:
            assert self.sent([asked]) == [asked._ids[0]]
            if n not in self.known:
                self.accepted(asked._ids[0], one, n)

    def sent(self, starts: Sequence[Asked]) -> list[str | Exception]:
        """Do what a gateway does."""
        runtime, found = self.bot.runtime, dict[int, str | Exception]()
        left = list(enumerate(starts))
        while left:
            requests = [asked.requests(runtime, runtime.table) for _, asked in left]
            answers = self.bot.transport.start_each(requests, routes=runtime.table.number)
            for (at, _), answer in zip(left, answers, strict=True):
                found[at] = answer if isinstance(answer, Exception) else answer[0].run_id
            left = [(at, asked) for at, asked in left if isinstance(found[at], StaleRoutesError)]
            if left:
                runtime.refresh_routes()
        return [found[at] for at in range(len(starts))]

    def again(self, chat: str, number: int) -> None:
        """The answer of the inbox was lost."""
        if self.kept:
            kept = self.kept[number % len(self.kept)]
            assert self.bot.transport.inbox.keep([kept])[1] == [kept.run_id]

    def double(self, chat: str, number: int) -> None:
        """The platform sends a message a second time."""
        if self.known:
            n = list(self.known)[number % len(self.known)]
            its, run = self.known[n]
            assert [run] == (self.bot.keep(self.bot.asked(n, its)) if chat == "a" else [self.bot.start(n, its)])

    # --- beginning

    def look(self, chat: str, number: int) -> None:
        self.looked[chat] = self.leaders[chat]._inbox.oldest()

    def begin(self, chat: str, number: int) -> None:
        """Begin what it saw when it looked, however long ago."""
        leader = self.leaders[chat]
        with self.faults(leader._transport), suppress(BackendUnavailableError):
            leader._start(self.looked[chat])

    def take(self, chat: str, number: int) -> None:
        self.look(chat, number)
        self.begin(chat, number)

    def work(self, chat: str, number: int) -> None:
        self.bot.work(most=number)

    # --- what comes between

    def cancel(self, chat: str, number: int) -> None:
        if self.runs:
            run = list(self.runs)[-1 - number % len(self.runs)]
            if self.bot.transport.cancel(run, "not wanted"):
                self.cancelled.add(self.runs[run])

    def bury(self, chat: str, number: int) -> None:
        for run, _ in self.looked[chat][number:][:1]:
            if self.leaders[chat]._inbox.bury(run, "was not planned"):
                self.given_up.add(self.runs[run])

    def retry(self, chat: str, number: int) -> None:
        for letter in self.bot.transport.dead(DeadFilter()):
            revival.retry(self.bot.runtime, letter)

    def flush(self, chat: str, number: int) -> None:
        self.bot.redis.script_flush()

    def routes(self, chat: str, number: int) -> None:
        self.bot.redis.hincrby("lumia:routes", "number", 1)

    def expire(self, chat: str, number: int) -> None:
        """The deduplication window of all that came so far is over."""
        for name in self.bot.redis.keys("lumia:dd:*"):
            self.bot.redis.delete(name)
        self.known.clear()

    def cut(self, chat: str, number: int) -> None:
        self.fault = ("cut", number)

    def forget(self, chat: str, number: int) -> None:
        """The scripts are forgotten, and told by somebody else, in the middle of a trip."""
        self.fault = ("forget", number)

    def lose(self, chat: str, number: int) -> None:
        self.fault = ("lose", number)

    def fail(self, chat: str, number: int) -> None:
        self.fault = ("fail", number)

    @contextmanager
    def faults(self, transport: Any) -> Iterator[None]:
        """Have the fault that is due happen to the next trip."""
        (kind, at), self.fault = self.fault, ("", 0)
        lines, run = transport._scripts._lines, transport._run
        asked: Callable[[Any], list[Any]] = lines.ask_each
        if kind == "cut":
            lines.ask_each = lambda commands: asked(commands)[:at]
        elif kind == "forget":
            flush, load = ("SCRIPT", "FLUSH"), ("SCRIPT", "LOAD", source("start"))

            def forgetful(commands: list[Any]) -> list[Any]:
                sent = [*commands[:at], flush, *commands[at : at + 1], load, *commands[at + 1 :]]
                return [one for words, one in zip(sent, asked(sent), strict=True) if words not in (flush, load)]

            lines.ask_each = forgetful
        elif kind:
            transport._run = Failing(transport._scripts, parse(f"{FAULTS[kind]}@{at + 1}", NAMES))
        try:
            yield
        finally:
            transport._run = run
            if kind in ("cut", "forget"):
                del lines.ask_each

    # --- in the end

    def check(self) -> None:
        for _ in range(200):
            if not self.bot.transport.inbox.waiting()[0]:
                break
            self.take("a", 0)
        self.bot.work()
        letters = {self.runs[letter.run_id] for letter in self.bot.transport.dead(DeadFilter())}
        assert letters <= self.given_up, "nothing else is given up"
        for chat, order in self.order.items():
            heard = self.bot.heard(chat)
            gone = self.cancelled | letters
            assert sorted(heard) == [n for n in sorted(order) if n not in gone]
            in_line = [n for n in heard if n not in self.given_up]
            assert in_line == [n for n in order if n not in gone | self.given_up]
        raw, every = Counter(lumia.store.of("ear").items("raw")), set[int]().union(*map(self.bot.heard, CHATS))
        assert set(raw.values()) <= {1} and every <= set(raw)
        assert not self.bot.redis.exists("lumia:inbox", "lumia:kept", "lumia:lanes")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(Play.moves), st.sampled_from(CHATS), st.integers(0, 4)), max_size=60))
def test_nothing_is_lost_doubled_or_overtaken(
    crew: tuple[Bot, Sequence[InboxThread]], moves: Sequence[tuple[str, str, int]]
) -> None:
    bot, leaders = crew
    bot.redis.flushdb()
    bot.publish()
    scene = Play(bot, leaders)
    for move in moves:
        scene.play(*move)
    scene.check()


def _killed(leader: Celery) -> None:
    leader.kill()


def _frozen(leader: Celery) -> None:
    leader.process.send_signal(signal.SIGSTOP)


def _dies_of_it(leader: Celery) -> None:
    until(lambda: leader.process.poll() is not None, timeout=30)


@pytest.mark.parametrize("end, failpoint", [(_killed, ""), (_frozen, ""), (_dies_of_it, "start.after=kill@200")])
def test_a_worker_that_is_killed_or_frozen_loses_nothing_and_makes_nothing_twice(
    root: Path, url: str, monkeypatch: pytest.MonkeyPatch, end: Callable[[Celery], None], failpoint: str
) -> None:
    if failpoint:
        monkeypatch.setenv(failpoints.ENVIRONMENT, failpoint)
    transport = RedisTransport(connect(url), worker=worker_name(), url=url)
    chats = [str(chat) for chat in range(7)]
    with (
        worker(root, url, name="first") as first,
        closing(open_bot(root, transport=transport)) as runtime,
        runtime.activated(),
    ):
        monkeypatch.delenv(failpoints.ENVIRONMENT, raising=False)
        bot = Bot(runtime, transport)

        def done() -> int:
            return sum(len(bot.heard(chat)) for chat in chats)

        for n in range(0, 700, 50):
            bot.keep(*(bot.asked(m, str(m % 7)) for m in range(n, n + 50)))
            if n == 350:
                end(first)
        with worker(root, url, name="second"):
            if first.process.poll() is None:
                until(lambda: done() >= 500, timeout=60)
                first.process.send_signal(signal.SIGCONT)
            until(lambda: done() >= 700, timeout=60)
        assert {c: bot.heard(c) for c in chats} == {c: list(range(int(c), 700, 7)) for c in chats}
