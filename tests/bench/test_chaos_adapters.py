"""The adapters' campaign: its proxy, its order of offsets, its account; and, in short, the campaign itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.chaos_adapters.__main__ import faults, main, table
from bench.chaos_adapters.campaign import Account
from bench.chaos_adapters.platforms import spread
from bench.chaos_adapters.wire import Wire, wire
from tests.support.wait import until


@contextmanager
def through() -> Iterator[tuple[Wire, socket.socket, socket.socket]]:
    """A connection through a proxy: the proxy, the client's end and the server's."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        wire(listening.getsockname()[1]) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client,
        listening.accept()[0] as server,
    ):
        server.settimeout(10)
        yield proxy, client, server


def received(end: socket.socket) -> bytes:
    """Return everything that arrives until the connection is over."""
    parts: list[bytes] = []
    try:
        while data := end.recv(4096):
            parts.append(data)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize("count", [0, 1, 7, 12])
def test_a_connection_is_cut_after_so_many_bytes_of_its_direction(count: int) -> None:
    with through() as (proxy, client, server):
        server.sendall(b"hello")
        assert client.recv(5) == b"hello"
        proxy.cut_after("up", count)
        client.sendall(b"twelve bytes")
        assert len(received(server)) <= count  # a reset may throw away what has arrived
        assert received(client) == b""
        until(lambda: proxy.cuts == 1)
        assert proxy.carried == {"down": 5, "up": count}


def test_what_is_not_cut_goes_through_both_ways_and_ends_when_it_ends() -> None:
    with through() as (proxy, client, server):
        proxy.cut_after("up", 100)
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert received(server) == b"question"
        server.sendall(b"answer")
        server.close()
        assert received(client) == b"answer"
        assert proxy.cuts == 0


def test_a_proxy_to_nowhere_gives_nothing_and_ends_the_connection() -> None:
    with wire(1) as proxy:
        said = b""
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
            said = received(client)
        assert (said, proxy.carried.total(), proxy.cuts) == (b"", 0, 0)


@settings(max_examples=50)
@given(st.integers(1, 3000), st.integers(1, 64))
def test_any_beginning_of_the_offsets_is_spread_evenly(count: int, begun: int) -> None:
    order = spread(count)
    assert sorted(order) == list(range(count))
    part = sorted(order[:begun])
    gaps = [b - a for a, b in zip([0, *part], [*part, count], strict=False)]
    assert max(gaps) <= 4 * count / len(part) + 1


def test_the_account_names_each_broken_promise_and_the_messages() -> None:
    good = Account("good", said=3, frame=10, offsets=11, answered=2, unsure=1)
    bad = Account("bad", said=2, lost=["in 1"], answered_twice=["in 2"])
    assert faults([good, bad]) == ["bad: lost: in 1", "bad: answered twice: in 2"]
    assert good.well and not bad.well
    assert "| good | 3 | 10 | 11 | 0 | 0 | 0 | 2 | 0 | 1 |" in table([good, bad])


@pytest.mark.services
@pytest.mark.slow
def test_a_short_campaign_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--seconds", "1", "--kills", "1", "--seed", "7", "--only", "onebot reverse"]
    assert main([*short, "--folder", str(tmp_path)]) == 0
    assert "nothing lost, nothing twice" in capsys.readouterr().out
