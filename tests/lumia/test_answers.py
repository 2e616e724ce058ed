"""Answers written at once: to a client they are what uvicorn would have written in two parts."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import lumia
from lumia import gateway
from lumia.gateway import connection, front
from tests.support.gateway import Served, served
from tests.support.wait import until

done = list[str]()


class Late(gateway.Response):
    """A response with a way of its own to write itself."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Write it."""
        await super().__call__(scope, receive, send)


def _note() -> None:
    done.append("background")


def _made() -> dict[str, Any]:
    from starlette.background import BackgroundTask

    cookie = gateway.Response("c", 200)
    cookie.set_cookie("a", "1")
    cookie.set_cookie("b", "2")
    longer = gateway.Response("four")
    longer.headers["content-length"] = "40"
    twice = gateway.Response("four")
    twice.raw_headers.append((b"content-length", b"4"))
    return {
        "json": gateway.JSONResponse({"ü": 1}, 202, {"Retry-After": "2"}),
        "text": gateway.PlainTextResponse("täxt"),
        "empty": gateway.Response(),
        "nothing": gateway.Response(status_code=204),
        "unmodified": gateway.Response(status_code=304),
        "redirect": gateway.RedirectResponse("/elsewhere", 303),
        "cookies": cookie,
        "own": gateway.Response("x", headers={"Content-Security-Policy": "sandbox", "Cache-Control": "max-age=9"}),
        "closing": gateway.Response("bye", headers={"Connection": "close"}),
        "latin": gateway.Response("x", headers={"X-Name": "ü"}),
        "late": Late("late"),
        "stream": gateway.StreamingResponse(iter([b"a", b"b"])),
        "background": gateway.Response("x", background=BackgroundTask(_note)),
        "injected": gateway.Response("x", headers={"X-Name": "a\r\nX-Other: b"}),
        "named": gateway.Response("x", headers={"X Name": "a"}),
        "longer": longer,
        "twice": twice,
    }


NAMES = sorted(_made())
BROKEN = {"injected", "named", "longer"}


@lumia.web.route("/made/{name}", methods=["GET", "HEAD", "POST"])
async def made(request: gateway.Request) -> gateway.Response:
    await request.body()
    response: gateway.Response = _made()[request.path_params["name"]]
    return response


gate = threading.Event()


@lumia.web.route("/slow", methods=["GET", "POST"])
async def slow(request: gateway.Request) -> gateway.Response:
    await request.body()
    while not gate.is_set():
        await asyncio.sleep(0.01)
    return gateway.PlainTextResponse("slow")


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with served(made, slow) as running:
        yield running


def exchanged(site: Served, request: str) -> tuple[bytes, list[bytes], bytes]:
    """Return status line, sorted headers without the date, and body of what the server writes until it closes."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as client:
        client.sendall(request.encode())
        answer = b""
        while data := client.recv(65536):
            answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    return (
        status,
        sorted(one for one in headers if not one.startswith(b"date:")),
        re.sub(rb'"[0-9a-z]{22}"', b'"id"', body),
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_client_can_not_tell_the_difference(
    site: Served, monkeypatch: pytest.MonkeyPatch, method: str, name: str, version: str
) -> None:
    closing = "Connection: close\r\n" if version == "1.1" else ""
    request = f"{method} /made/{name} HTTP/{version}\r\nHost: 127.0.0.1\r\n{closing}Content-Length: 0\r\n\r\n"
    at_once = exchanged(site, request)

    async def never(*args: object) -> bool:
        return False

    monkeypatch.setattr(front, "respond", never)
    assert at_once == exchanged(site, request)
    if name not in BROKEN:
        assert at_once[0].split()[1] == str(_made()[name].status_code).encode()


def test_what_is_plain_is_written_at_once(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    told, respond = dict[str, bool](), connection.respond

    async def noted(exchange: Any, response: Any, secured: Any) -> bool:
        name = exchange.scope["path"].rpartition("/")[2]
        told[name] = await respond(exchange, response, secured)
        return told[name]

    monkeypatch.setattr(front, "respond", noted)
    for name in NAMES:
        exchanged(site, f"GET /made/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    at_once = {"background", "cookies", "empty", "json", "latin", "own", "redirect", "text"}
    assert {name for name, said in told.items() if said} == at_once
    assert {"late", "stream"}.isdisjoint(told), "these write themselves"


def test_a_task_behind_an_answer_is_done(site: Served) -> None:
    done.clear()
    assert site.client.get("/made/background").text == "x"
    until(lambda: done == ["background"])


def test_answers_to_requests_in_one_packet_come_in_their_order(site: Served) -> None:
    one = "GET /made/{} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n"
    requests = "".join(one.format(name, "") for name in ("text", "stream", "json", "empty"))
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as client:
        client.sendall((requests + one.format("own", "Connection: close\r\n")).encode())
        answer = b""
        while data := client.recv(65536):
            answer += data
    bodies = [
        re.escape(text) for text in ("täxt".encode(), b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n", '{"ü":1}'.encode(), b"", b"x")
    ]
    assert re.fullmatch(b"".join(b"HTTP/1.1 [^\0]+?\r\n\r\n" + body for body in bodies), answer)


SLOW = "GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def answers(site: Served, requests: bytes, *, half: bool = False, owed: bool = True) -> bytes:
    """Return all that comes for these bytes. half: no more can be sent then; owed: the slow route goes on later."""
    gate.clear()
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as client:
        client.sendall(requests)
        if half:
            client.shutdown(socket.SHUT_WR)
        if owed:
            until(lambda: any(getattr(one, "_deaf", False) for one in list(site.server.server_state.connections)))
        gate.set()
        answer = b""
        while data := client.recv(65536):
            answer += data
    return answer


@pytest.mark.parametrize("rubbish", [b"garbage\r\n\r\n", b"0123456789", b"\x16\x03\x01\x02\x00"])
def test_an_answer_that_is_owed_goes_out_whatever_follows_the_request(site: Served, rubbish: bytes) -> None:
    answer = answers(site, SLOW.encode() + rubbish)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"slow") and b"connection: close" in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_a_client_that_has_said_all_it_has_to_say_is_answered(site: Served) -> None:
    answer = answers(site, (SLOW + SLOW).encode(), half=True)
    assert answer.count(b"HTTP/1.1 200 ") == 2 and answer.endswith(b"slow")


def test_what_is_no_http_is_refused_in_json(site: Served) -> None:
    answer = answers(site, b"garbage\r\n\r\n", owed=False)
    assert answer.startswith(b"HTTP/1.1 400 ") and b"application/json" in answer and answer.endswith(b'"}')
    body = b"POST /slow HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"
    assert answers(site, body, owed=False).startswith(b"HTTP/1.1 400 ")


def test_a_connection_that_is_kept_for_nothing_is_closed(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.server.config, "timeout_keep_alive", 0.1)
    request = b"GET /made/text HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as client:
        for _ in range(2):
            client.sendall(request)
            assert client.recv(65536).endswith("täxt".encode())
        assert client.recv(65536) == b"", "and nothing was written before the end"


def test_a_client_that_has_gone_costs_nothing(site: Served, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as client:
        client.sendall(b"POST /made/text HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n")
    assert site.client.get("/made/text").text == "täxt"
    assert "Exception" not in caplog.text


def test_only_short_paths_are_remembered(site: Served) -> None:
    remembered = site.gateway._front._remembered
    assert site.client.get("/made/text").text == "täxt"
    before = remembered.cache_info()
    assert site.client.get("/made/text?" + "x" * 300).text == "täxt"
    assert site.client.get("/made/text" + "x" * 300).status_code == 500
    assert site.client.get("/" + "x" * 300).status_code == 404
    after = remembered.cache_info()
    assert (after.hits, after.currsize) == (before.hits + 1, before.currsize)
