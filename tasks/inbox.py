"""The inbox in Redis: starts that were accepted and are still to be planned (`lumia.ports.Inbox`, docs/redis.md).

`inbox` is the list of their runs, `kept` their text. A lease lets one process at a time take them out, so that they are
started in their order; each leaves in the atomic step that starts it, so that two never start one twice.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from lumia import inbox
from lumia.dead import DeadLetter
from lumia.errors import BackendUnavailableError, LumiaError, StaleRoutesError
from lumia.ids import id_time
from lumia.journal import entry_text
from lumia.marks import NORMAL
from lumia.ports import Kept, RunRecord
from tasks import letters

if TYPE_CHECKING:
    from lumia.ports import RunRequest
    from lumia.runtime import Runtime
    from tasks.transport import RedisTransport

AT_ONCE = 64
"""Starts of one trip: the broker answers nobody else while it executes one of their scripts."""
TEXT_AT_ONCE = 1 << 20
LEASE_SECONDS = 3.0
"""After a process has died without a word, another one goes on that much later."""
RENEW_SECONDS = 1.0
LISTEN_SECONDS = 0.5
"""How long news of the first start is listened for; then it is looked, for the case that they were missed."""
PAUSE_SECONDS = 0.5
LEASE = "inbox"
UNREADABLE = (LumiaError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError)
"""What reading a start's text may raise; any other error may be this process's alone."""
log = logging.getLogger("lumia")


class RedisInbox:
    """Implements `lumia.ports.Inbox`."""

    def __init__(self, transport: RedisTransport) -> None:
        self._transport = transport

    def keep(self, starts: Sequence[Kept]) -> tuple[int, list[str]]:
        """Store starts; returns how many were there before, and the run that serves each."""
        return _places(self._transport.call("keep", *self._rows(starts)))

    async def keep_here(self, starts: Sequence[Kept]) -> tuple[int, list[str]] | None:
        """Do so on the running event loop; None where it can't be told whether it was done."""
        answer = await self._transport.ask_here("keep", *self._rows(starts))
        return None if answer is None else _places(answer)

    async def leave(self) -> None:
        """Close the connection of the running event loop."""
        await self._transport.leave()

    def _rows(self, starts: Sequence[Kept]) -> list[Any]:
        rows: list[Any] = [int(self._transport.limits.dedup_window * 1000)]
        for one in starts:
            rows += one
        return rows

    def waiting(self) -> tuple[int, float]:
        """Return how many starts it holds, and the age of the first in seconds."""
        asked, key = self._transport.asked, f"{self._transport.prefix}inbox"
        number, first = int(asked("llen", key)), asked("lindex", key, 0)
        return number, max(0.0, time.time() - id_time(first.decode())) if first else 0.0

    def find(self, run_id: str) -> RunRecord | None:
        """Return the record of a start that is still here."""
        text = self._text(run_id)
        return None if text is None else _record(run_id, *_read(text)[0][:4])

    def oldest(self) -> list[tuple[str, str]]:
        """Return (run, text) of those that are next."""
        rows = [item.decode(errors="replace") for item in self._transport.call("peek", AT_ONCE, TEXT_AT_ONCE)]
        return list(zip(rows[::2], rows[1::2], strict=True))

    def cancel(self, run_id: str, reason: str) -> bool:
        """Take a start out of the inbox for good; False when it is not there."""
        text = self._text(run_id)
        return text is not None and self._take(run_id, text, "cancelled", reason)

    def bury(self, run_id: str, reason: str) -> bool:
        """Make a dead letter of a start that can't be made; False when it is not there."""
        text = self._text(run_id)
        return text is not None and self._take(run_id, text, "failed", reason)

    def _text(self, run_id: str) -> bytes | None:
        found: bytes | None = self._transport.asked("hget", f"{self._transport.prefix}kept", run_id)
        return found

    def _take(self, run_id: str, text: bytes, outcome: str, reason: str) -> bool:
        (flow, id, key, box, priority), beside = _read(text)
        named = (run_id, run_id, id, key)
        told, letter = [entry_text("start", *named, flow=flow)], ""
        if outcome == "failed":
            told.append(entry_text("dead", *named, reason=reason))
            letter = letters.packed(
                DeadLetter(run_id, 0, "", id, key, reason, 0, box, time.time(), run_id, flow=flow, priority=priority,
                           beside=beside)
            )  # fmt: skip
        told.append(entry_text("end", *named, outcome=outcome, reason=reason))
        record = json.dumps({"n": flow, "i": id, "k": key, "z": outcome, "y": reason})
        limits = self._transport.limits
        shown = box if id else ""  # what stands there of a text that can't be read is no Box
        head = (run_id, letters.call_id(), limits.journal_bytes, int(limits.keep_runs * 1000), record, shown)
        return bool(self._transport.call("unkeep", *head, letter, *told))


def _places(answer: Sequence[Any]) -> tuple[int, list[str]]:
    before, *runs = answer
    return int(before), [run.decode() for run in runs]


def _read(found: bytes) -> tuple[tuple[str, str, str, str, int], tuple[tuple[str, str], ...]]:
    """Return what a start's text tells; one that can't be read is kept as it stands where a Box would be."""
    text = found.decode(errors="replace")
    try:
        return inbox.head(text), inbox.beside(text)
    except UNREADABLE:
        return ("pipe", "", "", text, NORMAL), ()


def _record(run_id: str, flow: str, id: str, key: str, box: str) -> RunRecord:
    return RunRecord(
        run_id, flow, id, key, run_id, "", "waiting", "", "", id_time(run_id), 0.0, (), (), box
    )  # fmt: skip


class InboxThread:
    """Starts what the inbox holds. Every executing process has one; the lease lets one of them work."""

    def __init__(self, bot: Runtime, transport: RedisTransport) -> None:
        self._bot, self._transport = bot, transport
        self._inbox = RedisInbox(transport)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lumia-inbox", daemon=True)
        self._news: Any = None
        self._until = 0.0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let another process go on."""
        self._stop.set()
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._give_back()
        self._forget()

    def _run(self) -> None:
        with self._bot.activated():
            while not self._stop.is_set():
                try:
                    self._turn()
                except BackendUnavailableError as error:
                    self._fail("%s", error)
                except (RedisError, OSError) as error:
                    self._fail("starting what was accepted: %s", error)
                except LumiaError as error:
                    self._fail("starting what was accepted: %s", error)
                    self._hand_on()
                except Exception:
                    log.exception("starting what was accepted failed; another process may try, or this one again")
                    self._hand_on()

    def _fail(self, text: str, error: Exception) -> None:
        log.warning(text, error)
        self._until = 0.0
        self._forget()
        self._stop.wait(PAUSE_SECONDS)

    def _hand_on(self) -> None:
        """Let another process try what failed here: the reason may be this one's alone."""
        self._until = 0.0
        self._forget()
        self._give_back()
        self._stop.wait(2 * RENEW_SECONDS)

    def _give_back(self) -> None:
        with suppress(LumiaError, RedisError):
            self._transport.lease(LEASE, self._transport.worker, 0.0)

    def _turn(self) -> None:
        if not self._leads():
            self._forget()
            self._stop.wait(RENEW_SECONDS)
            return
        self._listen()
        waiting = self._inbox.oldest()
        if waiting:
            self._start(waiting)
        else:
            self._news.get_message(timeout=LISTEN_SECONDS)

    def _leads(self) -> bool:
        now = time.monotonic()
        if now >= self._until:
            held = self._transport.lease(LEASE, self._transport.worker, LEASE_SECONDS)
            self._until = now + RENEW_SECONDS if held else 0.0
        return self._until > 0.0

    def _listen(self) -> None:
        if self._news is None:
            news: Any = self._transport.redis.pubsub  # untyped in redis-py
            self._news = news(ignore_subscribe_messages=True)
            self._news.subscribe(f"{self._transport.prefix}mail")

    def _forget(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            with suppress(RedisError, OSError):
                news.close()

    # --- starting

    def _start(self, waiting: Sequence[tuple[str, str]]) -> None:
        """Start these in their order, up to the first one that has to wait."""
        table, runs = self._bot.table, list[str]()
        starts: list[list[RunRequest]] = []
        for run_id, text in waiting:
            try:
                requests = inbox.read(run_id, text, self._bot, table, max(0.0, time.time() - id_time(run_id)))
            except UNREADABLE as error:
                self._give_up(run_id, error)
                continue
            starts.append(requests)
            runs.append(run_id)
        answers = self._transport.start_each(starts, routes=table.number, kept=True)
        for run_id, answer in zip(runs, answers, strict=True):
            if isinstance(answer, StaleRoutesError):
                self._bot.refresh_routes()
                return
            if isinstance(answer, BackendUnavailableError):
                raise answer
            if isinstance(answer, Exception):
                self._give_up(run_id, answer)

    def _give_up(self, run_id: str, error: Exception) -> None:
        reason = f"accepted, and could not be started: {error}"
        if self._inbox.bury(run_id, reason):
            log.error("run %s: %s", run_id, reason)
