"""What each fault of the plan does to the processes, the broker and the load."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.chaos.crew import Member
from bench.chaos.load import IDLE, Load, NotAcceptedError
from bench.chaos.plan import WORKER_SCRIPTS, Fault

FROZEN_SECONDS = (7.0, 9.0)
"""Longer than a heartbeat lives, so that a frozen worker comes back to claims others have taken."""
AWAY_SECONDS = 5.0
LONG_SECONDS = AWAY_SECONDS + 2.0
LONG_RUNS = 4
BUSY_SECONDS = 1.5
READY_SECONDS = 25.0
REACHED_SECONDS = 6.0
"""How long a worker that serves may take to come by its failpoint, or goes on with one that doesn't end it."""


@dataclass
class Ring:
    """What a fault works on. site: Lumia or the peer; say: notes what was done; injected: how often, by kind."""

    site: Any
    load: Load
    say: Callable[[str], None]
    injected: dict[str, int] = field(default_factory=dict)
    unreached: list[str] = field(default_factory=list)

    def run(self, fault: Fault) -> None:
        """Do what a fault says; its choices come from its own seed."""
        self.injected[fault.name] = self.injected.get(fault.name, 0) + 1
        KINDS[fault.name](self, fault, random.Random(fault.seed))

    def worker(self, chance: random.Random) -> Member:
        """Return a worker that runs, waiting for one where all have just died."""
        self.site.until(lambda: self.site.crew.of("worker"), READY_SECONDS, "a worker runs")
        found: Member = chance.choice(self.site.crew.of("worker"))
        return found

    def member(self, role: str, chance: random.Random) -> Member:
        """Return a member of a role, waiting for one where all have just died."""
        self.site.until(lambda: self.site.crew.of(role), READY_SECONDS, f"a {role} runs")
        found: Member = chance.choice(self.site.crew.of(role))
        return found


def kill_worker(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGKILL a worker while messages flow."""
    victim = ring.worker(chance)
    ring.say(f"SIGKILL {victim.name} ({victim.pid})")
    ring.site.crew.kill(victim)


def kill_worker_busy(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGKILL a worker while each of its threads is at a step."""
    runs = ring.site.long_runs(ring.site.workers * ring.site.threads, BUSY_SECONDS, chance.randrange(10**9))
    kill_worker(ring, fault, chance)
    ring.site.until(lambda: ring.site.ended(runs), READY_SECONDS)


def kill_worker_idle(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGKILL a worker that stands still with its request for a message outstanding, just as messages come."""
    victim, mode = ring.worker(chance), ring.load.mode
    ring.load.mode = IDLE
    ring.site.until(lambda: ring.load.under_way <= 0, 3.0)
    victim.process.send_signal(signal.SIGSTOP)
    ring.load.mode = mode
    time.sleep(chance.uniform(0.05, 0.4))
    ring.say(f"SIGKILL {victim.name} ({victim.pid}), idle and frozen, as messages come")
    ring.site.crew.kill(victim)


def freeze_worker(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGSTOP a worker for longer than its claims live, then SIGCONT."""
    victim, seconds = ring.worker(chance), chance.uniform(*FROZEN_SECONDS)
    ring.say(f"SIGSTOP {victim.name} ({victim.pid}) for {seconds:.1f} s")
    ring.site.crew.freeze(victim, seconds)


def kill_child(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGKILL one child of the prefork worker."""
    pid = ring.site.crew.kill_child(ring.member("prefork", chance), chance.randrange(100))
    ring.say(f"SIGKILL prefork child {pid}")


def kill_role(role: str) -> Callable[[Ring, Fault, random.Random], None]:
    """Return the fault that kills a member of a role."""

    def kill(ring: Ring, fault: Fault, chance: random.Random) -> None:
        victim = ring.member(role, chance)
        ring.say(f"SIGKILL {victim.name} ({victim.pid})")
        ring.site.crew.kill(victim)

    return kill


def kill_broker(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGKILL Valkey and start it again on its append-only file."""
    with_long_runs(ring, chance, lambda: ring.site.broker.kill(chance.uniform(0.2, 3.0)), "SIGKILL of Valkey")


def restart_broker(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGTERM Valkey and start it again."""
    with_long_runs(ring, chance, lambda: ring.site.broker.restart(chance.uniform(0.2, 3.0)), "restart of Valkey")


def pause_broker(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """CLIENT PAUSE for five seconds."""
    with_long_runs(ring, chance, lambda: ring.site.broker.pause(AWAY_SECONDS), "CLIENT PAUSE of 5 s")


def freeze_broker(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGSTOP Valkey for five seconds."""
    with_long_runs(ring, chance, lambda: ring.site.broker.freeze(AWAY_SECONDS), "SIGSTOP of Valkey for 5 s")


def cut_connections(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """CLIENT KILL, a few times."""

    def cut() -> None:
        for _ in range(4):
            ring.site.broker.cut()
            time.sleep(chance.uniform(0.1, 0.5))

    with_long_runs(ring, chance, cut, "CLIENT KILL of every connection, 4 times")


def with_long_runs(ring: Ring, chance: random.Random, away: Callable[[], None], what: str) -> None:
    """Do something to the broker while a few steps are being executed that outlast it: none may be run again."""
    runs = ring.site.long_runs(LONG_RUNS, LONG_SECONDS, chance.randrange(10**9))
    ring.say(f"{what}, {len(runs)} long steps under way")
    away()
    ring.site.until(lambda: ring.site.ended(runs), READY_SECONDS)


def poison(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """Start a step that kills each process that executes it, in a lane with others behind it."""
    run = _start(ring, "chaos.poison", chance)
    ring.say(f"poison: run {run}")
    ring.site.expected_dead.add(run)
    ring.site.until(lambda: ring.site.ended([run]), 45.0)


def hung(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """Start a step that never comes back, in a lane with others behind it."""
    run = _start(ring, "chaos.hung", chance)
    ring.say(f"hung: run {run}")
    ring.site.expected_dead.add(run)


def revoke(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """Revoke a queued message by Celery's remote control: its run ends as cancelled, its lane goes on."""
    _revoke(ring, chance, ring.worker(chance))


def failpoint_cancel(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """Revoke a message at a worker that dies as it cancels the run."""
    for text in fault.text.split("|"):
        victim = ring.site.start_worker("failing", "failing", "-c", "1", "-Q", "spare", again=False,
                                        LUMIA_FAILPOINTS=text)  # fmt: skip
        ring.say(f"{text} in {victim.name} ({victim.pid})")
        ring.site.until(lambda victim=victim: ring.site.serves(victim) or not victim.alive, READY_SECONDS)
        _revoke(ring, chance, victim)
        if not ring.site.until(lambda victim=victim: not victim.alive, 3.0):
            ring.unreached.append(text)
            ring.site.crew.stop(victim, again=False)


def _revoke(ring: Ring, chance: random.Random, member: Member) -> None:
    """Park a message, revoke it, and only then let a worker take it."""
    from celery import Celery

    lane = f"parked {chance.randrange(10**9)}"
    run = _start(ring, "chaos.parked", chance, lane)
    follower = _start(ring, "chaos.long", chance, lane, seconds=0.0)
    ring.site.revoked |= {run: "", follower: ""}
    app = Celery(broker=ring.site.broker.url, set_as_current=False)
    task = ""

    def parked() -> bool:
        nonlocal task
        with ring.site.broker.redis as redis:
            ids = [json.loads(text)["headers"]["id"] for text in redis.lrange("parked:3", 0, -1)]
        task = next((one for one in ids if one.startswith(f"{run}.")), "")
        return bool(task)

    ring.say(f"revoke: run {run}")
    ring.site.until(parked, READY_SECONDS, f"the message of run {run} is queued")
    app.control.revoke(task)
    time.sleep(0.5)
    # A worker that dies with the message revokes it for good only if nobody else runs it later: both are fine.
    for name in dict.fromkeys((member.name, *(worker.name for worker in ring.site.crew.of("worker")))):
        host = f"{name}@{_host()}"
        app.control.add_consumer("parked", destination=[host])
        over = ring.site.until(lambda: ring.site.ended([run]) or not member.alive, 9.0) and ring.site.ended([run])
        app.control.cancel_consumer("parked", destination=[host])
        if over:
            break
    app.close()


def _host() -> str:
    import socket

    return socket.gethostname()


def stop_worker(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGTERM a worker while messages flow."""
    victim = ring.worker(chance)
    ring.say(f"SIGTERM {victim.name} ({victim.pid})")
    ring.site.crew.stop(victim)


def rolling_restart(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """SIGTERM one worker after the other, each when the one before it serves again."""
    ring.say("rolling restart of every worker")
    for name in [member.name for member in ring.site.crew.of("worker")]:
        member = next((one for one in ring.site.crew.of("worker") if one.name == name), None)
        if member is None:
            continue
        ring.site.crew.stop(member)
        ring.site.until(lambda name=name: _serves(ring, name), READY_SECONDS)


def _serves(ring: Ring, name: str) -> bool:
    return any(one.name == name and ring.site.serves(one) for one in ring.site.crew.of("worker"))


def failing_workers(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """Add a worker for each part of the fault's text that fails there."""
    extra = []
    for number, text in enumerate(fault.text.split("|")):
        member = ring.site.start_worker(f"failing{number}", "failing", again=False, LUMIA_FAILPOINTS=text)
        ring.say(f"{text} in {member.name} ({member.pid})")
        extra.append((text, member))
    for text, member in extra:
        ring.site.until(lambda member=member: not member.alive or ring.site.serves(member), READY_SECONDS)
        ring.site.until(lambda member=member: not member.alive, REACHED_SECONDS)
        if member.alive:
            if "kill" in text:
                ring.unreached.append(text)
            ring.site.crew.stop(member, again=False)


def failing_beats(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """Add beats that fail as they fire, which they do because the others stand still meanwhile."""
    others = ring.site.crew.of("beat")
    for member in others:
        member.process.send_signal(signal.SIGSTOP)
    try:
        _fail_beats(ring, fault)
    finally:
        for member in others:
            member.process.send_signal(signal.SIGCONT)


def _fail_beats(ring: Ring, fault: Fault) -> None:
    for number, text in enumerate(fault.text.split("|")):
        member = ring.site.start_beat(f"failing-beat{number}", again=False, LUMIA_FAILPOINTS=text)
        ring.say(f"{text} in {member.name} ({member.pid})")
        if not ring.site.until(lambda member=member: not member.alive, READY_SECONDS):
            ring.unreached.append(text)
            ring.site.crew.stop(member, again=False)


def failing_gateway(ring: Ring, fault: Fault, chance: random.Random) -> None:
    """Start the gateway anew, once for each part of the text, so that it fails there."""
    for text in fault.text.split("|"):
        ring.site.crew.stop(ring.member("gateway", chance), again=False)
        kept = {"LUMIA__GATEWAY__KEEP_FROM": "1"} if text.startswith("keep") else {}
        member = ring.site.start_gateway(LUMIA_FAILPOINTS=text, **kept)
        ring.say(f"{text} in {member.name} ({member.pid})")
        kills = "kill" in text
        ring.site.until(lambda member=member: not member.alive, READY_SECONDS if kills else fault.seconds)
        if member.alive and kills:
            ring.unreached.append(text)
        if member.alive:
            ring.site.crew.stop(member)
        ring.site.until(ring.site.gateway_answers, READY_SECONDS)


def _start(ring: Ring, id: str, chance: random.Random, lane: str = "", **value: Any) -> str:
    """Start a run of its own in one of the groups' lanes or another one, however long that takes."""
    key, dedup = lane or chance.choice(list(ring.load.groups)), f"{id} {chance.randrange(10**9)}"
    while True:
        try:
            return str(ring.site.begin(id, value, key=key, dedup=dedup))
        except NotAcceptedError:
            time.sleep(0.2)


KINDS: dict[str, Callable[[Ring, Fault, random.Random], None]] = {
    "kill-worker": kill_worker,
    "kill-worker-busy": kill_worker_busy,
    "kill-worker-idle": kill_worker_idle,
    "freeze-worker": freeze_worker,
    "kill-child": kill_child,
    "kill-prefork": kill_role("prefork"),
    "kill-gateway": kill_role("gateway"),
    "kill-beat": kill_role("beat"),
    "kill-broker": kill_broker,
    "restart-broker": restart_broker,
    "pause-broker": pause_broker,
    "freeze-broker": freeze_broker,
    "cut-connections": cut_connections,
    "poison": poison,
    "hung": hung,
    "revoke": revoke,
    "stop-worker": stop_worker,
    "rolling-restart": rolling_restart,
    "failpoint-cancel": failpoint_cancel,
    "failpoint-gateway": failing_gateway,
    "failpoint-beat": failing_beats,
    "resend": failing_workers,
    "lost-reply": failing_workers,
    **{f"failpoint-{script}": failing_workers for script in WORKER_SCRIPTS},
}
