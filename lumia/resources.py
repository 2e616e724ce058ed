"""What counts as a live resource: something that can't be copied and must be released once (spec §3.2, DESIGN §7).

dill happily copies open files, locks, threads and clients, so a Box decides by looking before dill is tried. A resource
is

* an instance of a known kind of the standard library: files and streams (in-memory `BytesIO` and `StringIO` are plain
  values), sockets and TLS objects, locks and what is built from them, threads, processes, executors, generators,
  coroutines, everything bound to an event loop, SQLite connections, mmap, memoryview, pollers;
* an instance of a type announced with `resource()`;
* an instance whose class looks like one: `close` with `fileno` or `cursor`, `acquire` or `get_connection` with
  `release`, or `aclose`.

A value that holds one anywhere inside, in a container, an attribute, a slot, a closure or a bound method, is live too.
The walk runs no code of the value: it asks the garbage collector what an object refers to.
"""

from __future__ import annotations

import gc
import io
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

K = TypeVar("K", bound=type[Any])
Destructor = Callable[[Any], object]

BUDGET = 20_000
"""Objects one walk looks at. What lies beyond is still found: the pickler asks the same question for each object."""

_KINDS: tuple[type, ...] = (
    io.IOBase,
    memoryview,
    threading.Thread,
    threading.Condition,
    threading.Event,
    threading.Semaphore,
    threading.Barrier,
    threading.local,
    type(threading.Lock()),
    type(threading.RLock()),
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
)
_COPYABLE_STREAMS = (io.BytesIO, io.StringIO)

# By name, so that asking loads nothing: what was never imported has no instances.
KNOWN = frozenset(
    {
        "_asyncio.Future",
        "_queue.SimpleQueue",
        "_socket.socket",
        "_ssl._SSLContext",
        "asyncio.events.AbstractEventLoop",
        "asyncio.events.AbstractServer",
        "asyncio.events.Handle",
        "asyncio.futures.Future",
        "asyncio.mixins._LoopBoundMixin",
        "asyncio.streams.StreamReader",
        "asyncio.streams.StreamWriter",
        "asyncio.transports.BaseTransport",
        "concurrent.futures._base.Executor",
        "concurrent.futures._base.Future",
        "http.client.HTTPConnection",
        "mmap.mmap",
        "multiprocessing.connection.Listener",
        "multiprocessing.connection._ConnectionBase",
        "multiprocessing.managers.BaseManager",
        "multiprocessing.managers.BaseProxy",
        "multiprocessing.pool.Pool",
        "multiprocessing.process.BaseProcess",
        "multiprocessing.queues.Queue",
        "multiprocessing.queues.SimpleQueue",
        "multiprocessing.shared_memory.SharedMemory",
        "multiprocessing.synchronize.SemLock",
        "queue.Queue",
        "select.epoll",
        "select.kqueue",
        "select.poll",
        "selectors.BaseSelector",
        "sqlite3.Blob",
        "sqlite3.Connection",
        "sqlite3.Cursor",
        "ssl.SSLObject",
        "subprocess.Popen",
        "tempfile.TemporaryDirectory",
        "tempfile._TemporaryFileWrapper",
    }
)

_DUCKS = (
    frozenset({"close", "fileno"}),
    frozenset({"close", "cursor"}),
    frozenset({"acquire", "release"}),
    frozenset({"get_connection", "release"}),
    frozenset({"aclose"}),
)

_LEAVES = (type, types.ModuleType, types.CodeType, types.FrameType, types.TracebackType)
_ATOMS = frozenset({str, bytes, bytearray, int, float, bool, complex, type(None), range, *_LEAVES})
# A loop refers to every suspended task and a task to its variables: through them everything reaches everything.
_SUSPENDED = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)
_CROSSROADS = frozenset({"_asyncio.Future", "asyncio.futures.Future", "asyncio.events.AbstractEventLoop"})
_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__")

_announced: WeakKeyDictionary[type, Destructor | None] = WeakKeyDictionary()


class _Judged:
    """A question about classes, answered once for each; forgets classes that are gone."""

    def __init__(self, judge: Callable[[type], bool]) -> None:
        self._judge = judge
        self._known: WeakKeyDictionary[type, bool] = WeakKeyDictionary()

    def __call__(self, kind: type) -> bool:
        verdict = self._known.get(kind)
        if verdict is None:
            verdict = self._known[kind] = self._judge(kind)
        return verdict

    def forget(self) -> None:
        self._known.clear()


def resource(kind: K, destructor: Destructor | None = None) -> K:
    """Announce `kind` and its subclasses as live resources; usable as a class decorator.

    `destructor(instance)` releases one; without it `aclose`, `close` or `release` is called. Announcing again replaces
    the destructor. Raises `TypeError` when `kind` is not a class.
    """
    if not isinstance(kind, type):
        raise TypeError(f"resource() takes a class, not {kind!r}; use it as @lumia.box.resource above a class")
    _announced[kind] = destructor
    _is_live.forget()
    return kind


def announced_destructor(kind: type) -> Destructor | None:
    """Return the destructor announced for `kind` or the nearest of its bases."""
    return next((_announced[base] for base in kind.__mro__ if _announced.get(base) is not None), None)


def is_resource(kind: type) -> bool:
    """Tell whether instances of `kind` are live resources by themselves."""
    return _is_live(kind)


def holder_trail(root: object) -> str | None:
    """Return the way from `root` to the first live resource, such as `Upload > dict > TextIOWrapper`; None without one.

    Objects whose class defines its own pickling in Python are not entered: such a class says itself what a copy holds.
    """
    trails: dict[int, tuple[type, int | None]] = {}
    for item, parent in _walk([root], _parts):
        trails[id(item)] = (type(item), parent)
        if is_resource(type(item)):
            return " > ".join(reversed([kind.__qualname__ for kind in _upward(trails, id(item))]))
    return None


def reachable(roots: Iterable[object]) -> Iterator[object]:
    """Yield what `roots` hold, themselves included.

    Not through classes, modules, event loops, tasks and coroutines, nor through the framework's own objects, which hold
    the Boxes of all runs under way: what is found belongs to the roots.
    """
    return (item for item, _ in _walk(roots, _references))


def _judge(kind: type) -> bool:
    if any(base in _announced for base in kind.__mro__):
        return True
    if issubclass(kind, _COPYABLE_STREAMS):
        return False
    return issubclass(kind, _KINDS) or named(kind, KNOWN) or _looks_like_one(kind)


def named(kind: type, names: frozenset[str]) -> bool:
    """Tell whether `kind` or one of its bases is called `module.qualname` in `names`."""
    return any(f"{base.__module__}.{base.__qualname__}" in names for base in kind.__mro__)


def _looks_like_one(kind: type) -> bool:
    methods = {name for base in kind.__mro__ for name, entry in base.__dict__.items() if callable(entry)}
    return any(duck <= methods for duck in _DUCKS)


def _walk(roots: Iterable[object], parts: Callable[[object], Iterable[object]]) -> Iterator[tuple[object, int | None]]:
    """Yield each object once with the id of its holder, nearest first, at most `BUDGET` of them."""
    waiting: deque[tuple[object, int | None]] = deque((root, None) for root in roots)
    seen = {id(root) for root, _ in waiting}
    kept: list[object] = []  # an id is only good while its object lives
    while waiting and len(kept) < BUDGET:
        item, parent = waiting.popleft()
        kept.append(item)
        yield item, parent
        for part in parts(item):
            if type(part) not in _ATOMS and id(part) not in seen:
                seen.add(id(part))
                waiting.append((part, id(item)))


def _parts(item: object) -> Iterable[object]:
    return () if _speaks_for_itself(type(item)) else _references(item)


def _references(item: object) -> Iterable[object]:
    if _is_closed(type(item)):
        return ()
    if isinstance(item, types.FunctionType):  # without its globals: those are the module
        return [item.__closure__, item.__defaults__, item.__kwdefaults__, item.__dict__]
    return gc.get_referents(item)


def _closed(kind: type) -> bool:
    if issubclass(kind, (*_LEAVES, *_SUSPENDED)) or named(kind, _CROSSROADS):
        return True
    return kind.__module__.startswith("lumia.") and not kind.__module__.startswith(("lumia.box", "lumia.arc"))


def _own_pickling(kind: type) -> bool:
    return any(isinstance(getattr(kind, name, None), types.FunctionType) for name in _PICKLING)


def _upward(trails: dict[int, tuple[type, int | None]], key: int | None) -> Iterator[type]:
    while key is not None:
        kind, key = trails[key]
        yield kind


_is_live = _Judged(_judge)
_is_closed = _Judged(_closed)
_speaks_for_itself = _Judged(_own_pickling)
