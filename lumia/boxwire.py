"""How the content of a Box is kept and written: as JSON text where that is exact, else as signed dill.

The wire (spec §3.2, DESIGN §7) is one line of compact JSON::

    {"j":<value>,"m":{…}}                                               plain JSON; "m" (meta) only when not empty
    {"c":[<plain Box>,<plain Box>,…]}                                   a burst: one Box with the list of all contents
    {"d":"<base64>","t":"module.qualname","g":"…","m":{…},"s":"<hex>"}  dill bytes; "g" only for a plugin's class

"s" is HMAC-SHA256 with the bot's secret over everything before it, and is checked before anything is parsed. The plain
form is not signed: it can't execute code.
"""

from __future__ import annotations

import hmac
import io
import json
import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from math import isfinite
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, Literal, Protocol, cast

from lumia.boxtype import type_name
from lumia.errors import BoxError, BoxSignatureError, BoxTypeError
from lumia.resources import is_resource

GENERATION = "__lumia_generation__"
"""Attribute of a plugin's module or package that tells its generation; a new one makes instances made before stale."""

_DEPTH = 200
_BURST = '{"c":['
_WIDE = 10**600  # Python may refuse to read integers of more than 640 digits from text
_DOMAIN = b"lumia.box.dill.v1\0"
_SEAL = ',"s":"'
_SEALED = len(_SEAL) + 64 + len('"}')
_PLAIN = frozenset({str, bool, type(None)})
_names: ContextVar[Mapping[str, ModuleType]] = ContextVar("lumia_names", default=MappingProxyType({}))
_PARSED: Any = ...  # no JSON value, and itself again after pickling


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_escaped = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode
_decoder = json.JSONDecoder(parse_constant=_no_constant)


class Content(Protocol):
    """What a Box holds: how to get the value out, to write it, and to share it with a clone."""

    @property
    def transport(self) -> Literal["json", "dill", "arc"]: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> type: ...
    def value(self) -> Any: ...
    def wire(self, meta: str, secret: bytes) -> str: ...
    def size(self, meta: str) -> int: ...
    def clone(self) -> Content: ...
    def stale(self, value: object) -> str: ...


class JsonContent:
    """A value as JSON text; scalars are kept as they are, since nobody can change them."""

    transport: Literal["json"] = "json"
    __slots__ = ("_fixed", "_text")

    def __init__(self, text: str, fixed: Any = _PARSED) -> None:
        self._text, self._fixed = text, fixed

    @property
    def kind(self) -> type:
        """The class of the value."""
        return {"{": dict, "[": list}.get(self._text[0]) or type(self._fixed)

    @property
    def name(self) -> str:
        """The name of that class."""
        return type_name(self.kind)

    def value(self) -> Any:
        """Return the value, a fresh copy each time."""
        return _decoder.decode(self._text) if self._fixed is _PARSED else self._fixed

    def wire(self, meta: str, secret: bytes) -> str:
        """Return the wire text; `secret` is not needed."""
        return f'{{"j":{self._text},"m":{meta}}}' if meta else f'{{"j":{self._text}}}'

    def size(self, meta: str) -> int:
        """Return the bytes of the wire text."""
        return utf8_length(self._text) + (utf8_length(meta) + 11 if meta else 6)

    def clone(self) -> JsonContent:
        """Return itself: it never changes."""
        return self

    def stale(self, value: object) -> str:
        """Return "": JSON has no versions."""
        return ""


class DillContent:
    """A value as dill bytes in base64, with the name, and if it can be imported the identity, of its class."""

    transport: Literal["dill"] = "dill"
    __slots__ = ("_class", "_data", "_generation", "name")

    def __init__(self, data: str, name: str, generation: str, identity: type | None = None) -> None:
        self._data, self.name, self._generation, self._class = data, name, generation, identity

    @property
    def kind(self) -> type:
        """The class of the value; raises `BoxTypeError` when this process can't rebuild it."""
        return self._class or type(self.value())

    def value(self) -> Any:
        """Rebuild the value, a fresh copy each time; raises `BoxTypeError` when its class is gone or has changed."""
        try:
            return _undill(a2b_base64(self._data))
        except Exception as error:
            raise BoxTypeError(
                f"a Box holds a {self.name} that can't be rebuilt here ({type(error).__name__}: {error}): its class "
                "was removed or changed, or its plugin isn't loaded in this process; box a new one or plain JSON values"
            ) from error

    def wire(self, meta: str, secret: bytes) -> str:
        """Return the signed wire text."""
        if not secret:
            raise BoxSignatureError(f"a {self.name} travels as signed dill and needs the bot's secret: it is empty")
        head = self._head(meta)
        return f'{head}{_SEAL}{_signature(head, secret)}"}}'

    def size(self, meta: str) -> int:
        """Return the bytes of the wire text."""
        return utf8_length(self._head(meta)) + _SEALED

    def clone(self) -> DillContent:
        """Return itself: it never changes, and every `value()` is a new copy."""
        return self

    def stale(self, value: object) -> str:
        """Say why `value` is not of the version that was boxed; "" when it is."""
        if self._class is not None and type(value) is not self._class:
            return f"an earlier version of {self.name}, whose module was loaded anew since"
        now = generation_of(type(value).__module__)
        if self._generation and now and self._generation != now:
            return f"{self.name} of generation {self._generation}, while this process runs generation {now}"
        return ""

    def _head(self, meta: str) -> str:
        generation = f',"g":{_escaped(self._generation)}' if self._generation else ""
        return f'{{"d":"{self._data}","t":{_escaped(self.name)}{generation}' + (f',"m":{meta}' if meta else "")


def to_json(value: Any) -> JsonContent | None:
    """Return `value` as JSON content, or None when JSON would not give back exactly this value, types included."""
    if not _exact(value, _DEPTH):
        return None
    try:
        text = _writer()(value).decode()
    except ValueError:  # lone surrogates are Python's own
        text = _escaped(value)
        if _decoder.decode(text) != value:  # a high and a low surrogate side by side would come back as one character
            return None
    return JsonContent(text) if type(value) in (dict, list) else JsonContent(text, value)


@cache
def _writer() -> Callable[[Any], bytes]:
    from pydantic_core import to_json as writer  # a tenth of a second for who makes no Box

    return writer


def to_dill(value: Any) -> DillContent | str:
    """Return a copy of `value` as dill, or why it has to stay live: dill can't copy it, or meets a resource in it.

    Raises `BoxError` when it is nested too deeply to be copied.
    """
    try:
        raw = _dill(value)
        _undill(raw)  # what can be written but not read is not a copy
    except RecursionError as error:
        raise BoxError(f"a {type_name(type(value))} is nested too deeply to be copied; make it flatter") from error
    except _MetResource as met:
        return str(met)
    except Exception as error:  # dill and the classes it meets raise anything
        return f"{type_name(type(value))}, which dill can't copy: {type(error).__name__}: {str(error)[:200]}"
    kind = type(value)
    data = b2a_base64(raw, newline=False).decode("ascii")
    return DillContent(data, type_name(kind), generation_of(kind.__module__), kind if _importable(kind) else None)


def read(wire: str, secret: bytes) -> tuple[Content, dict[str, Any]]:
    """Return content and meta of a wire text.

    Raises `BoxSignatureError` for dill without this bot's signature and for anything that isn't a Box, `BoxError` for a
    damaged plain one.
    """
    if not wire.startswith(('{"j":', _BURST)):
        return _read_sealed(wire, secret)
    try:
        if wire.startswith(_BURST):
            return _read_burst(wire)
        value, end = _decoder.raw_decode(wire, 5)
        meta = _read_meta(wire, end)
    except (ValueError, RecursionError) as error:
        raise BoxError(f"a Box was stored as {len(wire)} characters that can't be read back: {error}") from error
    content = JsonContent(wire[5:end]) if type(value) in (dict, list) else JsonContent(wire[5:end], value)
    return content, meta


def burst(first: str, *more: str) -> str:
    """Return the wire text of the Box that a burst of plain Boxes makes: the list of their contents, in order.

    Their meta is merged, a later Box wins.
    """
    return _BURST + ",".join((first, *more)) + "]}"


def joined(collected: str, wire: str) -> str:
    """Return the wire text of a burst with one more Box."""
    return f"{collected[:-2]},{wire}]}}"


def write_meta(meta: dict[str, Any] | None) -> str:
    """Return `meta` as JSON text, "" when empty; raises `BoxError` naming the place that isn't JSON."""
    if not meta:
        return ""
    if not isinstance(meta, dict):
        raise BoxError(f"meta of a Box is a dict of JSON values, got a {type_name(type(meta))}")
    content = to_json(dict(meta))
    if content is None:
        raise BoxError(
            f"meta of a Box takes JSON values only: {_culprit(meta, 'meta')}; write it as text, numbers, lists and "
            "dicts, or put it into the content"
        )
    return content._text


def read_meta(text: str) -> dict[str, Any]:
    """Return the meta that `write_meta` wrote."""
    return cast(dict[str, Any], _decoder.decode(text)) if text else {}


def generation_of(module: str) -> str:
    """Return the generation of the plugin a module belongs to, "" when it belongs to none."""
    while module:
        found = getattr(_module(module), GENERATION, None)
        if found is not None:
            return str(found)
        module = module.rpartition(".")[0]
    return ""


def utf8_length(text: str) -> int:
    """Return the bytes of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class _MetResource(Exception):
    """dill came to a live resource; its text names it."""


def _exact(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return False
        value = value.values()
    elif kind is not list:
        if kind is int:
            return bool(-_WIDE < value < _WIDE)
        return kind in _PLAIN or (kind is float and isfinite(value))
    if not depth:
        return False
    for part in value:  # noqa: SIM110 (a generator costs more than most of what it would go through)
        if type(part) not in _PLAIN and not _exact(part, depth - 1):
            return False
    return True


def _culprit(value: Any, place: str) -> str:
    """Name the first place in `value` that JSON can't carry exactly."""
    for _ in range(20):
        inner = next(_culprits(value, place), None)
        if inner is None:
            return f"{place} is a {type_name(type(value))}, which JSON can't carry exactly there"
        value, place = inner
    return f"{place} is nested too deeply"


def _culprits(value: Any, place: str) -> Iterator[tuple[Any, str]]:
    if type(value) is dict:
        for key, part in value.items():
            if type(key) is not str or to_json(key) is None:
                yield key, f"the key {key!r:.40} of {place}"
            if to_json(part) is None:
                yield part, f"{place}[{key!r:.40}]"
    if type(value) is list:
        yield from ((part, f"{place}[{index}]") for index, part in enumerate(value) if to_json(part) is None)


def _read_meta(wire: str, end: int) -> dict[str, Any]:
    if wire[end:] == "}":
        return {}
    if not wire.startswith(',"m":', end):
        raise ValueError("something follows the value")
    meta, end = _decoder.raw_decode(wire, end + 5)
    if type(meta) is not dict or wire[end:] != "}":
        raise ValueError("meta is damaged")
    return meta


def _read_burst(wire: str) -> tuple[JsonContent, dict[str, Any]]:
    parts: list[str] = []
    meta: dict[str, Any] = {}
    at = len(_BURST)
    while wire[at - 1] != "]":
        if not wire.startswith('{"j":', at):
            raise ValueError("a part of a burst is damaged")
        _, end = _decoder.raw_decode(wire, at + 5)
        parts.append(wire[at + 5 : end])
        if wire.startswith(',"m":', end):
            carried, end = _decoder.raw_decode(wire, end + 5)
            meta.update(carried)
        if wire[end : end + 2] not in ("},", "}]"):
            raise ValueError("a part of a burst is damaged")
        at = end + 2
    if wire[at:] != "}" or not parts:
        raise ValueError("a burst is damaged")
    return JsonContent(f"[{','.join(parts)}]"), meta


def _read_sealed(wire: str, secret: bytes) -> tuple[DillContent, dict[str, Any]]:
    head, seal = wire[:-_SEALED], wire[-_SEALED:]
    expected = f'{_SEAL}{_signature(head, secret)}"}}'
    if not secret or not hmac.compare_digest(_bytes(seal), expected.encode()):
        raise BoxSignatureError(
            f"refused to read a Box of {len(wire)} characters: it is neither plain JSON nor dill signed with this "
            "bot's secret; it was changed, or written with another data/secret.key. Every process needs the same key"
        )
    fields = _decoder.decode(f"{head}}}")
    return DillContent(fields["d"], fields["t"], fields.get("g", "")), fields.get("m", {})


def _signature(head: str, secret: bytes) -> str:
    return hmac.digest(secret, _DOMAIN + _bytes(head), "sha256").hex()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _importable(kind: type) -> bool:
    """Tell whether the class is found under its own name, so that dill stores the name and not the class."""
    found: Any = None if kind.__module__ == "__main__" else _module(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


def _dill(value: Any) -> bytes:
    file = io.BytesIO()
    _pickler()(file, 5, byref=False, recurse=False, fmode=0).dump(value)
    return file.getvalue()


def _undill(raw: bytes) -> Any:
    import dill  # 80 ms that JSON values never pay

    return _unpickler()(io.BytesIO(raw)).load() if _names.get() else dill.loads(raw)


@cache
def _pickler() -> Any:
    import dill  # as above

    class Watchful(dill.Pickler):  # type: ignore[misc]
        """Looks at every object before it is written: what the walk could not see is found here."""

        def persistent_id(self, item: object) -> None:
            if is_resource(type(item)):
                raise _MetResource(type_name(type(item)))

        def reducer_override(self, item: object) -> Any:
            if _names.get() and isinstance(item, type | FunctionType) and item.__module__ in _names.get():
                return _named, (item.__module__, item.__qualname__)
            return NotImplemented

    return Watchful


@cache
def _unpickler() -> Any:
    import dill  # as above

    class Scoped(dill.Unpickler):  # type: ignore[misc]
        """Finds what belongs to the generation whose step is being executed."""

        def find_class(self, module: str, name: str) -> Any:
            return _named(module, name) if module in _names.get() else super().find_class(module, name)

    return Scoped


def _module(name: str) -> ModuleType | None:
    return _names.get().get(name) or sys.modules.get(name)


def _named(module: str, name: str) -> Any:
    found: Any = _names.get().get(module) or import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@contextmanager
def naming(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Have Boxes find the classes of these modules by their names in the block, whatever has the names otherwise.

    Two generations of a plugin that are there side by side have modules of the same names.
    """
    token = _names.set(modules)
    try:
        yield
    finally:
        _names.reset(token)
