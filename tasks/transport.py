"""The Redis transport: every promise of `lumia.ports.Transport`, kept by atomic scripts (DESIGN §5)."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError, ResponseError

from lumia.dead import DeadFilter, DeadLetter
from lumia.errors import (
    BackendUnavailableError,
    RunTimeoutError,
    StaleClaimError,
    StaleRoutesError,
    StoreError,
    UnknownRunError,
)
from lumia.history import History, MergedHistory
from lumia.journal import CANCEL, JournalEntry, clean
from lumia.lanes import LaneReport, Rate, Verdict
from lumia.ports import (
    ANY,
    Claim,
    Commit,
    Health,
    Inbox,
    Limits,
    RunRecord,
    RunRequest,
    StoreOp,
)
from lumia.routes import Plan, RouteTable
from tasks import grouped, lanes, letters, wire
from tasks.archive.compacted import completed
from tasks.archive.measures import measure
from tasks.archive.reader import ArchiveHistory
from tasks.archive.rows import stream_row
from tasks.connection import TIMEOUT, BriefRetry, TimedConnection
from tasks.deployments import RedisDeployments
from tasks.grouped import Group, Groups, Waiting
from tasks.history import StreamHistory
from tasks.inbox import RedisInbox
from tasks.keys import PREFIX, WORKERS
from tasks.ledger import LedgerPort
from tasks.private_queues import QueuePort
from tasks.refusals import AWAY, FAILURES, unaccepted, unavailable
from tasks.scripts import Scripts, bound
from tasks.starting import StartPort

STATES = {"w": "waiting", "q": "queued", "c": "claimed", "d": "delayed", "e": "ended", "f": "finished", "n": "queued"}
FRESH_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
"""How long a process that has work at stake waits for Redis to come back."""
PAUSE_SECONDS = 0.5
T = TypeVar("T")


log = logging.getLogger("lumia")


def connect(url: str, *, timeout: float = TIMEOUT, tries: int = 5) -> Redis:
    """Return a client that retries briefly, up to `tries` times; `timeout` in seconds bounds one answer.

    A server that was reached and stays silent is asked again only until twice that time has passed.
    """
    backoff = BriefRetry(ExponentialBackoff(cap=0.5, base=0.05), tries, seconds=2 * timeout)
    plain = {"connection_class": TimedConnection} if url.startswith("redis://") else {}
    return Redis.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=backoff,
                          health_check_interval=15, client_name="lumia", **plain)  # fmt: skip


class RedisTransport(StartPort, LedgerPort, QueuePort):
    """Implements `lumia.ports.Transport` on one Redis or Valkey primary."""

    def __init__(
        self, redis: Redis, *, worker: str, limits: Limits | None = None, prefix: str = PREFIX, url: str = ""
    ) -> None:
        QueuePort.__init__(self)
        self.redis = redis
        self._bytes: Any = redis  # replies are bytes: decode_responses is off, which redis-py's types can't know
        self.worker, self.url = worker, url
        self.limits = limits or Limits()
        self.prefix = prefix
        self.archive: ArchiveHistory | None = None
        self._scripts = Scripts(redis, prefix, url)
        self._run = bound(self._scripts)
        self._stored: set[str] = set()
        self._plans: dict[bytes, Plan] = {}
        self.groups = Groups()
        self.kept = RedisInbox(self)
        self.inbox: Inbox | None = self.kept

    def call(self, script: str, *args: Any) -> Any:
        """Run a script; raises `BackendUnavailableError` when Redis can't be reached or refuses to write."""
        try:
            return self._run(script, *args)
        except FAILURES as error:
            if (told := unaccepted(error)) is not None:
                raise told from error
            raise

    async def ask_here(self, script: str, *args: Any) -> Any | None:
        """Run a script on the running event loop; None where `call` has to find out what became of it."""
        try:
            return await self._run.here(script, *args)
        except Exception as error:  # also of a URL of which only the other client of redis-py takes every option
            log.debug("%s is sent again: %s", script, error)
            return None

    async def leave(self) -> None:
        """Close the connection of the running event loop."""
        await self._scripts.leave()

    def call_each(self, script: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run a script once for each of `calls`, in one trip; an error stands in its answer's place."""
        answers = self._run.each(script, calls)
        return [(unaccepted(one) or one) if isinstance(one, Exception) else one for one in answers]

    def _insist(self, script: str, *args: Any) -> Any:
        """Run a script on which a claim depends."""
        return _patiently(script, self.call, script, *args)

    # --- executing

    def claim(self, run_id: str, step: int, seq: int) -> Claim | None:
        """Take a step for this process; None when the message is a copy too many."""
        return self._claimed(self._insist("claim", run_id, step, seq, self.worker))

    def _claimed(self, reply: Sequence[bytes]) -> Claim | None:
        if reply[0] != b"claimed":
            return None
        try:
            return wire.claim(reply, _patiently("plan", self._plan, reply[11]))
        except UnknownRunError as error:
            log.error("run %s can't go on: %s", reply[1].decode(), error)
            keep = int(self.limits.keep_runs * 1000)
            self.call("bury", reply[1], reply[3], str(error), keep, self.limits.journal_bytes)
            return None

    def _plan(self, digest: bytes) -> Plan:
        plan = self._plans.get(digest)
        if plan is None:
            text = self._asked("get", self._key("plan", digest.decode()))
            if text is None:
                raise UnknownRunError(
                    f"plan {digest.decode()} is not in Redis; was the database emptied under the bot? "
                    "`lumia dead retry` plans it anew"
                )
            plan = self._plans[digest] = Plan.parse(text.decode())
        return plan

    def begin_inline(self, run_id: str) -> Claim:
        """Return the claim of an Arc run that this process has started; the start script took it for us."""
        names = ("x", "t", "a", "n", "i", "k", "o", "c", "p", "d", "R", "A", "B", "O", "D", "F", "H")
        found = _patiently("claim", self._asked, "hmget", self._key("r", run_id), names)
        plan = _patiently("plan", self._plan, found[9])
        return wire.claim([b"claimed", run_id.encode(), *found, b"", b"", b"", b""], plan)

    def commit(self, claim: Claim, commit: Commit) -> Claim | None:
        """End a step; re-sending it gives the first answer again."""
        if self.groups.takes(claim, commit, self.limits):
            return grouped.fused(claim, commit)
        group = self.groups.of(claim)
        if group is None:
            return self._commit(claim, commit, ())
        with group.lock:
            try:
                follower = self._commit(claim, commit, group.waiting, group.drop)
            except StaleClaimError:
                self.groups.end(claim)
                raise
        self.groups.end(claim)
        return follower

    def _commit(
        self,
        claim: Claim,
        commit: Commit,
        before: Sequence[Waiting],
        over: Callable[[], None] = lambda: None,
        *,
        under_way: bool = False,
    ) -> Claim | None:
        """Send a commit with those that have waited for it; `over` is called once they are written, or refused.

        under_way: the step that follows is being executed.
        """
        box = next((one.box for one in (commit, *(w.commit for w in reversed(before))) if one.box is not None), None)
        head = [wire.commit(claim, commit, self.limits, self.worker, grouped.before(before), under_way), box or ""]
        reply = self._with_plans(commit.children, lambda *runs: self._insist("commit", *head, *runs))
        status = reply[0]
        if status == b"stale":
            over()
            raise StaleClaimError(f"run {claim.run_id}, step {claim.step}: taken over by another worker")
        _check_store(reply)
        lanes.check(reply)
        over()
        if status == b"fused":
            return grouped.fused(claim, commit)
        if status == b"again":
            return self.begin_inline(claim.run_id)
        return self._claimed(reply)

    def send_waiting(self, groups: Iterable[Group]) -> None:
        """Send the commits that wait in these groups; one whose claim was lost is dropped."""
        for group in groups:
            with group.lock, suppress(StaleClaimError):
                if group.waiting:
                    *before, last = group.waiting
                    self._commit(last.claim, last.commit, before, group.drop, under_way=True)

    def _settled(self, claim: Claim) -> None:
        """Let the broker know of the step a claim is at, before that does anything beside its commit."""
        group = self.groups.of(claim)
        if group is not None:
            self.send_waiting([group])

    # --- asking

    def asked(self, command: str, *args: Any) -> Any:
        """Return the answer to a plain command; raises `BackendUnavailableError` when there is none."""
        return self._asked(command, *args)

    def plan(self, digest: bytes) -> Plan:
        """Return a stored plan; raises `UnknownRunError` when it isn't kept."""
        return self._plan(digest)

    def _asked(self, command: str, *args: Any, **options: Any) -> Any:
        try:
            return getattr(self._bytes, command)(*args, **options)
        except FAILURES as error:
            if (told := unavailable(error)) is not None:
                raise told from error
            raise

    def _key(self, kind: str, name: str) -> str:
        return f"{self.prefix}{kind}:{name}"

    def run(self, run_id: str) -> RunRecord | None:
        """Return a run's record, or None when it is unknown or no longer kept."""
        self.send_waiting(self.groups.of_run(run_id))
        raw = self._asked("hgetall", self._key("r", run_id))
        if not raw and (kept := self.kept.find(run_id)) is not None:
            return kept
        raw = raw or self._asked("hgetall", self._key("r", run_id))  # between the two looks it may have been started
        if not raw:
            return None
        box = self._asked("get", self._key("b", run_id)) or b""
        f = {name.decode(): value for name, value in raw.items()}
        text = {name: f.get(name, b"").decode() for name in ("n", "i", "k", "o", "c", "s", "z", "y")}
        steps = tuple(wire.parse_record(f[f"S{n}"]) for n in range(1, int(f.get("S", 0)) + 1))
        children = tuple(f[f"K{n}"].decode() for n in range(1, int(f.get("K", 0)) + 1))
        record = RunRecord(
            run_id, text["n"] or wire.PIPE, text["i"], text["k"], text["o"] or run_id, text["c"],
            STATES[text["s"]], text["z"], text["y"], int(f["b"]) / 1000, int(f.get("e", 0)) / 1000, steps, children,
            box.decode(), int(f.get("a", 0)), "" if text["z"] else f.get("h", b"").decode(),
        )  # fmt: skip
        return record if "d" in f else completed(record, self.archive)

    def lane_holder(self, key: str) -> str:
        """Return the run whose tree is served in a lane, "" when none is."""
        held = self._asked("hget", f"{self.prefix}lanes", key)
        return held.split()[0].decode() if held else ""

    def wait(self, run_id: str, timeout: float) -> RunRecord:
        """Wait until a run's tree has finished: told by a message, and checked for the case it was missed."""
        try:
            record = self._awaited(run_id, time.monotonic() + timeout)
        except FAILURES as error:
            if (told := unavailable(error, f"so run {run_id} can't be waited for")) is not None:
                raise told from error
            raise
        if record is not None:
            return record
        raise RunTimeoutError(
            f"run {run_id} has not ended within {timeout:g} s; it goes on: wait longer, or see `lumia trace {run_id}`"
        )

    def _awaited(self, run_id: str, end: float) -> RunRecord | None:
        pubsub: Any = self.redis.pubsub  # untyped in redis-py
        with pubsub(ignore_subscribe_messages=True) as listener:
            listener.subscribe(f"{self.prefix}done")
            while True:
                record = self.run(run_id)
                if record is None:
                    raise UnknownRunError(f"run {run_id} is unknown here, or ended longer ago than runs are kept")
                if record.finished:
                    return record
                if time.monotonic() >= end:
                    return None
                self._listen(listener, run_id, min(1.0, end - time.monotonic()))

    def _listen(self, listener: Any, run_id: str, seconds: float) -> None:
        until = time.monotonic() + max(0.01, seconds)
        while (left := until - time.monotonic()) > 0:
            message = listener.get_message(timeout=left)
            if message is not None and message["data"] == run_id.encode():
                return

    def cancel(self, run_id: str, reason: str) -> bool:
        """End a run and its attached children as cancelled, at their next commit or at once."""
        self.send_waiting(self.groups.of_run(run_id))
        keep, why = int(self.limits.keep_runs * 1000), clean(reason) or "cancelled"
        asked = (run_id, why, secrets.token_hex(8), keep, self.limits.journal_bytes)
        answer = self.call("cancel", *asked)
        if answer == b"unknown" and self.kept.cancel(run_id, why):
            return True
        if answer == b"unknown":  # between the two it may have left the inbox
            answer = self.call("cancel", *asked)
        if answer == b"unknown":
            raise UnknownRunError(f"run {run_id} is unknown here, or ended longer ago than runs are kept")
        if answer == b"ended":
            return False
        record = self.run(run_id)
        if record is not None:  # the script's own end of a run says why, not when that was asked for
            told = JournalEntry(CANCEL, run_id, record.root_id, record.id, record.key, reason=why)
            self.call("note", self.limits.journal_bytes, told.dump())
        return True

    def lanes(self, pattern: str = "*", limit: int = 1000) -> LaneReport:
        """Return the lanes that are not idle and whose key matches, and the totals of all; read while they go on."""
        try:
            return lanes.report(self.redis, self.prefix, pattern, limit)
        except FAILURES as error:
            if (told := unavailable(error)) is not None:
                raise told from error
            raise

    def limit(self, name: str, rate: Rate) -> Verdict:
        """Count one more under `name` if `rate` allows it now; an answer that gets lost may cost a place."""
        wait = float(self.call("limit", json.dumps(wire.rate(name, rate)))) / 1000
        return Verdict(not wait, wait)

    def waiting(self, key: str, count: int, most: int, *, newest: bool) -> list[tuple[str, str, float, str]]:
        """Return (run, id, start, Box wire) of runs that wait in a lane, oldest first."""
        reply = [item.decode() for item in self.call("waiting", key, count, most, int(newest))]
        rows = zip(*(reply[column::4] for column in range(4)), strict=True)
        return [(run_id, id, int(begun) / 1000, wire) for run_id, id, begun, wire in rows]

    def read(self, key: str, last: int | None = None) -> tuple[str, Any]:
        """Return (type, value) of a store key; last: of a list only so many of its newest items."""
        name = f"{self.prefix}s:{key}"
        try:
            value: bytes | None = self._scripts.ask("GET", name)
        except ResponseError:
            return self._read_other(name, last)
        except AWAY as error:
            raise unavailable(error) or error from error
        return ("none", None) if value is None else ("value", value.decode())

    def _read_other(self, name: str, last: int | None) -> tuple[str, Any]:
        kind = self._asked("type", name)
        if kind == b"list":
            first = 0 if last is None else -last or 1  # from 1 to 0 is nothing
            return "list", [item.decode() for item in self._asked("lrange", name, first, -1 if first < 1 else 0)]
        if kind == b"hash":
            return "hash", {k.decode(): v.decode() for k, v in self._asked("hgetall", name).items()}
        return "none", None

    def write(self, ops: Sequence[StoreOp]) -> None:
        """Apply store writes at once, all or none."""
        _check_store(self.call("write", wire.store_ops(ops), secrets.token_hex(8)))

    # --- journal, routes, dead letters

    def tail(self, after: str, timeout: float, limit: int) -> list[JournalEntry]:
        """Return entries after a cursor, waiting up to `timeout` seconds for one."""
        block = max(1, int(timeout * 1000)) if timeout > 0 else None
        reply = self._asked("xread", {f"{self.prefix}journal": after}, count=limit, block=block)
        found: list[JournalEntry] = []
        for _, rows in reply or []:
            for id_, row in rows:
                found += stream_row(id_, row).entries()
        return found

    def cursor(self) -> str:
        """Return the journal's newest cursor, to be passed to `tail`."""
        newest = self._asked("xrevrange", f"{self.prefix}journal", count=1)
        return newest[0][0].decode() if newest else "0"

    def history(self) -> MergedHistory:
        """Return the recorded runs: those of the stream, then those of the archive."""
        stream: History = StreamHistory(self._asked, f"{self.prefix}journal")
        return MergedHistory([stream] if self.archive is None else [stream, self.archive])

    def publish(self, table: RouteTable, *, deployment: int | None = None) -> RouteTable:
        """Publish a route table."""
        self._asked("sadd", f"{self.prefix}queues", *table.queues)
        number = int(self.call("publish", table.dump(), "" if deployment is None else deployment))
        if number < 0:
            raise StaleRoutesError(f"these are the routes of deployment {deployment}, and another one is active by now")
        return replace(table, number=number)

    def deployments(self) -> RedisDeployments:
        """Return what keeps the deployments of the bot."""
        return RedisDeployments(self)

    def queues(self) -> list[str]:
        """Return every queue ever published: runs planned before a plugin was removed still come to its queue."""
        return sorted(name.decode() for name in self._asked("smembers", f"{self.prefix}queues"))

    def routes(self) -> RouteTable | None:
        """Return the published route table."""
        number, text = self._asked("hmget", f"{self.prefix}routes", ("number", "table"))
        return None if text is None else RouteTable.load(int(number), text.decode())

    def routes_number(self) -> int:
        """Return the number of the published route table, 0 for none."""
        return int(self._asked("hget", f"{self.prefix}routes", "number") or 0)

    def dead(self, wanted: DeadFilter = ANY) -> list[DeadLetter]:
        """Return the dead letters that are wanted, newest first."""
        return letters.read(self._asked, self.prefix, wanted)

    def dead_retry(self, letter: DeadLetter, requests: Sequence[RunRequest], entry: JournalEntry) -> bool:
        """Start these in a letter's place; False, and nothing is started, when the letter is gone."""
        head = self._taking(letter, entry)
        reply = self._with_plans(requests, lambda *runs: self.call("dead", *head, *runs))
        return bool(reply[0] == b"ok")

    def dead_drop(self, letter: DeadLetter, entry: JournalEntry) -> bool:
        """Remove a letter; False when it is gone."""
        return bool(self.call("dead", *self._taking(letter, entry))[0] == b"ok")

    def _taking(self, letter: DeadLetter, entry: JournalEntry) -> list[Any]:
        keep = int(self.limits.keep_runs * 1000)
        return [letter.name, entry.dump(), self.limits.journal_bytes, letters.call_id(), keep]

    def health(self) -> Health:
        """Tell whether the transport works; never raises."""
        try:
            self.redis.ping()
            seconds = int(self._bytes.time()[0])
            fresh = self._bytes.zrangebyscore(self.prefix + WORKERS, seconds - FRESH_SECONDS, "+inf")
            stats = {name.decode(): int(value) for name, value in self._bytes.hgetall(f"{self.prefix}stats").items()}
            figures = measure(self._bytes.execute_command, self.prefix)
            stats["inbox"] = int(self._bytes.llen(f"{self.prefix}inbox"))
        except (OSError, RedisError) as error:
            return Health(False, detail=str(unavailable(error) or error))
        return Health(True, tuple(sorted(name.decode() for name in fresh)), counters=stats | figures.counters())

    def close(self) -> None:
        """Release the connections."""
        self._scripts.close()
        self._close_brisk()
        self.redis.close()
        if self.archive is not None:
            self.archive.close()


def _patiently(what: str, ask: Callable[..., T], *args: Any) -> T:
    """Return what `ask(*args)` gives, on which a claim depends: an absence of Redis, up to a limit, only delays it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask(*args)
        except BackendUnavailableError as error:
            if time.monotonic() >= until:
                raise
            log.warning("%s is tried again: %s", what, error)
            time.sleep(PAUSE_SECONDS)


def _check_store(reply: Sequence[bytes]) -> None:
    if reply[0] == b"refused":
        raise StoreError(f"store key {reply[1].decode()} holds a {reply[2].decode()}; use another key or delete it")
