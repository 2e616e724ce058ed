"""The scripts of the journal's stream: whatever happens, the counts are right and nothing unarchived goes unsaid."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumia.journal import JournalEntry
from lumia.ports import Limits
from tasks.archive.rows import position
from tasks.archive.stream import Stream
from tasks.transport import RedisTransport
from tests.tasks.archive.bot import finished

ENTRY_BYTES = 24
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("note"), st.integers(1, 900)),
        st.tuples(st.just("archive"), st.integers(1, 9)),
        st.tuples(st.just("trim"), st.integers(0, 3000)),
    ),
    max_size=40,
)


def rows(stream: Stream) -> list[Any]:
    redis: Any = stream.transport.redis
    return list(redis.xrange("lumia:journal"))


def counted(stream: Stream) -> int:
    return sum(ENTRY_BYTES + sum(len(name) + len(text) for name, text in fields.items()) for _, fields in rows(stream))


@given(STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_and_lag_are_counted_right_whatever_happens(stream: Stream, steps: list[tuple[str, int]]) -> None:
    stream.transport.redis.flushdb()
    stream.transport.limits = Limits(journal_bytes=5000)
    written = kept = 0
    for what, number in steps:
        if what == "note":
            stream.note(JournalEntry("step", "r", "r", reason="x" * number))
            written += 1
        elif what == "archive":
            since = stream.archived()
            found = stream.read(since, number)
            if found:
                assert stream.advance(since, found[-1].cursor, len(found))
                kept += sum(entry.kind == "step" for row in found for entry in row.entries())
        else:
            stream.trim(stream.archived(), "0-0", number)
        assert stream.bytes() == counted(stream) <= 5000
        places = [position(cursor.decode()) for cursor, _ in rows(stream)]
        assert stream.measures().lag == sum(place > position(stream.archived()) for place in places)
    left = stream.read(stream.archived(), 1000)
    waiting = sum(entry.kind == "step" for row in left for entry in row.entries())
    alarms = stream.measures().alarms
    assert (written > kept + waiting) == bool(alarms)


def test_the_archive_is_only_advanced_from_where_it_is(transport: RedisTransport, stream: Stream) -> None:
    finished(transport)
    found = stream.read("0-0", 10)
    assert not stream.advance("1-1", found[-1].cursor, len(found)) and stream.archived() == "0-0"
    assert stream.advance("0-0", found[-1].cursor, len(found))
    assert not stream.advance("0-0", found[0].cursor, 1) and stream.archived() == found[-1].cursor


def test_nothing_is_trimmed_that_is_not_archived(transport: RedisTransport, stream: Stream) -> None:
    finished(transport)
    assert stream.trim("9999999999999-0", "9999999999999-0", 0) == 0 and stream.length() == 2


def test_a_gap_tells_what_is_missing(transport: RedisTransport, stream: Stream) -> None:
    transport.limits = Limits(journal_bytes=3000)
    finished(transport)
    first = rows(stream)
    for _ in range(30):
        finished(transport)
    gaps = [entry for row in stream.read("0-0", 1000) for entry in row.entries() if entry.kind == "gap"]
    detail = gaps[-1].detail
    assert detail["entries"] > 0 and detail["bytes"] > 0 and detail["since"] <= detail["until"]
    assert position(detail["first"]) >= position(first[0][0].decode())
    assert position(detail["last"]) < position(rows(stream)[0][0].decode())


def test_a_lease_is_one_processs_until_its_time_is_over(transport: RedisTransport, stream: Stream) -> None:
    other = Stream(RedisTransport(transport.redis, worker="else:9:zz"))
    assert stream.lease() and stream.lease() and not other.lease()
    assert stream.holder_host() == "host"
    transport.redis.pexpire("lumia:journal:lease", 1)
    from tests.support.wait import until

    until(other.lease, what="the lease to end")
    assert not stream.lease()


@pytest.mark.parametrize("text", ["a", "ä" * 50, "x" * 5000])
def test_an_entry_counts_its_bytes(stream: Stream, text: str) -> None:
    stream.note(JournalEntry("step", "r", "r", reason=text))
    assert stream.bytes() == counted(stream)
