"""What a proxy in front of the gateway says of its clients: believed of a trusted one, for requests and WebSockets."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.sync.client import connect

import lumia
from lumia import gateway
from lumia.gateway import scope
from tests.support.gateway import served

TOLD = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}


def seen(connection: gateway.Request | gateway.WebSocket) -> list[Any]:
    """Return client and scheme, and if gateway and bot are known where a connection is served."""
    assert connection.client is not None
    return [connection.client.host, connection.url.scheme, lumia.runtime.current() is scope.current().bot]


@lumia.web.route("/seen")
async def page(request: gateway.Request) -> gateway.Response:
    return gateway.JSONResponse(seen(request))


@lumia.web.websocket("/seen/socket")
async def talk(socket: gateway.WebSocket) -> None:
    await socket.accept()
    await socket.send_json(seen(socket))


@pytest.mark.parametrize(
    "trusted, headers, client, secure",
    [
        (None, TOLD, "203.0.113.9", "s"),
        (None, {}, "127.0.0.1", ""),
        ("192.0.2.1", TOLD, "127.0.0.1", ""),
    ],
    ids=["by a trusted proxy", "by nobody", "by a stranger"],
)
def test_client_and_scheme_are_those_that_were_told(
    monkeypatch: pytest.MonkeyPatch, trusted: str | None, headers: dict[str, str], client: str, secure: str
) -> None:
    if trusted is not None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    with served(page, talk) as site:
        assert site.client.get("/seen", headers=headers).json() == [client, f"http{secure}", True]
        with connect(f"{site.ws}/seen/socket", additional_headers=headers) as socket:
            assert socket.recv(timeout=10) == f'["{client}","ws{secure}",true]'
