"""A seeded kill campaign: messages flow, workers are killed, and every message is accounted for.

Messages of numbered groups are accepted at a steady rate while worker processes are ended by SIGKILL, or frozen by
SIGSTOP and woken again with their stale claims. Each message appends its number to its group's list in the commit of
its last stage, so the lists show what was lost, done twice or out of order. Exits 1 on any violation.

    python -m bench.chaos [SECONDS] [SEED]
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lumia.box import Box
from lumia.bus import pipe
from lumia.errors import BackendUnavailableError
from lumia.paths import base
from lumia.runtime import Runtime, open_bot
from tests.support import servers
from tests.support.workers import bot_root, write_plugin

GROUPS = 50
RATE = 100.0
WORKERS = 3
FROZEN_SECONDS = 9.0
DRAIN_SECONDS = 60.0
CODE = """
import time

import lumia


@lumia.pipe.on("chaos", priv=4)
def first(content: lumia.Box) -> None:
    time.sleep(0.002)
    lumia.utils.next()


@lumia.pipe.on("chaos", priv=3)
def second(content: lumia.Box) -> None:
    lumia.event.start("chaos.child", content)
    lumia.utils.next()


@lumia.pipe.on("chaos", priv=2)
def last(content: lumia.Box) -> None:
    value = content.into()
    lumia.store.append("done", value["n"], scope=value["group"], keep=100_000)


@lumia.event.consumer("chaos.child")
def child(content: lumia.Box) -> None:
    value = content.into()
    lumia.store.append("children", value["n"], scope=value["group"], keep=100_000)
"""


@dataclass
class Campaign:
    """One run of the campaign and what it has seen."""

    root: Path
    url: str
    seed: int
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    accepted: dict[str, list[int]] = field(default_factory=dict)
    kills: int = 0
    freezes: int = 0

    def spawn(self) -> None:
        """Start one worker."""
        name = f"w{len(self.workers)}-{self.kills}"
        options = ["--loglevel", "WARNING", "--without-mingle", "--without-gossip", "-c", "4", "-n", f"{name}@%h"]
        command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", *options]
        env = {**os.environ, "LUMIA_ROOT": str(self.root), "LUMIA_REDIS_URL": self.url}
        with (self.root / "workers.log").open("ab") as out:
            self.workers.append(subprocess.Popen(command, env=env, stdout=out, stderr=out, cwd=base()))

    def strike(self, chance: random.Random) -> None:
        """Kill one worker and replace it, or freeze one longer than its claims live."""
        victim = chance.choice(self.workers)
        if chance.random() < 0.3:
            self.freezes += 1
            victim.send_signal(signal.SIGSTOP)
            waking = threading.Timer(FROZEN_SECONDS, victim.send_signal, [signal.SIGCONT])
            waking.daemon = True
            waking.start()
            return
        self.kills += 1
        victim.kill()
        victim.wait()
        self.workers.remove(victim)
        self.spawn()

    def accept(self, number: int) -> None:
        """Start one message; only what was accepted is expected later."""
        group = f"group {number % GROUPS}"
        with suppress(BackendUnavailableError):
            pipe.start("chaos", Box.any({"group": group, "n": number, "text": "x" * 150}), key=group)
            self.accepted.setdefault(group, []).append(number)

    def end(self) -> None:
        """End every worker."""
        for worker in self.workers:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGCONT)
                worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            try:
                worker.wait(timeout=40)
            except subprocess.TimeoutExpired:
                worker.kill()


def items(bot: Runtime, key: str, group: str) -> list[int]:
    """Return a group's list."""
    kind, texts = bot.transport.read(f"chaotic/{group}/{key}")
    return [] if kind == "none" else [int(text) for text in texts]


def verdict(bot: Runtime, campaign: Campaign) -> dict[str, int]:
    """Count what was lost, done twice and out of order."""
    lost = doubled = disordered = 0
    for group, expected in campaign.accepted.items():
        for key in ("done", "children"):
            seen = items(bot, key, group)
            lost += len(set(expected) - set(seen))
            doubled += len(seen) - len(set(seen))
            disordered += seen != sorted(seen)
    return {"lost": lost, "duplicated commits": doubled, "order violations": disordered}


def drained(bot: Runtime, campaign: Campaign) -> bool:
    """Wait until every accepted message is done, or too long."""
    end = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < end:
        if all(len(items(bot, "children", group)) >= len(known) for group, known in campaign.accepted.items()):
            return True
        time.sleep(0.5)
    return False


def run(seconds: float, seed: int, folder: Path, url: str) -> int:
    """Run the campaign; returns the exit status."""
    chance = random.Random(seed)
    root = bot_root(folder / "bot", settings="max_losses = 20")
    write_plugin(root, "chaotic", CODE)
    os.environ["LUMIA_REDIS_URL"] = url
    bot = open_bot(root)
    campaign = Campaign(root, url, seed)
    with ExitStack() as stack:
        stack.callback(bot.close)
        stack.callback(campaign.end)
        for _ in range(WORKERS):
            campaign.spawn()
        while not bot.transport.health().workers:
            time.sleep(0.1)
        began, number, strike = time.monotonic(), 0, 3.0
        with bot.activated():
            while (passed := time.monotonic() - began) < seconds:
                campaign.accept(number)
                number += 1
                if passed > strike:
                    campaign.strike(chance)
                    strike = passed + chance.uniform(2.0, 5.0)
                    print(f"\r{number} messages, {campaign.kills} kills, {campaign.freezes} freezes", end="",
                          file=sys.stderr)  # fmt: skip
                time.sleep(max(0.0, number / RATE - (time.monotonic() - began)))
            complete = drained(bot, campaign)
        found: dict[str, Any] = verdict(bot, campaign)
        counters = bot.transport.health().counters
    print(f"\nseed {seed}: {sum(map(len, campaign.accepted.values()))} accepted, {campaign.kills} killed, "
          f"{campaign.freezes} frozen")  # fmt: skip
    for name, count in {**found, "stale commits refused": counters.get("stale", 0),
                        "dead letters": counters.get("dead", 0)}.items():  # fmt: skip
        print(f"  {name:24}{count:8}")
    return 0 if complete and not any(found.values()) else 1


def main() -> None:
    """Run with seconds and seed from the command line (default 120 s, a random seed that is printed)."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="lumia-chaos-") as name, servers.valkey(Path(name) / "valkey") as server:
        sys.exit(run(seconds, seed, Path(name), server.url))


if __name__ == "__main__":
    main()
