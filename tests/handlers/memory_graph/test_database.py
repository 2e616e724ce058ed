"""Getting at the database: what is wrong is told apart, and each error says the way out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from handlers.memory_graph import evaluate
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import (
    DatabaseAwayError,
    EmbedderError,
    ExtensionError,
    MemoryUnavailableError,
    ReadOnlyError,
    SchemaError,
)  # fmt: skip
from handlers.memory_graph.types import Scope
from lumia.checks import findings
from lumia.testing import Bot
from tests.handlers.memory_graph.samples import DIMENSION, MODEL, NOW, Words, one, rows, say
from tests.support import servers
from tests.support.wait import until

pytestmark = pytest.mark.services

PLUGIN = Path(__file__).parents[3] / "handlers" / "memory_graph"
NOWHERE = "postgresql://lumia:secret-word@127.0.0.1:9/lumia"


def memory(url: str, schema: str = "public", dimension: int = DIMENSION, model: str = MODEL, **more: Any) -> Database:
    return Database(url, model=model, dimension=dimension, schema=schema, **more)


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    """A database of its own without pgvector."""
    name = f"memory_test_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    yield postgres_url.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


def test_nothing_is_opened_before_it_is_used() -> None:
    unreachable = memory(NOWHERE)
    unreachable.close()
    with pytest.raises(MemoryUnavailableError), unreachable.transaction():
        pass


def test_second_connections_are_few_and_none_is_given_where_none_is_to_be_had(postgres_url: str) -> None:
    with evaluate.throwaway(postgres_url, Words()) as database, ExitStack() as lent:
        given = [lent.enter_context(database.beside()) for _ in range(6)]
        assert [one is not None for one in given] == [True] * 4 + [False] * 2
        lent.close()
        with database.beside() as again:
            assert again is not None
    with memory(NOWHERE).beside() as nothing:
        assert nothing is None


@pytest.mark.parametrize(
    "url, way_out",
    [
        ("", "lumia up"),
        (NOWHERE, "correct LUMIA_DATABASE_URL"),
        ("mysql://here", "postgresql://user:password@host"),
        ("lumia:secret-word@here/lumia", "postgresql://user:password@host"),
    ],
)
def test_a_database_that_is_not_there_says_what_to_do(url: str, way_out: str) -> None:
    with pytest.raises(DatabaseAwayError, match=way_out) as caught, memory(url).transaction():
        pass
    assert "secret-word" not in "".join(traceback.format_exception(caught.value))


def test_a_database_that_was_away_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    database, tries, connect = memory(NOWHERE), [], psycopg.connect

    def counted(**options: Any) -> Any:
        tries.append(options["host"])
        return connect(**options)

    monkeypatch.setattr(psycopg, "connect", counted)
    for _ in range(5):
        with pytest.raises(DatabaseAwayError), database.transaction():
            pass
    assert len(tries) == 1


def test_the_tables_are_made_by_the_first_use_in_a_database_without_anything(empty_url: str) -> None:
    database = memory(empty_url)
    assert say(database, "hello").outcome == "new"
    database.close()


def test_an_account_that_may_not_install_pgvector_is_told_who_may(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    url = empty_url.replace(empty_url.split("//")[1].split("@", maxsplit=1)[0], "guest:guest")
    monkeypatch.setenv("LUMIA_DATABASE_URL", url)
    with Bot(PLUGIN) as bot:
        assert bot.runtime.plugins is not None
        ((_, told),) = [one for one in findings(bot.runtime.plugins) if one[0] == "memory-graph"]
    assert (told.level, told.fix) == ("risk", "let a superuser run CREATE EXTENSION vector there")
    with pytest.raises(ExtensionError, match="superuser run CREATE EXTENSION vector"), memory(url).transaction():
        pass
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    with pytest.raises(SchemaError, match="grant"), memory(url).transaction():
        pass
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY guest; DROP ROLE guest")


def test_a_server_without_pgvector_is_told_apart(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = psycopg.Connection.execute

    def without(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        renamed = query.replace("EXTENSION vector", "EXTENSION no_such_thing") if isinstance(query, str) else query
        return execute(self, renamed, *args, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", without)
    with (
        pytest.raises(ExtensionError, match=r"has no pgvector; install pgvector 0\.8"),
        memory(empty_url).transaction(),
    ):
        pass


def test_pgvector_that_was_removed_while_the_bot_runs_is_told(empty_url: str) -> None:
    database = memory(empty_url)
    database.prepare()
    database.close()
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("DROP EXTENSION vector CASCADE")
    with pytest.raises(ExtensionError, match="pgvector is gone"), database.transaction():
        pass
    restarted = memory(empty_url)
    with pytest.raises(ExtensionError, match=r"pgvector was removed .* restore a dump"), restarted.transaction():
        pass
    restarted.close()


def test_a_read_only_database_can_be_read_and_says_why_it_takes_nothing(database: Database) -> None:
    say(database, "hello")
    reader = memory(f"{database.url}?options=-c%20default_transaction_read_only%3Don", database.schema)
    assert one(reader, "SELECT content FROM memory_instances") == "hello"
    with pytest.raises(ReadOnlyError, match="primary"):
        say(reader, "more", 2)
    reader.close()


def test_a_new_database_that_is_read_only_says_so(postgres_url: str, schema: str) -> None:
    reader = memory(f"{postgres_url}?options=-c%20default_transaction_read_only%3Don", schema)
    with pytest.raises(ReadOnlyError, match="primary"), reader.transaction():
        pass


def test_vectors_of_another_model_are_refused(database: Database) -> None:
    database.prepare()
    for other in (
        Database(database.url, model="other", dimension=DIMENSION, schema=database.schema),
        Database(database.url, model=MODEL, dimension=8, schema=database.schema),
    ):
        with pytest.raises(EmbedderError, match="lumia memory rebuild"), other.transaction():
            pass


@pytest.mark.parametrize("dimension", [0, 2001])
def test_a_dimension_that_cant_be_indexed_is_refused(postgres_url: str, schema: str, dimension: int) -> None:
    with pytest.raises(SchemaError, match="fewer dimensions"), memory(postgres_url, schema, dimension).transaction():
        pass


def test_a_schema_whose_name_could_be_code_is_refused() -> None:
    with pytest.raises(SchemaError, match="a-z"):
        memory(NOWHERE, "x; DROP TABLE y")


def test_errors_of_the_caller_pass_through_and_undo_the_transaction(database: Database) -> None:
    def fails() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO memory_scopes (bot, chat) VALUES ('x', 'y')")
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert one(database, "SELECT count(*) FROM memory_scopes") == 0


def test_connections_are_reused_and_broken_ones_replaced(database: Database) -> None:
    first = one(database, "SELECT pg_backend_pid()")
    assert one(database, "SELECT pg_backend_pid()") == first
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", (first,))
    with pytest.raises(DatabaseAwayError):
        one(database, "SELECT 1")
    assert one(database, "SELECT pg_backend_pid()") != first


def test_threads_have_connections_of_their_own(database: Database) -> None:
    database.prepare()
    barrier, found = threading.Barrier(4), []

    def ask() -> None:
        with database.transaction() as connection:
            barrier.wait(10)
            found.append(connection.info.backend_pid)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4


def test_a_forked_child_leaves_its_parents_connection_alone(database: Database) -> None:
    code = f"""
import os, sys
from handlers.memory_graph import evaluate
from handlers.memory_graph.database import Database
database = Database({database.url!r}, model={MODEL!r}, dimension={DIMENSION}, schema={database.schema!r})
def backend():
    with database.transaction() as connection:
        return connection.execute("SELECT pg_backend_pid()").fetchone()[0]
mine = backend()
pid = os.fork()
if pid == 0:
    os._exit(0 if backend() != mine else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), backend() == mine)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]


def test_a_frozen_server_is_given_up_in_time_and_used_again_when_it_thaws(tmp_path: Path) -> None:
    with servers.postgres(tmp_path) as server:
        database = memory(server.url, limit=0.3)
        database.prepare()
        backend = one(database, "SELECT pg_backend_pid()")
        for pid in (server.pid, backend):
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(DatabaseAwayError, match="does not answer"):
                one(database, "SELECT 1")
        finally:
            for pid in (backend, server.pid):
                os.kill(pid, signal.SIGCONT)

        def works() -> bool:
            try:
                return bool(one(database, "SELECT 1"))
            except MemoryUnavailableError:
                return False

        until(works, timeout=20, what="the thawed server is used again")
        database.close()


def test_a_memory_in_a_schema_of_its_own_is_not_that_of_public(empty_url: str) -> None:
    with closing(memory(empty_url)) as public:
        say(public, "said in public")
    with (
        closing(memory(empty_url, schema="apart", model="")) as looking,
        pytest.raises(SchemaError, match="not there yet"),
    ):
        looking.prepare()
    with closing(memory(empty_url, schema="apart", dimension=8)) as apart, closing(memory(empty_url)) as public:
        apart.prepare()
        assert one(apart, "SELECT count(*) FROM memory_instances") == 0
        assert one(public, "SELECT count(*) FROM memory_instances") == 1


def test_an_evaluation_leaves_the_memory_of_its_database_alone(empty_url: str) -> None:
    turn = evaluate.Turn("D1:1", "Ann", "my sister moved to Lisbon", NOW)
    with closing(memory(empty_url)) as public:
        say(public, "said in public")
        with evaluate.throwaway(empty_url, Words()) as database:
            said = evaluate.Conversation("one", (turn,), ())
            evaluate.write(database, Scope("evaluation", "one"), said, Words())
            assert one(database, "SELECT count(*) FROM memory_instances") == 1
        assert rows(public, "SELECT content FROM memory_instances") == [("said in public",)]
