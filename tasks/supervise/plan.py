"""What `lumia up` starts for one bot root: which services, with which servers, on which ports."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lumia.errors import SupervisorError
from tasks.supervise import postgres, resp, valkey
from tasks.supervise.folders import Folders
from tasks.supervise.isolated import IsolatedWorkers
from tasks.supervise.ports import must_be_free
from tasks.supervise.service import Service
from tasks.supervise.services import (
    Place,
    WorkerOptions,
    beat_service,
    flower_service,
    gateway_service,
    worker_service,
)
from tasks.supervise.settings import Settings, read_settings

EXTERNAL_WAIT = 15.0
"""Seconds a server given by URL may take to answer before `up` gives up."""


@dataclass(frozen=True)
class UpOptions:
    """The options of `lumia up`. port: the first of four ports in a row, 0 for those of the config file."""

    flower: bool = True
    postgres: bool = True
    port: int = 0

    def words(self) -> list[str]:
        """Return the options as words of a command line."""
        return [
            *([] if self.flower else ["--no-flower"]),
            *([] if self.postgres else ["--no-postgres"]),
            *(["--port", str(self.port)] if self.port else []),
        ]


@dataclass(frozen=True)
class Port:
    """A port that is needed. key: where it is configured."""

    host: str
    number: int
    key: str
    used_by: str


@dataclass(frozen=True)
class Plan:
    """Everything a start needs, decided before anything is started."""

    folders: Folders
    place: Place
    services: tuple[Service, ...]
    ports: tuple[Port, ...] = field(default=())
    changing: Callable[[], Sequence[Service]] | None = None
    """Tells which services of the kind `isolated` there are to be now; None for a plan without any."""

    def check_ports(self) -> None:
        """Raise `SupervisorError` for the first port that is taken."""
        for port in self.ports:
            must_be_free(port.host, port.number, key=port.key, used_by=port.used_by)

    def make_worker(self, args: Mapping[str, Any]) -> Service:
        """Return the service of `lumia worker add`; raises `SupervisorError` for options that can't be."""
        options = WorkerOptions(
            name=str(args.get("name", "")),
            queues=tuple(str(queue) for queue in args.get("queues", ())),
            pool=str(args.get("pool", "")),
            concurrency=int(args.get("concurrency", 0)),
        )
        return worker_service(self.place, options)


def make_plan(base: Path, root: Path, options: UpOptions) -> Plan:
    """Decide what to start; raises `LumiaError` for a wrong config file or a missing server program."""
    settings = read_settings(root)
    if options.port:
        settings = settings.moved_to(options.port)
    folders = Folders(root)
    stores, ports, redis_url, database_url = _stores(folders, settings, options)
    place = Place(base, root, redis_url, database_url, tuple(store.name for store in stores))
    services = [
        *stores,
        worker_service(place, WorkerOptions("worker"), essential=True),
        beat_service(place),
        gateway_service(place, settings.gateway_host, settings.gateway_port),
    ]
    ports.append(Port(settings.gateway_host, settings.gateway_port, "[gateway] port", "the gateway"))
    if options.flower:
        services.append(flower_service(place, settings.flower_port))
        ports.append(Port("127.0.0.1", settings.flower_port, "[flower] port", "Flower"))
    isolated = IsolatedWorkers(place)
    services += isolated.services()
    return Plan(folders, place, tuple(services), tuple(ports), isolated.services)


def _stores(folders: Folders, settings: Settings, options: UpOptions) -> tuple[list[Service], list[Port], str, str]:
    """Return the stores' services, the ports they need, and the URLs of Redis and the database."""
    stores: list[Service] = []
    ports: list[Port] = []
    redis_url, database_url = (os.environ.get(f"LUMIA_{name}_URL", "").strip() for name in ("REDIS", "DATABASE"))
    if redis_url:
        stores.append(_given_redis(redis_url))
    else:
        redis_url = valkey.redis_url(folders.root, settings.redis_port)
        stores.append(valkey.valkey_service(folders, settings))
        ports.append(Port("127.0.0.1", settings.redis_port, "[redis] port", "Valkey"))
    if database_url:
        stores.append(_given_database(database_url))
    elif options.postgres and settings.postgres_enabled:
        database_url = postgres.database_url(folders.root, settings.postgres_port)
        stores.append(postgres.postgres_service(folders, settings))
        ports.append(Port("127.0.0.1", settings.postgres_port, "[postgres] port", "Postgres"))
    return stores, ports, redis_url, database_url


def _given_redis(url: str) -> Service:
    shown = resp.parse_url(url).shown
    return Service("redis", "external", (), lambda pid: resp.answers(url), shown, start_timeout=EXTERNAL_WAIT)


def _given_database(url: str) -> Service:
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "127.0.0.1", parts.port or 5432
    except ValueError as error:
        raise SupervisorError(
            f"LUMIA_DATABASE_URL is no database URL ({error}); write postgresql://user:password@host:port/database"
        ) from error
    shown = f"postgresql://{host}:{port}{parts.path}"
    return Service("database", "external", (), lambda pid: _reachable(host, port), shown, start_timeout=EXTERNAL_WAIT)


def _reachable(host: str, port: int) -> bool:
    """Tell whether something listens there; signing in is left to those who use it."""
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True
