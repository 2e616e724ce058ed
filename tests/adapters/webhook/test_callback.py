"""Posting to a callback over real sockets: the judged address, the name in TLS, and what counts as taken."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.webhook import callback
from tests.support.outside import Peer, head, peer, resolving, secured

NAME = "hook.example"


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    """Serve HTTPS as hook.example on loopback."""
    tls = secured(tmp_path, NAME, monkeypatch)
    with peer(lambda _, line, request: line.sendall(head("204 No Content")), tls) as server:
        yield server


def test_the_certificate_is_checked_for_the_name_not_the_address(hook: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.1")
    assert callback.post(f"https://{NAME}:{hook.port}/x", b"{}", {}, [NAME]) == 204
    assert b"POST /x HTTP/1.1\r\n" in hook.seen[0] and f"Host: {NAME}:{hook.port}\r\n".encode() in hook.seen[0]


def test_a_certificate_of_another_name_is_refused(hook: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.1")
    with pytest.raises(callback.CallbackError, match=r"other\.example can't be reached: Hostname mismatch"):
        callback.post(f"https://other.example:{hook.port}/x", b"{}", {}, ["other.example"])
    assert hook.seen == []


def test_the_next_address_is_tried_when_one_is_dead(hook: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.9", "127.0.0.1")
    assert callback.post(f"https://{NAME}:{hook.port}/x", b"{}", {}, [NAME]) == 204


def test_nobody_there_is_told_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    with pytest.raises(callback.CallbackError, match=r"127\.0\.0\.1"):
        callback.post(f"http://127.0.0.1:{port}/", b"{}", {}, ["127.0.0.1"])


def test_a_name_without_an_address_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(callback.CallbackError, match="has no address"):
        callback.post("http://nowhere.example/", b"{}", {}, [])


def test_an_answer_that_never_comes_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(callback.CallbackError, match=r"within 0\.2 s"):
            callback.post(url, b"{}", {}, ["127.0.0.1"])


@pytest.mark.parametrize("status", ["302 Found", "404 Not Found", "500 Internal Server Error"])
def test_anything_but_2xx_is_a_failure_and_no_redirect_is_followed(status: str) -> None:
    with (
        peer(lambda _, line, request: line.sendall(head(status, Location="/there", Content_Length=0))) as server,
        pytest.raises(callback.CallbackError, match=f"answered {status}, expected 2xx"),
    ):
        callback.post(server.url(), b"{}", {}, ["127.0.0.1"])
    assert server.paths == ["/file"]
