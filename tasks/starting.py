"""Accepting runs in Redis: one start is one atomic script, many of them share a trip (DESIGN §5)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from redis.exceptions import ResponseError

from lumia.errors import BackendUnavailableError, LumiaError, StaleRoutesError
from lumia.ports import Limits, RunRequest, Started
from tasks import lanes, wire

NOT_FIRST = (b"gone", b"later")
"""Answers about a start that has left the inbox, or comes after another one that is not accepted yet."""
REFUSED = (b"stale", b"refused", b"full", b"limited", b"kept", *NOT_FIRST)
"""Answers of scripts that have stored no plan."""


class StartPort:
    """The starting part of `RedisTransport`, which it is mixed into."""

    limits: Limits
    worker: str
    call: Callable[..., Any]
    call_each: Callable[[str, Sequence[Sequence[Any]]], list[Any]]
    _stored: set[str]

    def start(self, requests: Sequence[RunRequest], *, routes: int | None = None) -> list[Started]:
        """Accept the requests in one atomic step."""
        head = self._head(routes)
        return _started(self._with_plans(requests, lambda *runs: self.call("start", head, *runs)), routes)

    def start_each(
        self, starts: Sequence[Sequence[RunRequest]], *, routes: int | None = None, kept: bool = False
    ) -> list[list[Started] | Exception]:
        """Accept several starts in one trip, each in an atomic step of its own, in this order.

        kept: each is in the inbox and leaves it in that step; for one that is not the first there the answer is empty.
        """
        head = self._head(routes, kept=kept)
        heads = [head] * len(starts) if kept else _in_turn(head, starts)  # the inbox is in order already
        calls = [[one, *self._runs(requests)] for one, requests in zip(heads, starts, strict=True)]
        replies = self.call_each("start", calls)
        again = [at for at, one in enumerate(replies) if _says(one, b"plan") or (_says(one, b"later") and not kept)]
        away: Exception | None = None
        if any(_says(one, b"plan") for one in replies):
            self._stored.clear()
        for at in again:  # one by one: by now it is known what became of those before it
            replies[at] = away or self._alone(head, starts[at])
            away = replies[at] if isinstance(replies[at], BackendUnavailableError) else None
        return [self._outcome(*one, routes) for one in zip(starts, replies, strict=True)]

    def _alone(self, head: str, requests: Sequence[RunRequest]) -> Any:
        try:
            return self._with_plans(requests, lambda *runs: self.call("start", head, *runs))
        except (BackendUnavailableError, ResponseError) as error:
            return error

    def _outcome(self, requests: Sequence[RunRequest], reply: Any, routes: int | None) -> list[Started] | Exception:
        if isinstance(reply, Exception):
            return reply
        self._keep_plans(requests, reply)
        try:
            return _started(reply, routes)
        except LumiaError as error:
            return error

    def _head(self, routes: int | None, *, kept: bool = False) -> str:
        limits = self.limits
        head = {"window": int(limits.dedup_window * 1000), "keep": int(limits.keep_runs * 1000),
                "limit": limits.journal_bytes}  # fmt: skip
        known = {} if routes is None else {"routes": routes}
        return json.dumps({**known, **head, **({"kept": True} if kept else {})})

    def _with_plans(self, requests: Sequence[RunRequest], send: Callable[..., Any]) -> Any:
        """Send runs with the plans Redis isn't known to have, and with all of them when it turns out to lack one."""
        reply = send(*self._runs(requests))
        if _says(reply, b"plan"):
            self._stored.clear()
            reply = send(*self._runs(requests))
        self._keep_plans(requests, reply)
        return reply

    def _keep_plans(self, requests: Sequence[RunRequest], reply: Any) -> None:
        if reply[0] not in REFUSED:
            self._stored.update(request.plan.digest for request in requests)

    def _runs(self, requests: Sequence[RunRequest]) -> list[str]:
        found = []
        for request in requests:
            with_plan = request.plan.digest not in self._stored
            found += [wire.run(request, self.limits, self.worker, with_plan=with_plan), request.box]
        return found


def _in_turn(head: str, starts: Sequence[Sequence[RunRequest]]) -> Iterator[str]:
    """Yield the header of each start; of several of one lane it says which one this is."""
    lanes = Counter(first.key for first, *_ in starts)
    begun = dict[str, tuple[str, int]]()
    for first, *_ in starts:
        if not first.key or lanes[first.key] == 1:
            yield head
            continue
        name, number = begun.get(first.key, (first.run_id, 0))
        begun[first.key] = name, number + 1
        yield f'{head[:-1]},"turn":{json.dumps(begun[first.key])}}}'


def _says(reply: Any, word: bytes) -> bool:
    return not isinstance(reply, Exception) and bool(reply[0] == word)


def _started(reply: Sequence[bytes], routes: int | None) -> list[Started]:
    if reply[0] in NOT_FIRST:
        return []
    if reply[0] == b"stale":
        raise StaleRoutesError(f"the plans were made with table {routes}, published is {reply[1].decode()}")
    lanes.check(reply)
    pairs = zip(reply[1::2], reply[2::2], strict=True)
    return [Started(run.decode(), duplicate=flag == b"1", joined=flag == b"j") for run, flag in pairs]
