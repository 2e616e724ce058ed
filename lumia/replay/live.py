"""Live replay: recorded runs started again as new ones, by the workers there are, with what is true today.

Each gets its recorded Box, a lane of its own and the cause `replay/<run>`. Unless sends are wanted, neither the run nor
anything it starts reaches a chat, see `lumia.held`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lumia import system
from lumia.errors import PayloadError, StaleRoutesError
from lumia.held import plan_of
from lumia.marks import MAX_NAME
from lumia.ports import RunRequest
from lumia.replay.records import RecordedTree, readable
from lumia.runtime import Runtime

PRIORITY = 6
"""Low: live traffic is served first."""
LANE = "replay/"
"""Before the recorded lane's name: a replay neither waits for the live lane nor holds it up."""
CAUSE = "replay/"


@dataclass(frozen=True)
class Restarted:
    """A recorded run and the new one. why: why it was not started, "" when it was."""

    run_id: str
    new_id: str = ""
    why: str = ""


def restart(
    bot: Runtime, trees: Iterable[RecordedTree], *, send: bool, rate: float, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Restarted]:
    """Start the roots of `trees` again, at most `rate` a second; yields what became of each.

    Nothing deduplicates them: every call makes new runs.
    """
    due = time.monotonic()
    for tree in trees:
        why = _unfit(tree, bot.secret)
        if why:
            yield Restarted(tree.root_id, why=why)
            continue
        sleep(max(0.0, due - time.monotonic()))
        due = max(due, time.monotonic()) + 1 / rate
        yield Restarted(tree.root_id, _start(bot, tree, send=send))


def _unfit(tree: RecordedTree, secret: bytes) -> str:
    root = tree.runs.get(tree.root_id)
    if root is None or not root.begun:
        return "its beginning is not in the journal"
    return readable(root.box, secret)


def _start(bot: Runtime, tree: RecordedTree, *, send: bool) -> str:
    for _ in range(8):
        request = _request(bot, tree, hold=not send)
        try:
            started = bot.transport.start([request], routes=bot.table.number)
        except StaleRoutesError:
            bot.refresh_routes()
            continue
        return str(started[0].run_id)
    raise StaleRoutesError(f"run {tree.root_id}: the route table changed 8 times meanwhile; try again")


def _request(bot: Runtime, tree: RecordedTree, *, hold: bool) -> RunRequest:
    root, run_id = tree.root, system.new_id()
    found = bot.table.index.plan(root.flow, root.id)
    plan = plan_of(found.on(root.queue) if root.queue not in ("", found.queue) else found, root.id, hold=hold)
    if not plan.steps:
        raise PayloadError(f"run {root.run_id}: nothing handles {root.id!r} any more; `lumia handlers` lists all ids")
    return RunRequest(
        run_id, root.flow, root.id, plan, root.box, key=lane(root.key), cause=f"{CAUSE}{root.run_id}",
        root_id=run_id, attached=False, priority=PRIORITY, hold=hold,
    )  # fmt: skip


def lane(key: str) -> str:
    """Return the lane a replay of a run in lane `key` gets; its end tells chats apart, so that end is kept."""
    return LANE + key[-(MAX_NAME - len(LANE)) :] if key else ""
