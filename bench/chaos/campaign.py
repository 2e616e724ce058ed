"""One campaign against one site: load, faults by plan, drain, verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.chaos.faults import Ring
from bench.chaos.load import IDLE, Load
from bench.chaos.plan import Fault, Phase
from bench.chaos.verdict import Verdict, judge

DRAIN_SECONDS = 180.0
STANDSTILL_SECONDS = 40.0
BACKLOG = 1500


@dataclass(frozen=True)
class Outcome:
    """What a campaign came to. injected: faults by kind; runs: "group/n" → run of what is missing or twofold."""

    name: str
    verdict: Verdict
    injected: dict[str, int]
    unreached: list[str]
    processes_killed: int
    retries: int
    before_kills: int
    seconds: float
    drained: bool
    runs: dict[str, str]
    url: str

    @property
    def ok(self) -> bool:
        """Tell whether nothing was violated and everything came out in time."""
        return self.verdict.ok and self.drained


class Told:
    """Notes what happens, with its time, in a file and on stderr."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._began = time.monotonic()

    @property
    def passed(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Note one thing."""
        line = f"{self.passed:7.1f} s  {text}"
        print(line, file=self._file, flush=True)
        print(f"\r{line:100}", file=sys.stderr, flush=True)

    def progress(self, text: str) -> None:
        """Show how far it is, on one line that the next one overwrites."""
        if sys.stderr.isatty():
            print(f"\r{self.passed:7.1f} s  {text:90}", end="", file=sys.stderr, flush=True)


def run(site: Any, phases: Sequence[Phase], groups: list[str], rate: float, told: Told) -> Outcome:
    """Run the phases against a site that has been started."""
    load = Load(groups, site.send, site.done, rate, BACKLOG, sure=site.name == "lumia", apart=site.apart)
    ring = Ring(site, load, told.say)
    began = time.monotonic()
    load.begin()
    try:
        for phase in phases:
            load.mode = phase.name
            told.say(f"{phase.name}, until {phase.end:.0f} s")
            _faults(ring, phase, began, told)
        load.mode = IDLE
    finally:
        load.end()
    seconds = time.monotonic() - began
    told.say(f"load ends, {load.under_way} under way")
    drained = _drained(site, load, told)
    evidence = site.evidence(load.accepted, load.unsure, groups)
    strict = site.name == "lumia"
    if not drained:
        evidence.unfinished = site.unfinished(
            judge(evidence, strict=strict, named=None).violations.get("lost", ()), load.accepted
        )
    found = judge(evidence, strict=strict)
    named = {name for names in found.violations.values() for name in names}
    return Outcome(
        site.name, found, ring.injected, ring.unreached, site.crew.losses, load.retries,
        site.before_kills(load.accepted), seconds, drained,
        {str(one): one.run_id for one in load.accepted if str(one) in named}, site.broker.url,
    )  # fmt: skip


def _faults(ring: Ring, phase: Phase, began: float, told: Told) -> None:
    """Do the phase's faults, one after the other; what would begin after its end is left out, and told."""
    for fault in phase.faults:
        _wait(began + fault.at, ring.load, told)
        if time.monotonic() - began > phase.end:
            ring.unreached.append(fault.line().strip())
            continue
        _inject(ring, fault)
    _wait(began + phase.end, ring.load, told)


def _inject(ring: Ring, fault: Fault) -> None:
    ring.say(f"{fault.name}, {ring.load.under_way} messages under way")
    try:
        ring.run(fault)
    except RuntimeError as error:
        ring.say(f"fault {fault.name}: {error}")
        ring.unreached.append(fault.name)


def _wait(until: float, load: Load, told: Told) -> None:
    while (left := until - time.monotonic()) > 0:
        told.progress(f"{len(load.accepted)} accepted, {load.under_way} under way, {load.retries} sent again")
        time.sleep(min(0.5, left))


def _drained(site: Any, load: Load, told: Told) -> bool:
    """Wait until everything accepted is accounted for, until nothing has moved for a while, or too long."""
    end = time.monotonic() + DRAIN_SECONDS
    best, moved = -1, time.monotonic()
    strict = site.name == "lumia"
    while time.monotonic() < end and time.monotonic() - moved < STANDSTILL_SECONDS:
        verdict = judge(site.evidence(load.accepted, load.unsure, list(load.groups)), strict=strict)
        waiting = ("lost", "children lost", "replies lost", "revoked runs stuck")
        left = sum(len(verdict.violations.get(name, ())) for name in waiting)
        if not left:
            return True
        told.progress(f"draining, {verdict.figures['lost']} left")
        committed = verdict.figures["committed"]
        if committed > best:
            best, moved = committed, time.monotonic()
        time.sleep(1.0)
    return False
