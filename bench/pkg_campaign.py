"""`python -m bench.pkg_campaign`: what `pkg` promises of operations, tried at length; docs/pkg-operations.md.

    python -m bench.pkg_campaign                    every failpoint of every operation, 200 random sequences
    python -m bench.pkg_campaign --sequences 20     fewer of them
    python -m bench.pkg_campaign --only kill,error  some parts: kill, packages, error, undo, disk, sequences

Ends with 1 when an operation left something between the old and the new.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from lumia.errors import OperationError, PkgError
from lumia.pkg import failpoints, journal, operation, recovery
from tests.support import full_disk
from tests.support.cases import OPERATIONS, Cases, check, shape
from tests.support.crashing import Server, server
from tests.support.machine import MEMORY, machine
from tests.support.packages import Shop

Outcomes = Counter[str]


def kill(folder: Path, crash: Server) -> Outcomes:
    """`kill -9` at every failpoint of every operation, with hooks; then a recovery."""
    found: Outcomes = Counter()
    for cases in _cases(folder / "kill"):
        for point in cases.points:
            bot, plan = cases.next()
            assert crash.run(bot.layout.root, plan, point) == -9, point
            recovery.recover(bot.layout.root)
            found[check(cases, bot, point)] += 1
    return found


def packages(folder: Path, crash: Server) -> Outcomes:
    """`kill -9` at every failpoint of operations that bring Python packages, and while one is undone; then a recovery.

    Those come from a folder of wheels; they are built, switched to and switched back by the real code, which meets
    input/output errors at these points, too.
    """
    found: Outcomes = Counter()
    undoing = [f"{step}{when}" for step in journal.UNDO_STEPS[:2] for when in ("", ".done")]
    for kind in OPERATIONS:
        cases = Cases(folder / "packages", kind, packages=True)
        for point, then in [*((point, "") for point in cases.points), *(("packages.done", one) for one in undoing)]:
            bot, plan = cases.next()
            assert crash.run(bot.layout.root, plan, point, shelf=cases.shelf) == -9, point
            if then:
                assert crash.recover(bot.layout.root, then) == -9, then
            recovery.recover(bot.layout.root)
            found[check(cases, bot, point)] += 1
        for point in (point for point in cases.points if point.startswith(("build", "packages"))):
            bot, plan = cases.next()
            os.environ[failpoints.VARIABLE] = f"{point}=error"
            with suppress(PkgError):
                cases.run(bot, plan)
            assert check(cases, bot, point) == "old", point
            found["old"] += 1
    return found


def error(folder: Path, crash: Server) -> Outcomes:
    """An input/output error at every failpoint of every operation."""
    found: Outcomes = Counter()
    for cases in _cases(folder / "error"):
        for point in cases.points:
            bot, plan = cases.next()
            os.environ[failpoints.VARIABLE] = f"{point}=error"
            try:
                operation.run(plan, layout=bot.layout)
            except OperationError:
                recovery.recover(bot.layout.root)
            found[check(cases, bot, point)] += 1
    return found


def undo(folder: Path, crash: Server) -> Outcomes:
    """`kill -9` in an operation, then at every failpoint of undoing it, then again one later; then a recovery."""
    found: Outcomes = Counter()
    steps = [f"{step}{when}" for step in journal.UNDO_STEPS for when in ("", ".done")]
    for cases in _cases(folder / "undo"):
        for first in ("swap-in.done" if cases.kind != "remove" else "swap-out.done", "commit.done", "index.done"):
            for number, point in enumerate(steps):
                bot, plan = cases.next()
                assert crash.run(bot.layout.root, plan, first) == -9
                for one in (point, steps[min(number + 1, len(steps) - 1)]):
                    crash.recover(bot.layout.root, one)
                recovery.recover(bot.layout.root)
                found[check(cases, bot, "undo-clean" if number > len(steps) - 5 else point)] += 1
    return found


def disk(folder: Path, crash: Server) -> Outcomes:
    """A file system with so many KiB free, from none to enough."""
    found: Outcomes = Counter()
    if not full_disk.possible():
        return Counter({"skipped: no tmpfs can be mounted here": 1})
    for cases in _cases(folder / "disk"):
        bot, plan = cases.next()
        for one in full_disk.outcomes(bot, plan, folder / "mount", range(0, 480, 8)):
            assert one.state == cases.old or shape(one.state) == cases.new, one.free
            found["old" if one.state == cases.old else "new"] += 1
    return found


def sequences(folder: Path, count: int) -> Outcomes:
    """Random sequences of operations, failures and deaths against a model."""
    many = settings(
        max_examples=count, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck),
        database=None, phases=[Phase.generate], print_blob=True,
    )  # fmt: skip
    run_state_machine_as_test(machine(Shop(folder / "sequences")), settings=many)
    return Counter({"as the model says": count})


def _cases(folder: Path) -> Iterator[Cases]:
    yield from (Cases(folder, kind, hooks=True) for kind in OPERATIONS)


PARTS: dict[str, Callable[[Path, Server], Outcomes]] = {
    "kill": kill, "packages": packages, "error": error, "undo": undo, "disk": disk,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.pkg_campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=200, help="how many random sequences")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*PARTS, "sequences"], help="parts")
    given = parser.parse_args(arguments)
    failed = False
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as made, server() as crash:
        parts: dict[str, Callable[[], Outcomes]] = {
            name: lambda part=part, name=name: part(Path(made), crash)  # type: ignore[misc]
            for name, part in PARTS.items()
        }
        parts["sequences"] = lambda: sequences(Path(made), given.sequences)
        for name in given.only:
            start = time.monotonic()
            try:
                found = parts[name]()
                told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
            except AssertionError as wrong:
                failed, told = True, f"FAILED: {wrong}"
            print(f"{name:<10} {time.monotonic() - start:6.1f} s  {told}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
