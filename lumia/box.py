"""Box: the one parameter of every pipeline and event handler (spec §3, DESIGN §7).

A Box holds a copy (JSON where that is exact, dill elsewhere) or shares a live resource (Arc), and carries `meta`. Which
of them is decided at construction, by looking at the value:

============  ===============================================  ===========================================
transport     values                                           passing it on
============  ===============================================  ===========================================
`json`        None, bool, int, str, finite float, list, dict   a copy; readable text, can't execute code
              with str keys, nested at will
`dill`        everything else dill can copy                    a copy; signed, refused when tampered with
`arc`         files, sockets, locks, connections, … and what   one share more; stays in its process, is
              holds them, and what dill can't copy             released when the last share is gone
============  ===============================================  ===========================================
"""

from __future__ import annotations

import os
import threading
from typing import Any, Generic, Literal, NoReturn, TypeVar, cast, final, get_args, get_origin

from lumia import arc, boxwire
from lumia.boxtype import conforms, describe
from lumia.boxwire import Content
from lumia.errors import ArcError, BoxError, BoxTooLargeError, BoxTypeError
from lumia.resources import Destructor, holder_trail, resource

__all__ = ["Box", "Destructor", "limit", "require", "resource", "set_limit"]

T_co = TypeVar("T_co", covariant=True)
V = TypeVar("V")
DEFAULT_LIMIT = 1 << 20

_limit = DEFAULT_LIMIT
_first_look = threading.Lock()


def _after_fork() -> None:
    global _first_look
    _first_look = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork)


@final
class Box(Generic[T_co]):
    """A value on its way between handlers; made by `Box.any`, read by `into`.

    Two Boxes are equal only if they are the same Box; compare what `into()` returns. Copying one (`copy`, `deepcopy`)
    is `clone()`; pickling one works for copies and raises `ArcError` for a live resource.
    """

    __slots__ = ("__weakref__", "_content", "_edited", "_expected", "_written")
    _content: Content
    _expected: tuple[Any, str] | None
    _written: str
    """Meta as JSON text, as long as nobody has looked at it: then `_edited` holds it."""
    _edited: dict[str, Any] | None

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raise `BoxError`: how a value travels is found out by `Box.any`."""
        raise BoxError("Box(…) is not how a Box is made: write Box.any(value), which finds out how the value travels")

    def __init_subclass__(cls, **kwargs: object) -> NoReturn:
        raise BoxError(f"{cls.__name__} can't inherit from Box: put the data into a class of its own and box that")

    @staticmethod
    def any(value: V, *, meta: dict[str, Any] | None = None, destructor: Destructor | None = None) -> Box[V]:
        """Return a Box of `value`: a copy of it, or a share in it if it is a live resource.

        meta: JSON values that travel beside the content, copied. destructor: called with the value when the last share
        is gone; giving one makes any value a shared one. Raises `BoxError` for a Box or for meta that isn't JSON,
        `BoxTooLargeError`, `BoxCycleError` for a resource that refers to its own Box, and `ArcError` for one that is
        shared already with another destructor.
        """
        if isinstance(value, Box):
            raise BoxError("this is a Box already: pass it on as it is, clone() it, or box what its into() returns")
        carried = boxwire.write_meta(meta)
        content = _content(value, destructor)
        _refuse_too_large(content, carried)
        return _make(content, carried)

    @staticmethod
    def load(wire: str, secret: bytes) -> Box[Any]:
        """Read what `dump` wrote; dill bytes are checked here and rebuilt only by `into()`.

        secret: the bot's key. Raises `BoxSignatureError` for dill that this bot didn't sign, `BoxError` for damage.
        """
        content, meta = boxwire.read(wire, secret)
        return _make(content, meta)

    def dump(self, secret: bytes) -> str:
        """Return the wire text, one line of JSON that UTF-8 can encode.

        secret: the bot's key, with which dill is signed. Raises `ArcError` for a live resource, `BoxError` when meta
        holds more than JSON values, and `BoxTooLargeError` when meta has grown too large.
        """
        if self._edited is None:
            return self._content.wire(self._written, secret)
        carried = boxwire.write_meta(self._edited)
        _refuse_too_large(self._content, carried)
        return self._content.wire(carried, secret)

    def into(self) -> T_co:
        """Return the value: a copy of its own for each call, or the live resource itself.

        Raises `BoxTypeError` when it isn't of the type the running handler declared as `Box[T]`, or when its class
        can't be found any more, and `ArcError` for a resource after its end.
        """
        value = self._content.value()
        if self._expected is not None:
            self._check(value, *self._expected)
        return cast(T_co, value)

    def clone(self) -> Box[T_co]:
        """Return a Box of the same content with a copy of meta: value semantics for copies, one share more for an Arc.

        Raises `BoxCycleError` for a resource that came to refer to its own Box, `BoxError` for meta that isn't JSON.
        """
        return _make(self._content.clone(), self._carried(), self._expected)

    def expecting(self, declared: Any, handler: str) -> Box[Any]:
        """Return a view of this Box, with the same content and the same meta, whose `into()` checks the type.

        declared: the T of a handler's `Box[T]`, or the annotation itself; a bare `Box` declares nothing. handler: its
        name, for messages.
        """
        if declared is Box:
            return _make(self._content, self.meta)
        inner = get_args(declared)[0] if get_origin(declared) is Box else declared
        return _make(self._content, self.meta, (inner, handler))

    def inner_type(self) -> type:
        """Return the class of the stored value; raises `BoxTypeError` when this process doesn't have it."""
        return self._content.kind

    @property
    def type_name(self) -> str:
        """The name of the stored value's class, for people; known even where the class itself can't be found."""
        return self._content.name

    def drop(self) -> None:
        """Give up this share before the Box itself goes away; the last one to do so releases the resource.

        Using the Box afterwards raises `ArcError`. A Box of a copy has nothing to give up.
        """
        if self.is_arc:
            self._content = _Dropped(self._content.name)

    @property
    def meta(self) -> dict[str, Any]:
        """What travels beside the content (`account`, `force_engage`, …): JSON values, edited in place."""
        if self._edited is None:
            with _first_look:  # two threads must get the same dict
                if self._edited is None:
                    self._edited = boxwire.read_meta(self._written)
        return self._edited

    def _carried(self) -> str:
        return self._written if self._edited is None else boxwire.write_meta(self._edited)

    @property
    def transport(self) -> Literal["json", "dill", "arc"]:
        """How the content travels: as JSON, as signed dill, or not at all (a live resource)."""
        return self._content.transport

    @property
    def is_arc(self) -> bool:
        """Whether the content is a live resource of this process."""
        return self._content.transport == "arc"

    def _check(self, value: object, declared: Any, handler: str) -> None:
        stale = self._content.stale(value)
        if not stale and conforms(value, declared):
            return
        raise BoxTypeError(
            f"handler {handler} declares Box[{describe(declared)}], this Box holds {stale or self._content.name}; "
            + (_way_out(value, declared) if not stale else "start the run anew")
        )

    def __copy__(self) -> Box[T_co]:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Box[T_co]:
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_arc:
            self._content.wire("", b"")  # which says why it can't
        return _rebuild, (self._content, self._carried())

    def __repr__(self) -> str:
        # Never the content: it ends up in logs, and nobody knows what is in it.
        meta = f", meta: {', '.join(sorted(map(str, self.meta)))[:60]}" if self.meta else ""
        return f"<Box {self.transport} {self._content.name}{meta}>"


def limit() -> int:
    """Return the bytes a Box may take on the wire."""
    return _limit


def set_limit(size: int) -> None:
    """Set the bytes a Box may take on the wire, meta included (`[box] max_bytes`); raises `BoxError` below 1."""
    global _limit
    if type(size) is not int or size < 1:
        raise BoxError(f"[box] max_bytes is a number of bytes from 1 up, got {size!r}")
    _limit = size


def require(content: Any, where: str) -> Box[Any]:
    """Return `content` if it is a Box that may be passed on; the gate of `start()` and `next()` (spec §3.1, §3.5).

    where: the call, for the message. Raises `BoxError` for a bare value, `BoxCycleError` for a resource that refers to
    its own Box.
    """
    if not isinstance(content, Box):
        raise BoxError(f"{where} takes a Box, got a bare {describe(type(content))}: write lumia.Box.any(value)")
    box: Box[Any] = content
    box._content.clone()
    return box


class _Dropped:
    """The content of a Box that gave up its share."""

    transport: Literal["arc"] = "arc"
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def _refuse(self, *args: object) -> NoReturn:
        raise ArcError(f"this Box gave up its share of a {self.name} by drop(); clone() it first, or drop it later")

    kind = property(_refuse)
    value = wire = size = clone = stale = _refuse


def _make(content: Content, meta: dict[str, Any] | str, expected: tuple[Any, str] | None = None) -> Box[Any]:
    """Return a Box. meta: its JSON text, or the dict that is its meta from now on."""
    box: Box[Any] = object.__new__(Box)
    box._content, box._expected = content, expected
    box._written, box._edited = (meta, None) if isinstance(meta, str) else ("", meta)
    return box


def _rebuild(content: Content, meta: str) -> Box[Any]:
    return _make(content, meta)


def _content(value: Any, destructor: Destructor | None) -> Content:
    if destructor is not None:
        return arc.share(value, destructor, f"{describe(type(value))}, boxed with a destructor")
    content = boxwire.to_json(value)
    if content is not None:
        return content
    why = holder_trail(value)
    if why is None:
        copied = boxwire.to_dill(value)
        if not isinstance(copied, str):
            return copied
        why = copied
    return arc.share(value, None, why)


def _refuse_too_large(content: Content, meta: str) -> None:
    size = content.size(meta)
    if size > _limit:
        raise BoxTooLargeError(
            f"a Box of {content.name} takes {size} bytes, more than {_limit} ([box] max_bytes in config/lumia.toml): "
            "put large data into lumia.blobs and box the reference"
        )


def _way_out(value: object, declared: Any) -> str:
    if isinstance(declared, type) and type(value).__qualname__ == declared.__qualname__:
        return (
            "both have this name but are different classes: one was loaded anew, or is defined inside a function or in "
            "__main__ and travels whole; define it at the top of a plugin's module"
        )
    return "box what the handler declares, or change its annotation"
