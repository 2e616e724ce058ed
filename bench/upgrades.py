"""`python -m bench.upgrades`: a plugin is upgraded again and again under load, and every message is accounted for.

Machines of one bot (bot roots against one Valkey) serve a plugin of two steps while messages come in at a steady rate,
spread over groups. Meanwhile `pkg`'s own operations put one version after the other in, on alternating machines, now
and then one that can't be loaded. Afterwards every group's record is read: nothing may be missing, there twice or out
of order, and both steps of a message must have been executed by the same version. Each process of each version opens a
resource; each must have been closed once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import lumia
from lumia.errors import OperationError, PlanError
from lumia.pkg.deploying import Outcome
from lumia.runtime import Runtime
from tests.support import servers
from tests.support.machines import Machine
from tests.support.packages import Shop
from tests.support.wait import until
from tests.support.workers import opened, worker

GROUPS = 20
CODE = """
import io, os, pathlib
import lumia

ROOT = pathlib.Path(os.environ["LUMIA_ROOT"])
PORT = None

class Port(io.RawIOBase):
    def close(self):
        if not self.closed:
            tell("closed")
        super().close()

def tell(what):
    with (ROOT / "ports.log").open("a") as file:
        file.write(f"{os.getpid()} {VERSION} {what}\\n")

def on_load():
    global PORT
    tell("opened")
    PORT = lumia.Box.any(Port())

@lumia.pipe.on("meter", priv=1)
def first(content: lumia.Box):
    group, number = content.into()
    lumia.store.append(f"group {group}", [number, 1, VERSION], keep=1000000)
    lumia.utils.next()

@lumia.pipe.on("meter")
def second(content: lumia.Box):
    group, number = content.into()
    lumia.store.append(f"group {group}", [number, 2, VERSION], keep=1000000)
"""
BROKEN = ("import nothing_like_this\n", "def on_load():\n    raise ValueError('broken')\n")


@dataclass
class Account:
    """What became of the messages. mixed: executed by two versions. ports: resources not closed just once."""

    sent: int = 0
    lost: int = 0
    doubled: int = 0
    disordered: int = 0
    mixed: int = 0
    ports: int = 0
    refused: int = 0
    upgrades: int = 0
    rolled_back: int = 0
    versions: int = 0
    upgrade_seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Tell whether nothing went wrong."""
        return not (
            self.lost or self.doubled or self.disordered or self.mixed or self.ports or self.refused or self.errors
        )

    def text(self) -> str:
        """Return it in a few lines."""
        times = sorted(self.upgrade_seconds)
        middle, longest = (times[len(times) // 2], times[-1]) if times else (0.0, 0.0)
        return (
            f"{self.sent} messages, {self.upgrades} upgrades and {self.rolled_back} versions rolled back: {self.lost} "
            f"lost, {self.doubled} twice, {self.disordered} out of order, {self.mixed} by two versions, {self.refused} "
            f"refused; {self.versions} versions served them; {self.ports} resources not closed once; hand-over median "
            f"{middle:.2f} s, longest {longest:.2f} s"
        )


class Load:
    """Sends messages at a steady rate until it is stopped, in a thread of its own."""

    def __init__(self, bot: Runtime, rate: float, account: Account) -> None:
        self._bot, self._rate, self._account = bot, rate, account
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.runs: list[str] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        with self._bot.activated():
            while not self._ending.wait(max(0.0, began + self._account.sent / self._rate - time.monotonic())):
                number = self._account.sent
                try:
                    group = number % GROUPS
                    self.runs.append(lumia.pipe.start("meter", lumia.Box.any([group, number]), key=f"group {group}"))
                except lumia.errors.LumiaError as error:
                    self._account.refused += 1
                    self._account.errors.append(f"message {number}: {error}")
                self._account.sent += 1


def run(
    folder: Path, *, rate: float = 100.0, upgrades: int = 20, machines: int = 2, pause: float = 0.5, broken: int = 5,
    pool: Sequence[str] = (),
) -> Account:  # fmt: skip
    """Upgrade under load and account for everything. broken: after every so many upgrades one that can't be loaded."""
    account = Account()
    shop = Shop(folder / "shop")
    roots = [Machine(folder / f"machine{n}", shop) for n in range(machines)]
    with ExitStack() as stack:
        server = stack.enter_context(servers.valkey(folder / "valkey"))
        bot = stack.enter_context(opened(roots[0].layout.root, server.url))
        for machine in roots:
            machine.bot = bot
        roots[0].install("meter", "1.0.0", CODE)
        for machine in roots:
            stack.enter_context(worker(machine.layout.root, server.url, *pool, name=machine.layout.root.name))
        members = bot.transport.deployments().members
        until(lambda: len(members()) >= machines and all(one.active for one in members()), what="all processes")
        with Load(bot, rate, account) as load:
            for number in range(1, upgrades + 1):
                time.sleep(pause)
                _upgrade(roots[number % machines], number, account)
                if broken and number % broken == 0:
                    _break(roots[number % machines], number, account)
            time.sleep(pause)
        for one in load.runs:
            lumia.runs.wait(one, 60.0)
        until(lambda: all(len(one.holds) == 1 for one in members()), timeout=20, what="old generations to be gone")
        _judge(account)
    account.ports = sum(_ports(machine.layout.root) for machine in roots)
    return account


def _upgrade(machine: Machine, number: int, account: Account) -> None:
    try:
        outcome = until(lambda: _tried(machine, f"1.{number}.0", CODE), timeout=60, what="a machine in step")
    except OperationError as error:
        account.errors.append(f"upgrade {number}: {error}")
        return
    account.upgrades += 1
    account.upgrade_seconds.append(outcome.seconds)


def _tried(machine: Machine, version: str, code: str) -> Outcome | None:
    """Upgrade; None when the machine was just going back from a version that was rolled back: `pkg` says run it again."""
    try:
        return machine.install("meter", version, code)
    except PlanError:
        return None


def _break(machine: Machine, number: int, account: Account) -> None:
    code = BROKEN[number % len(BROKEN)]
    try:
        until(lambda: _tried(machine, f"1.{number}.1", code), timeout=60, what="a machine in step")
        account.errors.append(f"version 1.{number}.1 can't be loaded and was taken")
    except OperationError:
        account.rolled_back += 1


def _judge(account: Account) -> None:
    """Read what the handlers have noted, each with its commit."""
    seen: Counter[tuple[int, int]] = Counter()
    versions: dict[int, set[str]] = {}
    store = lumia.store.of("meter")
    for group in range(GROUPS):
        rows: list[Any] = store.items(f"group {group}")
        places = [(number, step) for number, step, _ in rows]
        account.disordered += sum(after < before for before, after in pairwise(places))
        seen.update(places)
        for number, _, version in rows:
            versions.setdefault(number, set()).add(version)
    wanted = {(number, step) for number in range(account.sent) for step in (1, 2)}
    account.lost = len(wanted - set(seen)) - 2 * account.refused
    account.doubled = sum(count - 1 for count in seen.values())
    account.mixed = sum(len(of) > 1 for of in versions.values())
    account.versions = len(set().union(*versions.values())) if versions else 0


def _ports(root: Path) -> int:
    """Count the resources of a machine's processes that were not closed just once."""
    told = Counter((root / "ports.log").read_text().splitlines())
    opens = [line.removesuffix(" opened") for line in told if line.endswith(" opened")]
    wrong = sum(told[f"{one} closed"] != told[f"{one} opened"] for one in opens)
    return wrong + sum(told[f"{one} opened"] != 1 for one in opens)


def main(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; 0 when every message is accounted for."""
    parser = argparse.ArgumentParser(prog="python -m bench.upgrades", description="Upgrades under load.")
    parser.add_argument("--rate", type=float, default=100.0, help="messages per second (100)")
    parser.add_argument("--upgrades", type=int, default=20, help="how many (20)")
    parser.add_argument("--machines", type=int, default=2, help="bot roots, each with a worker (2)")
    parser.add_argument("--prefork", action="store_true", help="workers with two child processes instead of threads")
    parser.add_argument("--results", type=Path, default=None, help="JSON file to write")
    given = parser.parse_args(arguments)
    pool = ("-P", "processes", "-c", "2") if given.prefork else ()
    with tempfile.TemporaryDirectory(prefix="lumia-upgrades-") as folder:
        account = run(Path(folder), rate=given.rate, upgrades=given.upgrades, machines=given.machines, pool=pool)
    print(account.text())
    print("\n".join(account.errors[:20]))
    if given.results is not None:
        given.results.write_text(json.dumps(asdict(account), indent=1) + "\n")
    return 0 if account.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
