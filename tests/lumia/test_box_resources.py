"""Which values are live resources, however deep they sit, and which are not."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime as dt
import enum
import functools
import http.client
import importlib
import io
import logging
import mmap
import multiprocessing
import os
import queue
import re
import select
import selectors
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import types
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any

import fakeredis
import httpx
import pytest
import redis
import redis.asyncio

from lumia.box import Box, resource
from lumia.errors import ArcError
from lumia.resources import BUDGET, KNOWN, holder_trail, is_resource


def numbers() -> Iterator[int]:
    yield 1


async def nothing() -> None:
    return None


async def async_numbers() -> Any:
    yield 1


class Slotted:
    __slots__ = ("__hidden", "label")

    def __init__(self, part: object) -> None:
        self.__hidden = part


class Plain:
    def __init__(self, part: object) -> None:
        self.part = part

    def method(self) -> object:
        return self.part

    def accept(self, given: object) -> object:
        return given


@dataclasses.dataclass
class Upload:
    name: str
    body: Any


class Frugal:
    """Leaves its lock behind when it is copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 3

    def __getstate__(self) -> dict[str, int]:
        return {"count": self.count}


class Careless:
    """Says itself how it is copied, and takes its lock along."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Careless, (), {"lock": self.lock}


class Driver:
    """Looks like a database connection."""

    def close(self) -> None: ...
    def cursor(self) -> None: ...


class Descriptor(Driver):
    cursor = None  # type: ignore[assignment]

    def fileno(self) -> int:
        return 0


class Pool:
    def get_connection(self) -> None: ...
    def release(self, connection: object) -> None: ...


class Stream:
    async def aclose(self) -> None: ...


class CloseOnly:
    """A `close` alone may mean anything."""

    def close(self) -> None: ...


def opened(make: Callable[[], Any], close: str = "close") -> Any:
    """Yields what `make` returns and closes it afterwards."""

    @contextlib.contextmanager
    def manager() -> Iterator[Any]:
        made = make()
        yield made
        getattr(made, close, lambda: None)()

    return manager


def in_loop(make: Callable[[], Any], close: str = "none") -> Any:
    @contextlib.contextmanager
    def manager() -> Iterator[Any]:
        async def build() -> Any:
            return make()

        with asyncio.Runner() as runner:
            made = runner.run(build())
            yield made
            getattr(made, close, lambda: None)()

    return manager


@contextlib.contextmanager
def a_socket() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


@contextlib.contextmanager
def a_tls_object() -> Iterator[ssl.SSLObject]:
    yield ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")


@contextlib.contextmanager
def a_child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        yield child


LIVE: dict[str, Any] = {
    "text file": opened(functools.partial(open, os.devnull)),
    "binary file": opened(functools.partial(open, os.devnull, "rb")),
    "raw file": opened(functools.partial(open, os.devnull, "rb", buffering=0)),
    "temporary file": opened(tempfile.TemporaryFile),
    "named temporary file": opened(tempfile.NamedTemporaryFile),
    "spooled file": opened(tempfile.SpooledTemporaryFile),
    "temporary folder": opened(tempfile.TemporaryDirectory, "cleanup"),
    "buffered reader": opened(lambda: io.BufferedReader(io.BytesIO())),
    "bytes view": opened(lambda: memoryview(b"abc"), "release"),
    "mmap": opened(lambda: mmap.mmap(-1, 10)),
    "socket": a_socket,
    "tls context": opened(ssl.create_default_context),
    "tls object": a_tls_object,
    "lock": opened(threading.Lock),
    "rlock": opened(threading.RLock),
    "condition": opened(threading.Condition),
    "event": opened(threading.Event),
    "semaphore": opened(threading.BoundedSemaphore),
    "barrier": opened(lambda: threading.Barrier(2)),
    "thread": opened(threading.Thread),
    "thread local": opened(threading.local),
    "queue": opened(queue.Queue),
    "simple queue": opened(queue.SimpleQueue),
    "executor": opened(concurrent.futures.ThreadPoolExecutor, "shutdown"),
    "future": opened(concurrent.futures.Future, "cancel"),
    "process": opened(multiprocessing.Process),
    "process lock": opened(multiprocessing.Lock),
    "pipe": opened(lambda: multiprocessing.Pipe()[0]),
    "child process": a_child,
    "generator": opened(numbers),
    "coroutine": opened(nothing),
    "async generator": opened(async_numbers, "none"),
    "frame": opened(sys._getframe),
    "sqlite": opened(lambda: sqlite3.connect(":memory:")),
    "poll": opened(select.poll),
    "epoll": opened(getattr(select, "epoll", select.poll)),
    "selector": opened(selectors.DefaultSelector),
    "http connection": opened(lambda: http.client.HTTPConnection("localhost")),
    "event loop": opened(asyncio.new_event_loop),
    "asyncio lock": opened(asyncio.Lock),
    "asyncio queue": opened(asyncio.Queue),
    "asyncio event": opened(asyncio.Event),
    "asyncio future": in_loop(lambda: asyncio.get_running_loop().create_future(), "cancel"),
    "asyncio task": in_loop(lambda: asyncio.ensure_future(nothing())),
    "asyncio reader": in_loop(asyncio.StreamReader),
    "httpx client": opened(httpx.Client),
    "httpx async client": opened(httpx.AsyncClient),
    "redis client": opened(lambda: redis.Redis(port=1)),
    "redis async client": opened(lambda: redis.asyncio.Redis(port=1), "none"),
    "fake redis": opened(fakeredis.FakeRedis),
    "database driver": opened(Driver),
    "file-like": opened(Descriptor),
    "pool": opened(Pool),
    "async stream": opened(Stream),
}

HOLDERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda part: part,
    "list": lambda part: [1, part],
    "dict value": lambda part: {"a": {"b": part}},
    "tuple": lambda part: (1, (part,)),
    "deque": lambda part: collections.deque([part]),
    "attribute": Plain,
    "slot": Slotted,
    "dataclass": lambda part: Upload("a", [part]),
    "namespace": lambda part: types.SimpleNamespace(part=part),
    "closure": lambda part: lambda: part,
    "default": lambda part: lambda given=part: given,
    "keyword default": lambda part: eval("lambda *, given=part: given", {"part": part}),
    "partial": lambda part: functools.partial(print, part),
    "bound method": lambda part: Plain(part).method,
    "iterator": lambda part: iter([part]),
    "exception": lambda part: ValueError("broken", part),
    "map": lambda part: map(Plain(part).accept, []),
}


@pytest.mark.parametrize("kind", LIVE)
def test_a_resource_becomes_a_shared_handle(kind: str) -> None:
    with LIVE[kind]() as live:
        box = Box.any(live, destructor=lambda _: None)
        assert holder_trail(live) is not None
        assert box.is_arc
        assert box.into() is live
        with pytest.raises(ArcError, match="can't leave its process"):
            box.dump(b"s")
        del box


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", ["text file", "socket", "lock", "thread", "generator", "asyncio lock"])
def test_whatever_holds_a_resource_is_shared_as_a_whole(kind: str, holder: str) -> None:
    with LIVE[kind]() as live:
        value = HOLDERS[holder](live)
        trail = holder_trail(value)
        assert trail is not None
        assert trail.endswith(type(live).__qualname__)
        box = Box.any(value)
        assert box.is_arc
        assert box.into() is value
        del box


def test_the_error_shows_the_way_to_the_resource() -> None:
    with open(os.devnull) as file, pytest.raises(ArcError, match=r"\(Upload > list > TextIOWrapper\)"):
        Box.any(Upload("a", [file])).dump(b"s")


def knot() -> tuple[Any, ...]:
    inner: list[Any] = []
    inner.append(inner)
    return (inner,)


class Colour(enum.Enum):
    RED = "red"


VALUES: dict[str, Any] = {
    "bytes stream": lambda: io.BytesIO(b"a"),
    "text stream": lambda: io.StringIO("a"),
    "exception": lambda: ValueError("a", 1),
    "enum": lambda: Colour.RED,
    "date": lambda: dt.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    "pattern": lambda: re.compile("a+"),
    "logger": lambda: Plain(logging.getLogger("lumia.test")),
    "class": lambda: Plain,
    "module": lambda: os,
    "function": lambda: numbers,
    "lambda": lambda: lambda value: value + 1,
    "builtin": lambda: len,
    "builtin method": lambda: [1].append,
    "partial": lambda: functools.partial(max, 1),
    "counter": lambda: collections.Counter("aab"),
    "default dict": lambda: collections.defaultdict(list, a=[1]),
    "array view": lambda: range(3),
    "close alone": CloseOnly,
    "copies itself without its lock": Frugal,
    "cycle": knot,
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_plain_value_is_copied(kind: str) -> None:
    value = VALUES[kind]()
    assert holder_trail(value) is None
    box = Box.any(value)
    assert box.transport == "dill"
    assert type(box.into()) is type(value)


def test_a_class_that_pickles_itself_without_its_lock_gets_what_it_asked_for() -> None:
    assert Box.any([Frugal()]).into()[0].count == 3


def test_a_resource_the_walk_cannot_see_is_found_before_it_is_copied() -> None:
    careless = Careless()
    assert holder_trail(careless) is None
    box = Box.any((careless,))
    assert box.is_arc
    with pytest.raises(ArcError, match=r"\(_thread\.lock\)"):
        box.dump(b"s")


def test_a_resource_beyond_the_budget_of_the_walk_is_found_before_it_is_copied() -> None:
    padding: list[Any] = [(number,) for number in range(BUDGET + 1)]
    padding.append([threading.Lock()])
    assert holder_trail(padding) is None
    assert Box.any(padding).is_arc


def test_what_dill_cannot_copy_is_shared_and_says_why() -> None:
    class Refusing:
        def __reduce__(self) -> tuple[Any, ...]:
            raise TypeError("not me")

    value = Refusing()
    box = Box.any(value)
    assert box.into() is value
    with pytest.raises(ArcError, match="Refusing, which dill can't copy: TypeError: not me"):
        box.dump(b"s")


def test_the_walk_runs_no_code_of_the_value() -> None:
    class Touchy:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = None  # type: ignore[assignment]

        @property
        def part(self) -> Any:
            raise AssertionError("read")

    assert holder_trail([Touchy(), Touchy()]) is None


def test_a_plugin_can_announce_its_own_kind_before_or_after_the_first_look() -> None:
    class Session:
        pass

    class Sub(Session):
        pass

    assert not Box.any(Sub()).is_arc
    assert resource(Session) is Session
    assert Box.any(Sub()).is_arc
    assert Box.any({"session": [Sub()]}).is_arc


def test_only_a_class_can_be_announced() -> None:
    with pytest.raises(TypeError, match="takes a class, not 5"):
        resource(5)  # type: ignore[type-var]


def test_judging_a_class_does_not_keep_it_alive() -> None:
    import gc
    import weakref

    gone = weakref.ref(resource(type("Gone", (), {})))
    is_resource(gone())  # type: ignore[arg-type]
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", sorted(name for name in KNOWN if not name.startswith("select.")))
def test_every_known_name_is_that_of_a_class(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    kind = getattr(importlib.import_module(module), attribute)
    assert is_resource(kind)
    assert f"{kind.__module__}.{kind.__qualname__}" == name or kind.__module__.startswith("_")
