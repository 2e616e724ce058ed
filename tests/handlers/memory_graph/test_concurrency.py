"""Eight processes write at once and one is killed: no row is lost, none is there twice, nobody waits in a circle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from handlers.memory_graph.database import Database
from tests.handlers.memory_graph.samples import DIMENSION, MODEL, one, rows
from tests.support.wait import until

pytestmark = [pytest.mark.services, pytest.mark.slow]

WRITERS, MESSAGES = 8, 40
CODE = """
import os, random, sys
from handlers.memory_graph import facts, forgetting, people, writing
from handlers.memory_graph.database import Database
from handlers.memory_graph.types import Origin, Scope
from tests.handlers.memory_graph.samples import NOW, observation

url, schema, writer, last, beside = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
children = []
for other in range(beside):  # processes of their own, without a start of Python for each
    child = os.fork()
    if child == 0:
        writer, children = writer + 1 + other, []
        break
    children.append(child)
database = Database(url, model=%r, dimension=%d, schema=schema)
chance = random.Random(writer)
scopes = [Scope("bot", f"chat {n}") for n in range(3)] + [Scope("bot")]
topics = [f"topic {n}" for n in range(12)]
for number in range(last):
    batch = [
        observation(f"text {writer} {number} {part}", number * 10 + part, scope=chance.choice(scopes),
                    run=f"run-{writer}-{number}-{part}", message_id=f"{writer}-{number}-{part}", sender=f"p{part}",
                    topics=[(name, 1.0) for name in chance.sample(topics, 4)])
        for part in range(3)
    ]
    with database.transaction() as connection:
        writing.observe_many(connection, batch, embedder=database.embedder_id, now=NOW)
    with database.transaction() as connection:
        ids = [id for (id,) in connection.execute("SELECT id FROM memory_topics ORDER BY random() LIMIT 5")]
        origin = Origin(f"run-{writer}-{number}", 1)
        facts.strengthen(connection, batch[0].scope, ids, origin=origin, now=NOW)
        people.relate(connection, batch[0].scope, "p0", "p1", "friend", 0.01, origin=Origin(origin.run_id, 2), now=NOW)
    print(number, flush=True)
database.close()
for child in children:
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
"""


def start(database: Database, writer: int, last: int, beside: int = 0) -> subprocess.Popen[str]:
    """Start a process that writes `last` batches; beside: and so many more writers, numbered after it."""
    code = CODE % (MODEL, DIMENSION)
    command = [sys.executable, "-c", code, database.url, database.schema, *map(str, (writer, last, beside))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    """Return what writers complained about."""
    error = process.communicate()[1]
    return error or (f"exit code {process.returncode}" if process.returncode else "")


def test_nothing_is_lost_and_nothing_is_doubled(database: Database) -> None:
    database.prepare()
    victim = start(database, 0, 10_000)
    others = start(database, 1, MESSAGES, beside=WRITERS - 2)
    mine = "SELECT count(*) FROM memory_instances WHERE run_id LIKE 'run-0-%%'"
    until(lambda: one(database, mine) >= 30, timeout=60, what="the victim has written")
    os.kill(victim.pid, signal.SIGKILL)
    reported = len(victim.communicate()[0].split())
    assert ended(others) == ""
    assert one(database, mine) >= 3 * reported
    # What was killed is tried again, as a step is, from before what it had reported.
    assert ended(start(database, 0, reported + 5)) == ""
    expected = 3 * ((WRITERS - 1) * MESSAGES + reported + 5)
    assert one(database, "SELECT count(*) FROM memory_instances") == expected
    assert one(
        database, "SELECT count(DISTINCT (run_id, step, ordinal)) FROM memory_writes WHERE kind = 'message'"
    ) == (expected)
    assert_consistent(database)


def assert_consistent(database: Database) -> None:
    """Every count that is kept beside the rows is the number of those rows."""
    assert rows(
        database,
        "SELECT s.chat FROM memory_scopes s WHERE (s.instances, s.next_seq, s.tokens) <> (SELECT count(*), "
        "coalesce(max(seq) + 1, 0), coalesce(sum(length), 0) FROM memory_instances i WHERE i.scope_id = s.id)",
    ) == []  # fmt: skip
    assert one(database, "SELECT count(*) - count(DISTINCT (scope_id, seq)) FROM memory_instances") == 0
    assert rows(
        database,
        "SELECT t.topic_name FROM memory_topics t WHERE t.mentions <> (SELECT count(*) FROM memory_mentions m "
        "WHERE m.topic_id = t.id)",
    ) == []  # fmt: skip
    assert rows(
        database,
        "SELECT p.person FROM memory_people p WHERE p.messages <> (SELECT count(*) FROM memory_instances i "
        "WHERE i.scope_id = p.scope_id AND i.sender = p.person)",
    ) == []  # fmt: skip
    texts = rows(database, "SELECT content FROM memory_instances")
    assert one(database, "SELECT count(*) FROM memory_terms") == sum(len(set(text.split())) for (text,) in texts)
    assert one(database, "SELECT count(*) FROM memory_relation_changes") == one(
        database, "SELECT coalesce(sum(changes), 0) FROM memory_relations"
    )
