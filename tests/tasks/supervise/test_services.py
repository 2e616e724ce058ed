"""How the Python processes are started, and when they count as ready."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lumia.errors import SupervisorError
from tasks.supervise.heartbeats import beat_answers, server_time, worker_answers
from tasks.supervise.plan import UpOptions, make_plan
from tasks.supervise.ports import free_port
from tasks.supervise.resp import connect
from tasks.supervise.services import (
    Place,
    WorkerOptions,
    flower_service,
    gateway_service,
    gateway_services,
    http_status,
    worker_service,
)
from tasks.supervise.urls import database_url, redis_url

PLACE = Place(Path("/base"), Path("/bot"), "redis://h/0", after=("valkey",))


@pytest.fixture
def healthz() -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server asks for
            self.send_response(200 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_default_worker_serves_all_shared_queues() -> None:
    assert worker_service(PLACE, WorkerOptions("worker")).command == (
        *(sys.executable, "-m", "celery", "--workdir", "/base", "-A", "tasks", "worker", "--loglevel", "INFO", "-E"),
        *("-n", "worker@%h", "--without-gossip", "--without-mingle"),
    )


def test_a_prefork_worker_is_asked_for_by_the_name_celery_heeds() -> None:
    words = worker_service(PLACE, WorkerOptions("w", ("a", "b"), "prefork", 2)).command
    assert words[-6:] == ("-Q", "a,b", "-P", "processes", "-c", "2")


@pytest.mark.parametrize(
    "options, message",
    [
        (WorkerOptions(""), "worker name ''"),
        (WorkerOptions("../x"), "worker name '../x'"),
        (WorkerOptions("w", ("-x",)), "queue '-x'"),
        (WorkerOptions("w", ("a b",)), "queue 'a b'"),
        (WorkerOptions("w", pool="gevent"), "pool 'gevent' is unknown; use threads or prefork"),
        (WorkerOptions("w", concurrency=-1), "concurrency -1"),
    ],
)
def test_options_that_can_not_be_are_refused(options: WorkerOptions, message: str) -> None:
    with pytest.raises(SupervisorError, match=message):
        options.checked()


def test_children_get_the_bots_place_and_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    env = PLACE.env()
    assert env["LUMIA_ROOT"] == "/bot"
    assert env["LUMIA_REDIS_URL"] == "redis://h/0"
    assert env["PYTHONPATH"].split(os.pathsep) == ["/base", "/mine"]
    assert env["OPENAI_API_KEY"] == "k"
    assert "LUMIA_DATABASE_URL" not in env
    assert env["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    assert PLACE.env()["OPENBLAS_NUM_THREADS"] == "4"


def test_the_gateway_is_told_its_address_and_opened_on_loopback() -> None:
    service = gateway_service(PLACE, "0.0.0.0", 9000)
    assert service.command == (sys.executable, "-m", "lumia.gateway")
    assert (service.env["LUMIA__GATEWAY__HOST"], service.env["LUMIA__GATEWAY__PORT"]) == ("0.0.0.0", "9000")
    assert service.url == "http://127.0.0.1:9000/"


def test_the_address_of_a_gateway_on_ipv6_can_be_opened() -> None:
    assert gateway_service(PLACE, "::1", 9000).url == "http://[::1]:9000/"


def test_the_gateway_is_ready_when_healthz_says_so(healthz: int) -> None:
    assert gateway_service(PLACE, "127.0.0.1", healthz).probe(1)
    assert not gateway_service(PLACE, "127.0.0.1", free_port()).probe(1)


def test_several_gateways_share_the_port_and_the_bot_waits_for_the_first(healthz: int) -> None:
    first, second = gateway_services(PLACE, "127.0.0.1", healthz, 2)
    assert [(one.name, one.essential, one.env["LUMIA__GATEWAY__PROCESSES"]) for one in (first, second)] == [
        ("gateway", True, "2"),
        ("gateway-2", False, "2"),
    ]
    assert first.probe(os.getpid()), "this process listens there"
    assert not first.probe(1), "another one doesn't, whoever answers"


def test_flower_is_ready_when_it_answers_anything_and_listens_on_loopback(healthz: int) -> None:
    service = flower_service(PLACE, healthz)
    assert service.probe(1)
    assert service.command[8:10] == ("--address=127.0.0.1", f"--port={healthz}")
    assert not service.essential


def test_a_server_that_speaks_no_http_does_not_count() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert http_status("127.0.0.1", listener.getsockname()[1], "/", timeout=0.1) == 0


def test_a_worker_is_ready_by_a_fresh_heartbeat_of_its_own(valkey_url: str) -> None:
    me, host = os.getpid(), socket.gethostname()
    with connect(valkey_url) as redis:
        now = server_time(redis)
        redis.ask("ZADD", "lumia:workers", str(now), f"elsewhere:{me}:a", str(now - 60), f"{host}:{me}:b")
        assert not worker_answers(valkey_url, me)
        redis.ask("ZADD", "lumia:workers", str(now), f"{host}:{me}:c", str(now), "rubbish")
    assert worker_answers(valkey_url, me)
    assert not worker_answers(valkey_url, me + 1)


def test_a_worker_is_ready_by_the_heartbeat_of_a_pool_process(valkey_url: str) -> None:
    parent = os.getppid()
    with connect(valkey_url) as redis:
        redis.ask("ZADD", "lumia:workers", str(server_time(redis)), f"{socket.gethostname()}:{os.getpid()}:a")
    assert worker_answers(valkey_url, parent)


def test_beat_is_ready_by_its_own_fresh_sign_of_life(valkey_url: str) -> None:
    with connect(valkey_url) as redis:
        now = server_time(redis)
        for sign, expected in (
            ({"pid": 5, "at": now}, True),
            ({"pid": 5, "at": now - 60}, False),
            ({"pid": 6, "at": now}, False),
        ):
            redis.ask("SET", "lumia:beat", json.dumps(sign))
            assert beat_answers(valkey_url, 5) is expected
        redis.ask("SET", "lumia:beat", "rubbish")
        assert not beat_answers(valkey_url, 5)


def test_the_plan_starts_the_stores_first_and_everything_else_after_them(bot_root: Path) -> None:
    plan = make_plan(Path("/base"), bot_root, UpOptions(port=9000))
    assert [service.name for service in plan.services] == ["valkey", "postgres", "worker", "beat", "gateway", "flower"]
    assert all(service.after == ("valkey", "postgres") for service in plan.services[2:])
    assert [port.number for port in plan.ports] == [9002, 9003, 9000, 9001]


def test_what_is_given_by_url_is_watched_and_not_started(bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_REDIS_URL", "redis://:secret@broker:6390/2")
    monkeypatch.setenv("LUMIA_DATABASE_URL", "postgresql://u:secret@db:5433/bot")
    plan = make_plan(Path("/base"), bot_root, UpOptions(flower=False))
    assert [(one.name, one.command, one.url) for one in plan.services[:2]] == [
        ("redis", (), "redis://broker:6390/2"),
        ("database", (), "postgresql://db:5433/bot"),
    ]
    assert [port.used_by for port in plan.ports] == ["the gateway"]
    assert plan.place.env()["LUMIA_REDIS_URL"] == "redis://:secret@broker:6390/2"


def test_the_database_can_be_left_out(bot_root: Path) -> None:
    plan = make_plan(Path("/base"), bot_root, UpOptions(postgres=False))
    assert "postgres" not in [service.name for service in plan.services]
    assert plan.place.database_url == ""


def test_commands_beside_lumia_up_find_the_same_servers(bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(Path("/base"), bot_root, UpOptions())
    assert redis_url(bot_root) == plan.place.redis_url
    assert database_url(bot_root) == plan.place.database_url
    monkeypatch.setenv("LUMIA_REDIS_URL", "redis://given/0")
    assert redis_url(bot_root) == "redis://given/0"
