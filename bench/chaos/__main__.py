"""`python -m bench.chaos [--seconds S] [--seed N] [--only PATTERN]…`: the campaign of `make chaos` (docs/chaos.md)."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from bench.chaos import campaign, peer, report, site
from bench.chaos.campaign import Outcome, Told
from bench.chaos.plan import Entry, Phase, catalogue, chosen, make

RESULTS = Path(__file__).parents[1] / "results" / "chaos.json"
PEER_SHARE = 0.17
OVERTIME_SECONDS = 480.0
FULL_SECONDS = 300.0
GROUPS = 50


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos", description="Faults under load, every message accounted for.",
        epilog="Example: python -m bench.chaos --seconds 90 --seed 7 --only 'kill-*' --only revoke",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=540.0, help="of load, all sites together (540)")
    parser.add_argument("--seed", type=int, default=None, help="what everything follows from; a random one is printed")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="faults with such names only")
    parser.add_argument("--list", action="store_true", help="print the faults there are, and end")
    parser.add_argument("--rate", type=float, default=100.0, help="messages per second in the steady phase (100)")
    parser.add_argument("--workers", type=int, default=3, help="workers for the default queue (3)")
    parser.add_argument("--threads", type=int, default=4, help="steps each of them executes at once (4)")
    parser.add_argument("--fsync", choices=["always", "everysec"], default="always",
                        help="appendfsync of Valkey; what everysec may lose is counted apart (always)")  # fmt: skip
    parser.add_argument("--peer", choices=["also", "no", "alone"], default="also", help="Celery beside it (also)")
    parser.add_argument("--folder", type=Path, default=None, help="keep everything there")
    parser.add_argument("--results", type=Path, default=None, help=f"JSON file to write (full runs: {RESULTS.name})")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; 0 when nothing of Lumia's promises was violated."""
    given = options(arguments)
    try:
        entries = chosen(catalogue(), given.only)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.list:
        print("\n".join(dict.fromkeys(entry.name for entry in entries)))
        return 0
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(10**6)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="lumia-chaos-"))
    only = "".join(f" --only {name!r}" for name in given.only)
    print(f"seed {given.seed}: python -m bench.chaos --seconds {given.seconds:g} --seed {given.seed}{only}", flush=True)
    sites = _sites(given, entries)
    with _bounded(given.seconds + OVERTIME_SECONDS):
        outcomes = [_campaign(name, made, plan, folder / name, given) for name, made, plan in sites]
    _tell(outcomes, folder)
    _write(outcomes, given)
    ok = all(outcome.ok for outcome in outcomes if outcome.name == "lumia")
    if ok and given.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if ok else 1


def _tell(outcomes: list[Outcome], folder: Path) -> None:
    print("\n" + report.table(outcomes))
    for outcome in outcomes:
        if outcome.unreached:
            print(f"{outcome.name}, not reached: {'; '.join(outcome.unreached)}")
    for outcome in outcomes:
        text = report.explained(outcome, folder / outcome.name) if outcome.name == "lumia" else ""
        if text:
            print(text)


def _write(outcomes: list[Outcome], given: argparse.Namespace) -> None:
    """Write the figures where they were asked for; those of a full campaign always."""
    full = not given.only and given.peer == "also" and given.seconds >= FULL_SECONDS
    target = given.results or (RESULTS if full and given.folder is None else None)
    if target is not None:
        names = ("seed", "seconds", "rate", "only", "workers", "threads", "fsync")
        report.write(target, outcomes, groups=GROUPS, **{name: getattr(given, name) for name in names})


def _sites(given: argparse.Namespace, entries: Sequence[Entry]) -> list[tuple[str, Callable[..., Any], list[Phase]]]:
    """Return name, class and plan of each site, with the plans printed."""
    share = {"also": PEER_SHARE, "no": 0.0, "alone": 1.0}[given.peer]
    found: list[tuple[str, Callable[..., Any], list[Phase]]] = []
    if share < 1:
        found.append(("lumia", site.Lumia, make(given.seed, given.seconds * (1 - share), entries)))
    for_peer = [entry for entry in entries if entry.peer]
    if share and for_peer:
        found.append(("celery", peer.Peer, make(given.seed, given.seconds * share, for_peer)))
    for name, _, phases in found:
        for phase in phases:
            print(f"{name}, {phase.name}: {phase.begin:.0f} to {phase.end:.0f} s, {len(phase.faults)} faults")
            for fault in phase.faults:
                print(f"  {fault.line()}")
    return found


def _campaign(
    name: str, made: Callable[..., Any], phases: list[Phase], folder: Path, given: argparse.Namespace
) -> Outcome:
    folder.mkdir(parents=True)
    with (folder / "events.log").open("w") as events:
        told = Told(events)
        told.say(f"{name}: starting")
        groups = [f"g{number}" for number in range(GROUPS)]
        with closing(made(folder, workers=given.workers, threads=given.threads, fsync=given.fsync)) as target:
            target.start()
            return campaign.run(target, phases, groups, given.rate, Told(events))


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """End everything as Ctrl-C would, on SIGTERM and when the block takes far too long."""

    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGTERM])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\ninterrupted: everything was ended", file=sys.stderr)
        sys.exit(130)
