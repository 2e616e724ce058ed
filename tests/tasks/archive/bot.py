"""Runs written by the transport's own scripts, and archivers driven until there is nothing more to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lumia.journal import JournalEntry
from lumia.ports import Claim, Commit
from tasks.archive.archiver import Archiver
from tasks.transport import RedisTransport
from tests.tasks.test_scripts import claimed, request
from tests.tasks.test_scripts import done as bare

WIRE = '{"j":' + '"' + "x" * 190 + '"}'


def done(claim: Claim, action: str = "next", **options: Any) -> Commit:
    """Return the commit of a step whose entry says what a worker's would."""
    commit = bare(claim, action, **options)
    return replace(commit, entry=replace(commit.entry, key=claim.key, outcome=commit.record.outcome, attempt=1))


def finished(transport: RedisTransport, steps: int = 1, **options: Any) -> str:
    """Run one run of `steps` steps from start to end; returns its id."""
    run = transport.start([request(**options)])[0].run_id
    claim = claimed(transport)
    for _ in range(steps - 1):
        following = transport.commit(claim, done(claim, fuse=True))
        assert following is not None
        claim = following
    transport.commit(claim, done(claim, "end"))
    return run


def all_entries(transport: RedisTransport) -> list[JournalEntry]:
    """Return everything that is in the stream."""
    return transport.tail("0", 0, 100_000)


def drive(archiver: Archiver, most: int = 500) -> None:
    """Let it work until it is idle."""
    for _ in range(most):
        if archiver.turn() > 0:
            return
    raise AssertionError("the archiver never comes to rest")
