"""The campaign: a bot with all adapters, messages on every way in, faults, and the account of what became of each."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import lumia
from bench.chaos_adapters.platforms import WAYS, Platform, pause, spread
from bench.chaos_adapters.wire import Wire
from lumia.adapters import sends
from lumia.adapters.outbound import send_id_of
from lumia.paths import base
from tasks.supervise.ports import free_port
from tests.support import servers
from tests.support.workers import bot_root, first_party, opened, worker, write_plugin

ANSWERED = 20
"""Of the messages in a stream every so many-th is answered: platforms let a bot say about one thing a second."""
ECHO = f"""
import lumia

ANSWERED = {ANSWERED}
"""
ECHO += """

@lumia.pipe.on("msg")
def echo(content):
    msg = content.into()
    where = f"{msg['platform']}/{msg['account']}"
    lumia.store.append("heard", [where, msg["text"]], keep=1_000_000)
    words = msg["text"].split()
    quiet = "in" in words or ("stream" in words and int(words[-1]) % ANSWERED)
    if msg["platform"] != "webhook" and not quiet:
        meta = {name: content.meta[name] for name in ("account", "thread") if name in content.meta}
        to = lumia.payloads.reply_to(msg)
        said = {"text": "re " + msg["text"], "idempotency_key": msg["message_id"]}
        lumia.event.start(to, lumia.Box.any(said, meta=meta))
        lumia.store.put("keys", where + " " + msg["text"], [to, msg["message_id"]])
"""
PATIENCE = 150.0
"""Seconds for a message to arrive: adapters that are cut off again and again wait up to a minute and a half."""
UNSURE = ("unknown", "held")
"""States of a send of which nobody knows whether it arrived: shown, and left to somebody's decision."""
FAILPOINTS = ("start.before=kill@{}", "keep.before=kill@{}", "start.after=kill@{}", "keep.after=kill@{}", "")


@dataclass
class Account:
    """What became of one way's messages."""

    name: str
    said: int = 0
    offsets: int = 0
    frame: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    answered_twice: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    answered: int = 0
    unsure: int = 0
    unexplained: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Tell whether every promise was kept."""
        return not (self.lost or self.doubled or self.answered_twice or self.disordered or self.unexplained)


class Gateway:
    """Gateway processes, one after the other on one port."""

    def __init__(self, root: Path, url: str) -> None:
        self.port = free_port()
        self.killed = 0
        self._env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url,
                     "LUMIA__GATEWAY__PORT": str(self.port)}  # fmt: skip
        self._log = (root / "gateway.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, failpoints: str = "") -> subprocess.Popen[bytes]:
        """Start one; what it was told to fail at is its first fault."""
        kept = {"LUMIA__GATEWAY__KEEP_FROM": "1"} if failpoints.startswith("keep") else {}
        env = {**self._env, **kept, "LUMIA_FAILPOINTS": failpoints}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lumia.gateway"], env=env, cwd=base(), stdout=self._log, stderr=self._log
        )
        return self._process

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self.killed += 1

    def end(self) -> None:
        """SIGTERM, at the end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            self._process.kill()
        self._log.close()


class Campaign:
    """Runs the phases and keeps the account. seconds: of the cuts, at most; all: cut at every byte, however long."""

    def __init__(self, folder: Path, *, seconds: float, kills: int, every: bool, seed: int, ways: list[str],
                 say: Callable[[str], None]) -> None:  # fmt: skip
        self._folder, self._seconds, self._kills, self._every = folder, seconds, kills, every
        self._random, self._tell = random.Random(seed), say
        self._ways = [way for way in WAYS if not ways or way.name in ways]
        self._heard: dict[str, Counter[str]] = {}
        self._order: dict[str, list[str]] = {}
        self._said: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def run(self) -> list[Account]:
        """Return what became of every message, by way in."""
        platforms = [way() for way in self._ways]
        accounts = [Account(one.name) for one in platforms]
        root = made_root(self._folder / "bot", platforms)
        with servers.valkey(self._folder / "valkey") as server, opened(root, server.url) as bot:
            self._bot = bot
            gateway = Gateway(root, server.url)
            try:
                with worker(root, server.url):
                    gateway.start()
                    for one in platforms:
                        one.begin(gateway.port)
                    self._all(platforms, accounts, self._cuts)
                    self._stream(platforms, gateway)
                    self._repeats(platforms)
                    self._settle(platforms)
                    for one, account in zip(platforms, accounts, strict=True):
                        self._judge(one, account)
            finally:
                gateway.end()
                for one in platforms:
                    one.__exit__()
        self.killed = gateway.killed
        return accounts

    # --- phases

    def _all(
        self, platforms: list[Platform], accounts: list[Account], act: Callable[[Platform, Account], None]
    ) -> None:
        failures: list[BaseException] = []

        def guarded(one: Platform, account: Account) -> None:
            try:
                act(one, account)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=pair) for pair in zip(platforms, accounts, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def _cuts(self, one: Platform, account: Account) -> None:
        """Cut the way in within a message's bytes, then, where sends go by HTTP, within the bytes of an answer."""
        self._say(one, "first")
        self._until_heard(one, "first")
        one.wire.reset()
        account.frame = self._measured(one, one.wire, one.direction, "measured")
        until = time.monotonic() + self._seconds / (2 if one.api else 1)
        account.offsets = self._cut_each(one, one.wire, account.frame + 1, until, "in")
        self._tell(f"{one.name}: cut at {account.offsets} of {account.frame + 1} offsets on its way in")
        if one.api is not None:
            size = self._measured(one, one.api, "down", "answered")
            until = time.monotonic() + self._seconds / 2
            done = self._cut_each(one, one.api, size + 1, until, "out", "down")
            account.offsets += done
            self._tell(f"{one.name}: cut at {done} of {size + 1} offsets of the answers to its sends")

    def _measured(self, one: Platform, wire: Wire, direction: Any, text: str) -> int:
        """Return how many bytes of a direction a message and what belongs to it take."""
        before = wire.carried[direction]
        self._say(one, text)
        self._until_heard(one, text)
        self._until_answered(one, text)
        return int(wire.carried[direction] - before)

    def _cut_each(self, one: Platform, wire: Wire, count: int, until: float, name: str, direction: Any = None) -> int:
        for done, offset in enumerate(spread(count)):
            if time.monotonic() > until and (one.unhurried or not self._every):
                return done
            text = f"{name} {offset}"
            wire.cut_after(direction or one.direction, offset)
            self._say(one, text)
            with suppress(TimeoutError):  # the account tells of it
                self._until_heard(one, text)
                if direction:
                    self._until_settled(one, text, wire)
            wire.calm()
        return count

    def _stream(self, platforms: list[Platform], gateway: Gateway) -> None:
        """Kill the gateway again and again while everybody speaks: by itself around a commit, or from outside."""
        over = threading.Event()

        def speak(one: Platform) -> None:
            number = 0
            while not over.is_set():
                self._say(one, f"stream {number}")
                number += 1
                over.wait(0.1)

        speakers = [threading.Thread(target=speak, args=(one,)) for one in platforms]
        gateway.kill()
        for speaker in speakers:
            speaker.start()
        try:
            for number in range(self._kills):
                point = FAILPOINTS[number % len(FAILPOINTS)].format(self._random.randint(1, 12))
                process = gateway.start(point)
                deadline = time.monotonic() + (30.0 if point else self._random.uniform(3.0, 6.0))
                while process.poll() is None and time.monotonic() < deadline:
                    pause(0.02)
                gateway.kill()
            gateway.start()
        finally:
            over.set()
            for speaker in speakers:
                speaker.join()
        self._tell(f"the gateway was killed {gateway.killed} times while everybody spoke")

    def _repeats(self, platforms: list[Platform]) -> None:
        """Hand over again what was said last, twice, when all of it has arrived."""
        for one in platforms:
            for text in self._said[one.name][-20:]:
                with suppress(TimeoutError):
                    self._until_heard(one, text)
        for _ in range(2):
            for one in platforms:
                one.again(self._said[one.name][-20:])
        for one in platforms:
            self._say(one, "last")

    def _settle(self, platforms: list[Platform]) -> None:
        for one in platforms:
            for text in self._said[one.name]:
                with suppress(TimeoutError):
                    self._until_heard(one, text, 20.0)
        deadline, before = time.monotonic() + PATIENCE, -1
        while time.monotonic() < deadline:
            now = sum(len(one.answers()) for one in platforms)
            missing = sum(sum(map(_is_answered, self._said[one.name])) - len(set(one.answers())) - self._unsure(one)
                          for one in platforms if one.name != "webhook")  # fmt: skip
            if missing <= 0 and now == before:
                return
            before = now
            pause(1.0)

    # --- looking

    def _say(self, one: Platform, text: str) -> None:
        with self._lock:
            self._said.setdefault(one.name, []).append(text)
        one.say(text)

    def _look(self) -> None:
        """Read what the bot has heard."""
        with self._bot.activated():
            rows = lumia.store.of("echo").items("heard")
        with self._lock:
            self._heard, self._order = {}, {}
            for where, text in rows:
                self._heard.setdefault(where, Counter())[_bare(text)] += 1
                self._order.setdefault(where, []).append(_bare(text))

    def _until_heard(self, one: Platform, text: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not self._heard.get(_where(one), Counter())[text]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{one.name}: {text!r} was not heard within {patience:g} s")
            pause(0.01)
            self._look()

    def _until_answered(self, one: Platform, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while one.adapter != "webhook" and not any(_bare(one_) == text for one_ in one.answers()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{one.name}: {text!r} was not answered within {PATIENCE:g} s")
            pause(0.01)
        pause(0.05)  # for what follows an answer on the wire

    def _until_settled(self, one: Platform, text: str, wire: Wire) -> None:
        """Wait until the answer is there, or nobody knows whether it is."""
        deadline, unsure = time.monotonic() + PATIENCE, self._unsure(one)
        while time.monotonic() < deadline:
            if any(_bare(said) == text for said in one.answers()) or self._unsure(one) > unsure:
                return
            pause(0.01)
        raise TimeoutError(f"{one.name}: the answer to {text!r} is nowhere after {PATIENCE:g} s")

    def _unsure(self, one: Platform) -> int:
        with self._bot.activated():
            found = sends.counts(one.adapter, _account(one))
        return sum(count for state, count in found.items() if state in UNSURE)

    def _states(self, one: Platform) -> dict[str, str]:
        """Return the state of the send that answers each message."""
        found = {}
        with self._bot.activated():
            for place, (to, key) in lumia.store.of("echo").fields("keys").items():
                where, _, text = place.partition(" ")
                if where == _where(one):
                    send = sends.find(send_id_of(one.adapter, _account(one), lumia.payloads.parse_destination(to), key))
                    found[_bare(text)] = send.state if send is not None else ""
        return found

    def _judge(self, one: Platform, account: Account) -> None:
        self._look()
        heard, said = self._heard.get(_where(one), Counter()), self._said[one.name]
        answers = Counter(_bare(text) for text in one.answers())
        account.said = len(said)
        account.lost = [text for text in said if not heard[text]]
        account.doubled = [text for text, count in heard.items() if count > 1]
        account.answered_twice = [text for text, count in answers.items() if count > 1]
        account.answered, account.unsure = len(answers), self._unsure(one)
        if one.ordered:
            place = {text: number for number, text in enumerate(said)}
            order = [place[text] for text in self._order.get(_where(one), ()) if text in place]
            account.disordered = [said[b] for a, b in pairwise(order) if b < a]
        if one.adapter != "webhook":
            silent = [text for text in said if heard[text] and not answers[text] and _is_answered(text)]
            states = self._states(one)
            account.unexplained = [text for text in silent if states.get(text) not in UNSURE]


def made_root(folder: Path, platforms: list[Platform]) -> Path:
    """Make a bot root with the adapters, one account for each way in."""
    root = bot_root(folder)
    on = {one.adapter for one in platforms}
    off = json.dumps([name for name in first_party() if name not in on])
    settings = "[worker]\nconcurrency = 8\nstep_timeout = 20.0\ndrain = 3.0\n"
    (root / "config" / "lumia.toml").write_text(f"{settings}[plugins]\ndisabled = {off}\n")
    for adapter in on:
        tables = [_table(adapter, one) for one in platforms if one.adapter == adapter]
        file = root / "config" / f"{adapter}.toml"
        file.write_text("\n".join(tables))
        file.chmod(0o600)
    write_plugin(root, "echo", ECHO)
    return root


def _table(adapter: str, one: Platform) -> str:
    group = "sources" if adapter == "webhook" else "accounts"
    lines = [f"{key} = {json.dumps(value)}" for key, value in one.settings().items()]
    return "\n".join([f"[{group}.{_account(one)}]", *lines, ""])


def _account(one: Platform) -> str:
    """Return the account's name: `main`, or `second` for a platform's other way."""
    return "second" if one.name in ("telegram polling", "slack socket") else "main"


def _where(one: Platform) -> str:
    return f"{'qq' if one.adapter == 'onebot' else one.adapter}/{_account(one)}"


def _is_answered(text: str) -> bool:
    """Tell whether the bot answers this message."""
    first, _, number = text.partition(" ")
    return first not in ("in", "stream") or (first == "stream" and int(number) % ANSWERED == 0)


def _bare(text: str) -> str:
    """Return what was said of a text as it was heard, or answered: without the mention and the `re`."""
    words = text.removeprefix("re ").split()
    return " ".join(word for word in words if not word.startswith(("@", "<@")))
