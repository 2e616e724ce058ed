"""The few Redis commands that are spoken without redis-py."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.errors import BackendUnavailableError
from tasks.supervise.ports import free_port
from tasks.supervise.resp import answers, connect, info, parse_url


@contextmanager
def speaking(reply: bytes) -> Iterator[str]:
    """Run a server that answers anything with `reply` and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_values_survive_whatever_bytes_they_hold(valkey_url: str) -> None:
    with connect(valkey_url) as redis:
        for text in ("", "a\r\nb", "ä\0☂", "x" * 100_000):
            redis.ask("SET", "key", text)
            assert redis.ask("GET", "key") == text.encode()


def test_every_kind_of_reply_is_understood(valkey_url: str) -> None:
    with connect(valkey_url) as redis:
        assert redis.ask("GET", "absent") is None
        assert redis.ask("INCR", "n") == 1
        assert redis.ask("RPUSH", "list", "a", "b") == 2
        assert redis.ask("LRANGE", "list", "0", "-1") == [b"a", b"b"]
        assert info(redis, "server")["tcp_port"] == valkey_url.rpartition(":")[2].split("/")[0]


def test_the_urls_database_is_chosen(valkey_url: str) -> None:
    with connect(valkey_url[:-1] + "3") as redis:
        redis.ask("SET", "here", "yes")
    with connect(valkey_url) as redis:
        assert redis.ask("EXISTS", "here") == 0


def test_an_error_reply_is_raised_with_its_text(valkey_url: str) -> None:
    with connect(valkey_url) as redis, pytest.raises(BackendUnavailableError, match="unknown command"):
        redis.ask("NONSENSE")


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    port = free_port()
    with (
        pytest.raises(BackendUnavailableError, match=f"no Redis answers at redis://127.0.0.1:{port}/0") as caught,
        connect(f"redis://:hidden@127.0.0.1:{port}/0"),
    ):
        pass
    assert "hidden" not in str(caught.value)
    assert not answers(f"redis://127.0.0.1:{port}")


@pytest.mark.parametrize("reply", [b"", b"$10\r\nab", b"+PO"])
def test_a_server_that_breaks_off_does_not_answer(reply: bytes) -> None:
    with speaking(reply) as url:
        assert not answers(url)


@pytest.mark.parametrize("url", ["http://x", "localhost:6379", "redis://x:notaport", "redis://x/zero", ""])
def test_what_is_no_redis_url_is_refused_with_the_right_form(url: str) -> None:
    with pytest.raises(BackendUnavailableError, match=r"write redis://\[user:password@\]host:port/db"):
        parse_url(url)


@given(st.text(min_size=1))
def test_a_password_in_a_url_is_read_as_it_was_written(password: str) -> None:
    from urllib.parse import quote

    text = password.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    where = parse_url(f"rediss://user:{quote(text, safe='')}@host:1/2")
    assert (where.user, where.password, where.host, where.port, where.db, where.tls) == (
        "user",
        text,
        "host",
        1,
        2,
        True,
    )
    assert where.shown == "rediss://host:1/2"
