"""The gateway: what it serves, whom it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

import lumia
from lumia import gateway
from lumia.errors import (
    BackendUnavailableError,
    GatewayError,
    LaneFullError,
    NotRunningError,
    PayloadError,
    RateLimitedError,
)
from lumia.gateway.calls import Calls
from lumia.gateway.feed import JournalFeed
from lumia.gateway.mounting import Mount, routes_of
from lumia.gateway.scope import host_name
from lumia.gateway.server import listen
from lumia.gateway.settings import Settings, is_loopback
from lumia.gateway.sockets import Sockets
from lumia.journal import JournalEntry
from lumia.paths import base
from tests.support.gateway import Served, served
from tests.support.wait import until

LIMIT = 4096
gate = threading.Event()


@lumia.web.route("/echo", methods=["GET", "POST"])
async def echo(request: gateway.Request) -> gateway.Response:
    return gateway.JSONResponse({"size": len(await request.body())})


@lumia.web.route("/sync")
def sync(request: gateway.Request) -> gateway.Response:
    return gateway.PlainTextResponse("in a thread", headers={"Content-Security-Policy": "default-src 'none'"})


@lumia.web.route("/broken")
async def broken(request: gateway.Request) -> gateway.Response:
    raise RuntimeError("the password is swordfish")


@lumia.web.route("/rubbish")
async def rubbish(request: gateway.Request) -> Any:
    return {"not": "a response"}


@lumia.web.route("/away")
async def away(request: gateway.Request) -> gateway.Response:
    raise BackendUnavailableError("redis://secret@host is gone")


@lumia.web.route("/full")
async def full(request: gateway.Request) -> gateway.Response:
    raise LaneFullError("lane k is full")


@lumia.web.route("/limited")
async def limited(request: gateway.Request) -> gateway.Response:
    raise RateLimitedError("rate limit x is reached", wait=2.1)


@lumia.web.route("/wrong")
async def wrong(request: gateway.Request) -> gateway.Response:
    raise PayloadError("text: missing")


@lumia.web.route("/start", methods=["POST"])
async def start(request: gateway.Request) -> gateway.Response:
    run_id = await gateway.call(lumia.pipe.start, id="greet", content=lumia.Box.any("ann"))
    return gateway.JSONResponse({"run_id": run_id}, 202)


@lumia.web.route("/slow")
async def slow(request: gateway.Request) -> gateway.Response:
    await gateway.call(gate.wait, 10)
    return gateway.JSONResponse({"finished": True})


@lumia.web.websocket("/ws")
async def talk(socket: gateway.WebSocket) -> None:
    await socket.accept()
    async for text in socket.iter_text():
        if text == "break":
            raise RuntimeError("broken")
        if text == "away":
            raise BackendUnavailableError("gone")
        await socket.send_text(text)


@lumia.pipe.on("greet")
def greet(content: lumia.Box[str]) -> None:
    lumia.utils.next()


MODULE = sys.modules[__name__]


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with served(MODULE, settings=Settings(max_body=LIMIT, body_timeout=0.4)) as running:
        yield running


class TestServing:
    def test_it_says_that_the_broker_can_be_reached(self, site: Served) -> None:
        answer = site.client.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"ok": True})

    def test_it_says_that_the_broker_is_away(self) -> None:
        with served(MODULE) as running:
            running.bot.transport.close()
            answer = running.client.get("/healthz")
        assert answer.status_code == 503
        assert answer.json()["ok"] is False
        assert answer.headers["retry-after"]

    def test_a_route_starts_a_run_that_workers_execute(self, site: Served) -> None:
        answer = site.client.post("/start")
        assert answer.status_code == 202
        assert lumia.runs.wait(answer.json()["run_id"], 10).outcome == "done"

    def test_a_plain_function_serves_as_well(self, site: Served) -> None:
        assert site.client.get("/sync").text == "in a thread"

    def test_without_a_console_the_root_lists_the_paths(self, site: Served) -> None:
        assert "/echo" in site.client.get("/").json()["paths"]

    def test_with_a_console_the_root_leads_there(self) -> None:
        page = Mount("route", "/console", sync, "console")
        with served(mounts=[page]) as running:
            answer = running.client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (307, "/console")

    def test_a_websocket_is_served(self, site: Served) -> None:
        with connect(f"{site.ws}/ws") as socket:
            socket.send("hello")
            assert socket.recv(timeout=10) == "hello"

    def test_a_path_stays_with_the_plugin_that_had_it_first(self, caplog: pytest.LogCaptureFixture) -> None:
        mounts = [
            Mount("route", "/x", echo, "one"),
            Mount("route", "/x", sync, "two"),
            Mount("route", "/", sync, "two"),
        ]
        assert [route.path for route in routes_of(mounts)] == ["/x"]
        assert "/x of plugin two is not served: plugin one has it already" in caplog.text
        assert "/ of plugin two is not served: the gateway has it already" in caplog.text

    def test_a_fixed_path_goes_before_a_variable_one(self) -> None:
        mounts = [Mount("route", "/a/{name}", echo, "one"), Mount("route", "/a/b", sync, "two")]
        assert [route.path for route in routes_of(mounts)] == ["/a/b", "/a/{name}"]


class TestErrors:
    def test_a_broken_route_tells_an_error_id_and_nothing_else(
        self, site: Served, caplog: pytest.LogCaptureFixture
    ) -> None:
        answer = site.client.get("/broken")
        assert answer.status_code == 500
        assert "swordfish" not in answer.text
        assert "Traceback" not in answer.text
        logged = next(record for record in caplog.records if answer.json()["error_id"] in record.getMessage())
        assert logged.exc_info is not None
        assert "/broken of plugin test" in logged.getMessage()

    def test_the_bot_goes_on_after_a_broken_route(self, site: Served) -> None:
        site.client.get("/broken")
        assert site.client.get("/healthz").status_code == 200

    def test_a_route_that_returns_no_response_is_an_error(self, site: Served, caplog: pytest.LogCaptureFixture) -> None:
        assert site.client.get("/rubbish").status_code == 500
        assert "a route returns a Response" in caplog.text

    def test_an_absent_broker_asks_to_come_back(self, site: Served) -> None:
        answer = site.client.get("/away")
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "send it again under the same id" in answer.json()["error"]
        assert "secret" not in answer.text

    @pytest.mark.parametrize("path, status, wait", [("/full", 503, "1"), ("/limited", 429, "3")])
    def test_a_refused_start_says_when_to_come_back(self, site: Served, path: str, status: int, wait: str) -> None:
        answer = site.client.get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (status, wait)
        assert "is" in answer.json()["error"]

    def test_a_wrong_payload_says_what_is_wrong(self, site: Served) -> None:
        answer = site.client.get("/wrong")
        assert (answer.status_code, answer.json()) == (400, {"error": "text: missing"})

    @pytest.mark.parametrize("method, path, status", [("GET", "/nowhere", 404), ("DELETE", "/echo", 405)])
    def test_refusals_are_json(self, site: Served, method: str, path: str, status: int) -> None:
        answer = site.client.request(method, path)
        assert answer.status_code == status
        assert answer.json()["error"]

    def test_a_broken_websocket_is_closed_with_1011(self, site: Served, caplog: pytest.LogCaptureFixture) -> None:
        with connect(f"{site.ws}/ws") as socket:
            socket.send("break")
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)
            assert socket.close_code == 1011
        assert "websocket /ws of plugin test failed" in caplog.text

    def test_an_absent_broker_closes_a_websocket_with_1013(self, site: Served) -> None:
        with connect(f"{site.ws}/ws") as socket:
            socket.send("away")
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)
            assert socket.close_code == 1013


class TestBodies:
    def test_a_body_of_the_limit_is_taken(self, site: Served) -> None:
        assert site.client.post("/echo", content=b"x" * LIMIT).json() == {"size": LIMIT}

    def test_a_larger_body_is_refused(self, site: Served) -> None:
        answer = site.client.post("/echo", content=b"x" * (LIMIT + 1))
        assert answer.status_code == 413
        assert "max_body" in answer.json()["error"]

    def test_a_body_of_ten_mebibytes_gets_a_readable_answer(self, site: Served) -> None:
        assert site.client.post("/echo", content=b"x" * 10_485_760).status_code == 413

    def test_a_large_body_without_a_length_is_refused_too(self, site: Served) -> None:
        chunks = (b"x" * 1024 for _ in range(100))
        assert site.client.post("/echo", content=chunks).status_code == 413

    def test_a_body_that_dribbles_is_given_up(self, site: Served) -> None:
        with socket.create_connection(("127.0.0.1", site.port), timeout=10) as raw:
            raw.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nx")
            assert b"408" in raw.recv(4096).split(b"\r\n")[0]

    def test_a_websocket_frame_over_the_limit_closes_it(self, site: Served) -> None:
        with connect(f"{site.ws}/ws") as socket:
            socket.send("x" * (LIMIT + 1))
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)
            assert socket.close_code == 1009


class TestWhoMayAsk:
    def test_every_answer_carries_the_security_headers(self, site: Served) -> None:
        for path in ("/echo", "/nowhere", "/broken", "/healthz"):
            headers = site.client.get(path).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert "server" not in headers

    def test_a_route_may_set_its_own_policy(self, site: Served) -> None:
        assert site.client.get("/sync").headers["content-security-policy"] == "default-src 'none'"

    def test_a_name_that_was_rebound_to_loopback_is_refused(self, site: Served) -> None:
        answer = site.client.get("/echo", headers={"Host": f"evil.example:{site.port}"})
        assert answer.status_code == 421
        assert "hosts" in answer.json()["error"]

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
    def test_loopback_names_are_served(self, site: Served, host: str) -> None:
        assert site.client.get("/echo", headers={"Host": f"{host}:{site.port}"}).status_code == 200

    def test_a_configured_name_is_served(self) -> None:
        with served(MODULE, settings=Settings(hosts=("bot.example",))) as running:
            assert running.client.get("/echo", headers={"Host": "bot.example"}).status_code == 200
            assert running.client.get("/echo", headers={"Host": "evil.example"}).status_code == 421

    def test_the_health_check_needs_no_name(self, site: Served) -> None:
        assert site.client.get("/healthz", headers={"Host": "10.0.0.7:8470"}).status_code == 200

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
    def test_a_page_of_another_site_may_not_post(self, site: Served, origin: str) -> None:
        assert site.client.post("/echo", headers={"Origin": origin}).status_code == 403

    def test_a_cross_site_post_without_origin_is_refused(self, site: Served) -> None:
        assert site.client.post("/echo", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403

    def test_the_own_page_may_post(self, site: Served) -> None:
        assert site.client.post("/echo", headers={"Origin": site.url}).status_code == 200

    def test_a_page_of_another_site_may_not_open_a_websocket(self, site: Served) -> None:
        with pytest.raises(InvalidStatus) as refused:
            connect(f"{site.ws}/ws", origin=Origin("https://evil.example"))
        assert refused.value.response.status_code == 403

    def test_the_own_page_may_open_a_websocket(self, site: Served) -> None:
        with connect(f"{site.ws}/ws", origin=Origin(site.url)) as socket:
            socket.send("mine")
            assert socket.recv(timeout=10) == "mine"

    def test_a_configured_origin_may_post(self) -> None:
        with served(MODULE, settings=Settings(origins=("https://app.example",))) as running:
            assert running.client.post("/echo", headers={"Origin": "https://app.example"}).status_code == 200

    @pytest.mark.parametrize(
        "header, name",
        [
            ("localhost:8470", "localhost"),
            ("LocalHost", "localhost"),
            ("[::1]:8470", "[::1]"),
            ("", ""),
            ("[::1", "[::1]"),
        ],
    )
    def test_the_name_in_a_host_header(self, header: str, name: str) -> None:
        assert host_name(header) == name

    @pytest.mark.parametrize(
        "host, local",
        [
            ("127.0.0.1", True), ("127.8.8.8", True), ("[::1]", True), ("::1", True), ("localhost", True),
            ("::ffff:127.0.0.1", True), ("0.0.0.0", False), ("192.168.1.1", False), ("localhost.evil.example", False),
            ("", False),
        ],
    )  # fmt: skip
    def test_what_counts_as_this_machine(self, host: str, local: bool) -> None:
        assert is_loopback(host) is local

    def test_outside_of_a_request_there_is_no_gateway(self) -> None:
        with pytest.raises(NotRunningError, match=r"lumia\.web\.route"):
            gateway.current()


class TestCalls:
    def test_more_waiting_calls_than_allowed_are_told_to_come_back(self) -> None:
        async def crowd() -> list[Any]:
            calls = Calls(threads=1, waiting=1)
            release = threading.Event()
            first = [asyncio.ensure_future(calls.run(release.wait, 10)) for _ in range(2)]
            while calls.pending < 2:
                await asyncio.sleep(0)
            with pytest.raises(gateway.BusyError) as busy:
                await calls.run(str)
            release.set()
            return [busy.value.status_code, dict(busy.value.headers or {}), await asyncio.gather(*first)]

        assert asyncio.run(crowd()) == [429, {"Retry-After": "1"}, [True, True]]

    def test_a_slow_call_does_not_hold_up_the_others(self, site: Served) -> None:
        gate.clear()
        slow_one = threading.Thread(target=site.client.get, args=("/slow",))
        slow_one.start()
        try:
            assert httpx.get(f"{site.url}/echo", trust_env=False).status_code == 200
        finally:
            gate.set()
            slow_one.join()


class TestFeed:
    def entry(self, cursor: int) -> JournalEntry:
        return JournalEntry("step", f"r{cursor}", cursor=str(cursor))

    def test_every_subscriber_gets_every_entry_from_its_coming_on(self) -> None:
        with served(MODULE) as running:
            seen = asyncio.run(self._two_readers(running))
        assert seen[0] == seen[1]
        assert {"start", "step", "end"} <= set(seen[0])

    async def _two_readers(self, running: Served) -> list[list[str]]:
        feed = JournalFeed(lumia.runs.tail, lumia.runs.cursor)
        async with feed.subscribe() as one, feed.subscribe() as other:
            await asyncio.to_thread(lambda: lumia.pipe.start(id="greet", content=lumia.Box.any("ann")))
            return [await self._until_end(reader) for reader in (one, other)]

    async def _until_end(self, reader: gateway.Subscription) -> list[str]:
        kinds: list[str] = []
        async with asyncio.timeout(10):
            while "end" not in kinds:
                entry = await reader.get()
                kinds.append(entry.kind if entry else "gap")
        return kinds

    def test_a_reader_that_is_too_slow_is_told_of_the_gap(self) -> None:
        async def scene() -> list[str]:
            reader = gateway.Subscription()
            for number in range(1001):
                reader.push(self.entry(number))
            first, last = await reader.get(), await reader.get()
            return ["gap" if first is None else first.run_id, "gap" if last is None else last.run_id]

        assert asyncio.run(scene()) == ["gap", "r1000"]

    def test_after_the_broker_was_away_readers_are_told_of_the_gap(self, caplog: pytest.LogCaptureFixture) -> None:
        answers: list[Callable[[], list[JournalEntry]]] = [self._gone, lambda: [self.entry(7)]]

        def tail(cursor: str, seconds: float) -> list[JournalEntry]:
            return answers.pop(0)() if answers else []

        async def scene() -> list[Any]:
            async with JournalFeed(tail, lambda: "0").subscribe() as reader, asyncio.timeout(10):
                return [await reader.get(), await reader.get()]

        gap, entry = asyncio.run(scene())
        assert gap is None
        assert entry.run_id == "r7"
        assert "the journal can't be read" in caplog.text

    @staticmethod
    def _gone() -> list[JournalEntry]:
        raise BackendUnavailableError("gone")

    def test_nobody_reads_the_journal_while_nobody_listens(self) -> None:
        def readers() -> int:
            return sum(thread.name == "lumia-journal" for thread in threading.enumerate())

        async def scene() -> None:
            async with JournalFeed(lumia.runs.tail, lumia.runs.cursor).subscribe():
                assert readers() == 1

        with served(MODULE):
            asyncio.run(scene())
            until(lambda: readers() == 0, what="the reader to end")


class TestEnding:
    def test_websockets_are_sent_away_and_requests_in_flight_finish(self) -> None:
        gate.clear()
        with served(MODULE) as running, connect(f"{running.ws}/ws") as socket:
            answers: list[httpx.Response] = []
            in_flight = threading.Thread(target=lambda: answers.append(running.client.get("/slow")))
            in_flight.start()
            until(lambda: running.gateway.calls.pending, what="the slow request to arrive")
            running.server.should_exit = True
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)
            assert socket.close_code == 1001
            gate.set()
            in_flight.join(10)
            assert answers[0].json() == {"finished": True}

    def test_a_websocket_whose_client_has_vanished_does_not_keep_the_others_open(self) -> None:
        sent: list[Any] = []

        async def scene() -> None:
            async def app(scope: Any, receive: Any, send: Any) -> None:
                while (await receive())["type"] != "websocket.disconnect":
                    pass

            async def silence() -> Any:
                await asyncio.Event().wait()

            async def vanished(message: Any) -> None:
                raise OSError("gone")

            async def there(message: Any) -> None:
                sent.append(message["code"])

            sockets = Sockets(app)
            serving = [
                asyncio.ensure_future(sockets({"type": "websocket"}, silence, send)) for send in (vanished, there)
            ]
            while len(sockets) < 2:
                await asyncio.sleep(0)
            await sockets.go_away(5)
            await asyncio.gather(*serving)

        asyncio.run(scene())
        assert sent == [1001]

    def test_a_websocket_that_opens_while_the_gateway_drains_is_sent_away_too(self) -> None:
        sent: list[int] = []

        async def scene() -> None:
            sockets: Sockets
            late: list[asyncio.Future[None]] = []

            async def app(scope: Any, receive: Any, send: Any) -> None:
                while (await receive())["type"] != "websocket.disconnect":
                    pass

            async def silence() -> Any:
                await asyncio.Event().wait()

            async def send(message: Any) -> None:
                sent.append(message["code"])
                if not late:
                    late.append(asyncio.ensure_future(sockets({"type": "websocket"}, silence, send)))

            sockets = Sockets(app)
            first = asyncio.ensure_future(sockets({"type": "websocket"}, silence, send))
            while not len(sockets):
                await asyncio.sleep(0)
            await sockets.go_away(5)
            assert first.done()
            assert late[0].done()

        for _ in range(2):  # a gateway may be served again, by another event loop
            asyncio.run(scene())
        assert sent == [1001, 1001] * 2

    def test_a_gateway_drains_on_every_loop_it_was_served_by(self) -> None:
        with served(MODULE) as running:
            for _ in range(2):
                with connect(f"{running.ws}/ws") as socket:
                    running.server.should_exit = True
                    with pytest.raises(ConnectionClosed):
                        socket.recv(timeout=10)
                    assert socket.close_code == 1001
                running.stop()
                running.start()

    def test_a_taken_port_is_named_with_the_way_out(self, site: Served) -> None:
        with pytest.raises(GatewayError, match=rf"{site.port}.*\[gateway\]"):
            listen(Settings(port=site.port))

    def test_several_processes_listen_on_one_port_only_when_they_are_told_that_they_are_several(self) -> None:
        with listen(Settings(port=0, processes=2)) as first:
            port = first.getsockname()[1]
            with listen(Settings(port=port, processes=2)) as second:
                assert second.getsockname()[1] == port
            with pytest.raises(GatewayError, match=str(port)):
                listen(Settings(port=port))


class TestProcess:
    """`python -m lumia.gateway` as its supervisor sees it."""

    BACKEND = """
from lumia.inmemory import InMemoryTransport

def connect(root, limits, config):
    return InMemoryTransport(limits)
"""

    def start(self, root: Path, port: int) -> subprocess.Popen[str]:
        (root / "config").mkdir(exist_ok=True)
        (root / "config" / "lumia.toml").write_text(
            f'[lumia]\nbackend = "memback"\n[gateway]\nport = {port}\n', encoding="utf-8"
        )
        (root / "memback").mkdir(exist_ok=True)
        (root / "memback" / "backend.py").write_text(self.BACKEND, encoding="utf-8")
        env = {**os.environ, "LUMIA_ROOT": str(root), "PYTHONPATH": f"{root}{os.pathsep}{base()}"}
        return subprocess.Popen(
            [sys.executable, "-m", "lumia.gateway"], env=env, stderr=subprocess.PIPE, text=True, cwd=root
        )

    @pytest.fixture
    def port(self) -> int:
        with socket.create_server(("127.0.0.1", 0)) as free:
            return int(free.getsockname()[1])

    def test_it_serves_the_first_party_plugins_and_ends_with_code_0(self, tmp_path: Path, port: int) -> None:
        process = self.start(tmp_path, port)
        try:
            page = until(lambda: self._get(f"http://127.0.0.1:{port}/console", process), timeout=20)
            assert page is not None
            assert page.status_code == 200
            assert self._get(f"http://127.0.0.1:{port}/webhook/shop", process) is not None
            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 0
        finally:
            process.kill()
            process.communicate()

    def test_a_taken_port_is_one_line_and_code_1(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            process = self.start(tmp_path, taken.getsockname()[1])
            _, errors = process.communicate(timeout=20)
        assert process.returncode == 1
        assert errors.splitlines()[-1].startswith("lumia.gateway: the gateway can't listen on 127.0.0.1:")

    @staticmethod
    def _get(url: str, process: subprocess.Popen[str]) -> httpx.Response | None:
        assert process.poll() is None, "the gateway ended"
        try:
            return httpx.get(url, trust_env=False)
        except httpx.TransportError:
            return None


def test_naming_the_gateway_loads_no_web_framework() -> None:
    code = (
        "import json, sys, lumia.gateway; print(json.dumps([m for m in ('starlette', 'uvicorn') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=base())
    assert json.loads(done.stdout) == []


def test_every_exported_name_exists() -> None:
    assert all(getattr(gateway, name) is not None for name in gateway.__all__)
    with pytest.raises(AttributeError):
        gateway.Nothing  # noqa: B018


def test_settings_take_what_a_section_has() -> None:
    class Section:
        port = 9000
        hosts = ("Bot.Example/",)

    found = Settings.of(Section())
    assert (found.port, found.hosts, found.max_body) == (9000, ("bot.example",), Settings().max_body)
    assert Settings(host="0.0.0.0", port=1).url == "http://127.0.0.1:1"
    assert Settings(host="::1", port=1).url == "http://[::1]:1"
