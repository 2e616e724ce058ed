"""Live resources shared by Boxes and released once, when the last Box is gone (spec §3.4–3.5, DESIGN §7).

An `Arc` is one resource and the knowledge how to release it. Every clone of a Box refers to the same Arc, so CPython's
own reference count is the Arc's count: it reaches zero at once, in whatever thread drops the last clone, and `__del__`
releases the resource. Boxing the same object again joins its Arc. What is still shared when the interpreter ends is
released then.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import fields, is_dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from weakref import WeakValueDictionary

from lumia.boxtype import type_name
from lumia.errors import ArcError, BoxCycleError
from lumia.resources import Destructor, announced_destructor, is_resource, named, reachable, resource

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("lumia.box")

_PATIENCE = 1.0  # seconds between asking a child process to end and killing it
_METHODS = ("aclose", "close", "release")  # aclose first: where both exist, close is the deprecated or the blocking one
_CONTAINERS = (list, tuple, set, frozenset, deque)
_LOCK = type(threading.Lock())
# Nobody can tell who acquired these: they are dropped as they are, unless the author names a destructor.
_NOT_OURS = (type, ModuleType, threading.Condition, threading.Semaphore, type(threading.RLock()))
_NOT_OURS_EITHER = frozenset({"asyncio.mixins._LoopBoundMixin", "multiprocessing.synchronize.SemLock"})
_FUTURES = frozenset({"_asyncio.Future", "asyncio.futures.Future", "concurrent.futures._base.Future"})

_shared: WeakValueDictionary[int, Arc] = WeakValueDictionary()
_guard = threading.RLock()  # reentrant: a destructor run by the garbage collector may make Boxes


@resource
class Arc:
    """One live resource of this process; the content of all Boxes that share it.

    parts: the Arcs of the resources in a plain container, so that each has one Arc however it is boxed.
    """

    transport: Literal["arc"] = "arc"
    __slots__ = ("__weakref__", "_destructor", "_ended", "_loop", "_parts", "_process", "_value", "_why")

    def __init__(self, value: Any, destructor: Destructor | None, why: str, parts: list[Arc]) -> None:
        self._ended = threading.Lock()  # taken once, never given back: whoever takes it releases the resource
        self._value, self._destructor, self._why, self._parts = value, destructor, why, parts
        self._process, self._loop = os.getpid(), _running_loop()

    @property
    def kind(self) -> type:
        """The class of the resource."""
        return type(self._value)

    @property
    def name(self) -> str:
        """The name of that class."""
        return type_name(self.kind)

    @property
    def ended(self) -> bool:
        """Whether the resource was released."""
        return self._ended.locked()

    def size(self, meta: str) -> int:
        """Return 0: a live resource is never written down."""
        return 0

    def value(self) -> Any:
        """Return the resource itself; raises `ArcError` after its end or in another process."""
        if self._process != os.getpid():
            raise ArcError(
                f"a Box holds a {self.name} of process {self._process}, this is {os.getpid()}: a live resource stays "
                "in the process that opened it; open one here"
            )
        if self.ended:
            raise ArcError(f"a Box holds a {self.name} that was already released; open a new one")
        return self._value

    def wire(self, meta: str, secret: bytes) -> NoReturn:
        """Raise `ArcError`: what lives in one process can't be written down."""
        raise ArcError(
            f"a Box can't leave its process: it holds a live resource ({self._why}); send what is needed to open it "
            "again, put bytes into lumia.blobs, or keep the run in this process"
        )

    def clone(self) -> Arc:
        """Return the same Arc, for one share more; raises `BoxCycleError` when the resource refers to its own Box."""
        _refuse_cycle([self], self.name)
        return self

    def stale(self, value: object) -> str:
        """Return "": the object itself can't be of another version than itself."""
        return ""

    def joined(self, destructor: Destructor | None) -> Arc:
        """Return this Arc for another Box of the same object; a different destructor raises `ArcError`."""
        if destructor is None or destructor == self._destructor:
            return self
        raise ArcError(
            f"this {self.name} is already in a Box, and its end is settled there: box it once, with the destructor, "
            "and clone() that Box"
        )

    def end(self) -> None:
        """Release the resource unless that was done; a failure is logged, since nobody is there to catch it."""
        if self._ended.acquire(blocking=False) and self._process == os.getpid():
            _release(self._value, self._destructor, self._loop)
            while self._parts:
                del self._parts[0]

    def __del__(self) -> None:
        if hasattr(self, "_loop"):  # else __init__ was interrupted
            self.end()


def share(value: Any, destructor: Destructor | None, why: str) -> Arc:
    """Return the Arc of `value`: the one that exists, or a new one.

    why: what makes the value live, for messages. Raises `BoxCycleError` when the resource, or its destructor, refers to
    a Box of it, and `ArcError` when it is shared already with another destructor; the caller then keeps the resource.
    """
    _refuse_cycle([value, destructor], type_name(type(value)))
    with _guard:
        known = _shared.get(id(value))
        if known is not None and not known.ended:
            return known.joined(destructor)
        parts = [] if _way(value, destructor, None) else [share(part, None, why) for part in _owned(value)]
        arc = _shared[id(value)] = Arc(value, destructor, why, parts)
        return arc


def _release(value: Any, destructor: Destructor | None, loop: asyncio.AbstractEventLoop | None) -> None:
    way = _way(value, destructor, loop)
    if way is None:
        return
    try:
        _finish(way(), loop)
    except Exception:  # whatever a destructor raises: the garbage collector has no caller to tell
        log.warning("releasing a %s failed; it is not tried again", type_name(type(value)), exc_info=True)


def _way(
    value: Any, destructor: Destructor | None, loop: asyncio.AbstractEventLoop | None
) -> Callable[[], object] | None:
    """Return what releases `value`: the given destructor, the announced one, or its own method."""
    chosen = destructor or announced_destructor(type(value))
    return (lambda: chosen(value)) if chosen is not None else _own_way(value, loop)


def _own_way(value: Any, loop: asyncio.AbstractEventLoop | None) -> Callable[[], object] | None:
    kind = type(value)
    if issubclass(kind, _NOT_OURS) or named(kind, _NOT_OURS_EITHER) or _is_standard_stream(value):
        return None
    if isinstance(value, _LOCK):
        return lambda: value.release() if value.locked() else None
    special = _special(value, kind, loop)
    if special is not None:
        return special
    names = (name for name in _METHODS if callable(getattr(kind, name, None)))
    return next((getattr(value, name) for name in names), None)


def _is_standard_stream(value: object) -> bool:
    streams = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
    return any(value is stream for stream in streams)


def _special(value: Any, kind: type, loop: asyncio.AbstractEventLoop | None) -> Callable[[], object] | None:
    if named(kind, frozenset({"subprocess.Popen"})):
        return partial(_end_process, value)
    if named(kind, frozenset({"concurrent.futures._base.Executor"})):
        return partial(value.shutdown, wait=False)
    if named(kind, frozenset({"tempfile.TemporaryDirectory"})):
        return partial(value.cleanup)
    if named(kind, _FUTURES):
        return partial(_in_loop, loop, value.cancel)
    return None


def _in_loop(loop: asyncio.AbstractEventLoop | None, call: Callable[[], object]) -> None:
    if loop is None:
        call()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(call)


def _end_process(process: Any) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except Exception:  # TimeoutExpired, without importing subprocess
        process.kill()
        process.wait()


def _owned(value: Any) -> list[Any]:
    """Return the resources a plain container or a dataclass holds, last one first; other objects own what they hold."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if is_resource(type(item)) and item is not value:
            found.append(item)
        else:
            waiting.extend(_members(item))
    return found


def _members(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return [part for pair in item.items() for part in pair]
    if isinstance(item, _CONTAINERS):
        return list(item)
    if is_dataclass(item) and not isinstance(item, type):
        return [getattr(item, field.name, None) for field in fields(item)]
    return []


def _finish(result: object, loop: asyncio.AbstractEventLoop | None) -> None:
    """Run what an asynchronous end returned: in the loop it belongs to, else in a loop of its own."""
    if not inspect.isawaitable(result):
        return
    ending = _awaited(result)
    if loop is not None and loop.is_running():
        import asyncio  # a running loop means it is loaded

        asyncio.run_coroutine_threadsafe(ending, loop)
    elif _running_loop() is None:
        _run(ending)
    else:
        thread = threading.Thread(target=_run, args=(ending,), name="lumia-arc-end")
        thread.start()
        thread.join()


async def _awaited(ending: Awaitable[object]) -> None:
    try:
        await ending
    except Exception:  # as in _release
        log.warning("releasing an asynchronous resource failed; it is not tried again", exc_info=True)


def _run(ending: Coroutine[Any, Any, None]) -> None:
    import asyncio  # most processes end nothing asynchronous

    asyncio.run(ending)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    events = sys.modules.get("asyncio.events")
    return events._get_running_loop() if events is not None else None


def _refuse_cycle(roots: list[object], name: str) -> None:
    for item in reachable(roots):
        if isinstance(item, Arc) and any(part is item for part in reachable([item._value, item._destructor])):
            raise BoxCycleError(
                f"a {name} refers to a Box that holds it, so neither would ever be released: keep the Box outside the "
                "resource, or give the resource a weakref to it (spec §3.4)"
            )


def _end_all() -> None:
    for arc in list(_shared.values()):
        arc.end()


atexit.register(_end_all)
