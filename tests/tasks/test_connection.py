"""A thread's own connection for scripts: timeouts by the kernel, and what happens when it breaks."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tasks.connection import Lines, LoopLines
from tasks.scripts import Scripts
from tasks.transport import connect
from tests.support import servers


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.valkey(tmp_path_factory.mktemp("lines")) as server:
        yield server.url


def test_each_thread_has_a_connection_and_keeps_it(url: str) -> None:
    lines, seen = Lines(connect(url)), []

    def ask() -> None:
        seen.append({lines.ask("CLIENT", "ID") for _ in range(3)})

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(ids) == 1 for ids in seen) and len(set.union(*seen)) == 3
    lines.close()


def test_a_server_that_does_not_answer_is_noticed_by_the_kernels_clock(url: str) -> None:
    other: Any = connect(url)
    lines = Lines(connect(url, timeout=0.2))
    assert lines.ask("PING") == b"PONG"
    other.execute_command("CLIENT", "PAUSE", "3000", "ALL")
    with pytest.raises((RedisTimeoutError, RedisConnectionError)):
        lines.ask("PING")
    other.execute_command("CLIENT", "UNPAUSE")
    assert lines.ask("PING") == b"PONG"
    lines.close()


def test_a_script_survives_a_cut_connection_and_a_server_that_forgot_it(url: str) -> None:
    redis: Any = connect(url)
    scripts = Scripts(redis, "lumia:")
    first = scripts("heartbeat", "worker", 1000)
    redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    redis.script_flush()
    assert scripts("heartbeat", "worker", 1000) >= first
    assert scripts.ask("GET", "lumia:beat:last") is not None
    scripts.close()


def test_a_forked_child_makes_its_own_connection(url: str) -> None:
    lines = Lines(connect(url))
    mine = lines.ask("CLIENT", "ID")
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, str(lines.ask("CLIENT", "ID")).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 20)) != mine
    assert lines.ask("CLIENT", "ID") == mine
    os.close(reading)
    os.close(writing)


def test_a_socket_file_and_an_encrypted_address_use_the_libraries_own_connection(tmp_path: Path) -> None:
    plain: Any = connect("redis://127.0.0.1:1/0").connection_pool.connection_class
    assert plain.__name__ == "TimedConnection"
    for address in (f"unix://{tmp_path}/x.sock", "rediss://127.0.0.1:1/0"):
        assert connect(address).connection_pool.connection_class is not plain


def test_a_loop_leaves_a_server_that_takes_no_more_without_an_error(url: str) -> None:
    async def play() -> None:
        lines = LoopLines(url)
        assert await lines.ask("ECHO", "x") == b"x"
        line = lines._mine[asyncio.get_running_loop()]
        close = line.aclose

        async def late() -> None:
            await close()
            raise RedisTimeoutError("Timed out closing connection after 5")

        line.aclose = late
        await lines.close()
        assert await lines.ask("ECHO", "x") == b"x", "one that is used again connects again"
        await lines.close()

    asyncio.run(play())
