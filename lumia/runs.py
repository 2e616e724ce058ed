"""`lumia.runs`: the result of a run, waiting for it, and the journal as it grows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lumia.errors import LumiaError, UnknownRunError

if TYPE_CHECKING:
    from lumia.journal import JournalEntry
    from lumia.ports import RunRecord, StepRecord


@dataclass(frozen=True)
class StepResult:
    """One step of a run tree. ms: its duration in milliseconds."""

    handler: str
    outcome: str
    reason: str
    ms: float


@dataclass(frozen=True)
class RunResult:
    """What a run tree came to. outcome: done, stopped, blocked, failed or cancelled; None while it runs.

    replies: the texts of its `msg.send` events, in order. steps: of the whole tree. ms: from start to the last end.
    """

    run_id: str
    outcome: str | None
    reason: str
    replies: list[str]
    steps: list[StepResult]
    ms: float

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form that `--wait --json` prints."""
        packed = asdict(self)
        del packed["reason"]
        return packed


def result(run_id: str) -> RunResult | None:
    """Return the result so far of a run and everything it caused, or None for an unknown run."""
    bot = _bot()
    records = list(_tree(bot.transport, run_id))
    return _result(bot.secret, records) if records else None


def wait(run_id: str, timeout: float = 30.0) -> RunResult:
    """Wait until a run and its attached children have ended; raises `RunTimeoutError` after `timeout` seconds."""
    bot = _bot()
    bot.transport.wait(run_id, timeout)
    found = result(run_id)
    if found is None:
        raise UnknownRunError(
            f"run {run_id} ended, and its record was dropped before it could be read: raise [runs] keep"
        )
    return found


async def wait_async(run_id: str, timeout: float = 30.0) -> RunResult:  # noqa: ASYNC109 (the limit is the transport's)
    """Wait like `wait`, without blocking the event loop."""
    import asyncio  # a caller has it; everybody else is spared it

    return await asyncio.to_thread(wait, run_id, timeout)


def tail(after: str = "$", timeout: float = 1.0, limit: int = 200) -> list[JournalEntry]:
    """Return journal entries after a cursor ("$": only new ones, "0": all), waiting up to `timeout` seconds for one."""
    entries: list[JournalEntry] = _bot().transport.tail(after, timeout, limit)
    return entries


def cursor() -> str:
    """Return the journal's newest position: `tail` from there misses nothing that happens from now on."""
    return str(_bot().transport.cursor())


def _bot() -> Any:
    from lumia import runtime

    return runtime.current()


def _tree(transport: Any, run_id: str) -> Iterator[RunRecord]:
    """Yield a run and what it caused, parents before children; a detached run is the root of another tree."""
    root, left = None, [run_id]
    while left:
        record = transport.run(left.pop())
        if record is None or (root is not None and record.root_id != root.root_id):
            continue
        root = root or record
        yield record
        left += reversed(record.children)


def _result(secret: bytes, records: list[RunRecord]) -> RunResult:
    root = records[0]
    ended = max((record.ended for record in records), default=0.0) if root.finished else 0.0
    steps = [_step(step) for record in records for step in record.steps]
    replies = [_reply(secret, record) for record in records if record.id.startswith("msg.send")]
    outcome = root.outcome if root.finished else None
    ms = round(max(0.0, ended - root.started) * 1000, 3)
    return RunResult(root.run_id, outcome, root.reason, replies, steps, ms)


def _step(step: StepRecord) -> StepResult:
    return StepResult(step.handler, step.outcome, step.reason, step.ms)


def _reply(secret: bytes, record: RunRecord) -> str:
    from lumia.box import Box
    from lumia.payloads import text_of

    try:
        return text_of(Box.load(record.box, secret).into())
    except LumiaError as error:
        return f"<unreadable reply: {error}>"
