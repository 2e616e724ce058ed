"""`lumia.store`: small typed values per plugin and scope, kept by the transport (DESIGN §5).

In a handler writes wait for the step's commit and are seen by its own reads; elsewhere they happen at once. Values are
JSON values. A scope separates chats, users or whatever the plugin likes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lumia.context import StepContext, active
from lumia.errors import NotRunningError, StoreError
from lumia.marks import is_seconds
from lumia.recording import observed

if TYPE_CHECKING:
    from lumia.ports import StoreOp

_KINDS = {"value": "a value", "list": "a list", "hash": "fields"}
MAX_COUNT = 2**63 - 1
MIN_TTL = 0.001


def as_json(value: Any, where: str) -> str:
    """Return a value as the store keeps it; raises `StoreError` naming `where` for what is no JSON value."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{where}: {error}; the store keeps JSON values, put anything else into a Box") from error
    return text


@dataclass(frozen=True)
class _Appended:
    """What a step appends to a list, each with how many items the list then keeps. stored: there is a list already."""

    stored: bool
    added: tuple[tuple[str, int], ...] = ()

    def with_one(self, text: str, keep: int) -> _Appended:
        return _Appended(self.stored, (*self.added, (text, keep)))

    def over(self, read: Callable[[int | None], list[str]], last: int | None) -> list[str]:
        """Return the newest `last` items as the step sees them; read: gives the newest of those that are stored."""
        missing = None if last is None else max(0, last - len(self.added))
        texts = list(read(missing)) if self.stored and missing != 0 else []
        for text, keep in self.added:
            texts = [*texts, text][-keep:]
        return texts if last is None else texts[max(0, len(texts) - last) :]


class Store:
    """The store of one plugin, or of the plugin whose handler is running when `plugin` is None."""

    def __init__(self, plugin: str | None = None) -> None:
        self._plugin = plugin

    def of(self, plugin: str) -> Store:
        """Return the store of another plugin, for gateway routes, commands and tests."""
        if not _text(plugin) or not plugin:
            raise StoreError(f"lumia.store.of() takes a plugin's name, got {plugin!r}")
        return Store(plugin.replace("-", "_"))

    def get(self, key: str, default: Any = None, *, scope: str = "") -> Any:
        """Return the value of `key`, or `default`."""
        text = self._read_as("value", self._name(key, scope), key)
        return default if text is None else json.loads(text)

    def set(self, key: str, value: Any, *, scope: str = "", ttl: float | None = None) -> None:
        """Set `key`; ttl: seconds until it is forgotten."""
        name = self._name(key, scope)
        text = as_json(value, f"store key {key!r}")
        self._write(_op("set", name, text, ttl=_ttl(ttl, key)), ("value", text))

    def delete(self, key: str, *, scope: str = "") -> None:
        """Forget `key`."""
        self._write(_op("delete", self._name(key, scope)), ("none", None))

    def incr(
        self, key: str, by: int = 1, *, field: str | None = None, scope: str = "", ttl: float | None = None
    ) -> int:
        """Add `by` to a counter, or to one `field` of a mapping of counters, and return the sum.

        ttl (seconds) counts from the first use of the key. The sum returned is what this caller sees; with several
        callers at once the counter still adds up.
        """
        name = self._name(key, scope)
        where = f"store key {key!r}" if field is None else f"store key {key!r}, field {field!r}"
        if field is not None:
            _check_field(field, where)
        if not _whole(by) or abs(by) > MAX_COUNT:
            raise StoreError(f"{where}: incr adds whole numbers within ±{MAX_COUNT}, got a {type(by).__name__}")
        fields = {} if field is None else self._read_as("hash", name, key) or {}
        text = self._read_as("value", name, key) if field is None else fields.get(field)
        before = 0 if text is None else json.loads(text)
        if not _whole(before):
            raise StoreError(f"{where} holds {before!r}, which is no counter; use another one or delete the key")
        total: int = before + by
        if abs(total) > MAX_COUNT:
            raise StoreError(f"{where}: a counter stays within ±{MAX_COUNT}, {before} + {by} does not")
        if field is None:
            self._write(_op("incr", name, str(by), ttl=_ttl(ttl, key)), ("value", str(total)))
        else:
            op = _op("add", name, str(by), field=field, ttl=_ttl(ttl, key))
            self._write(op, ("hash", {**fields, field: str(total)}))
        return total

    def append(self, key: str, value: Any, *, scope: str = "", keep: int = 200, ttl: float | None = None) -> None:
        """Append to a list that keeps its newest `keep` items; ttl (seconds) counts from now for the whole list."""
        name = self._name(key, scope)
        text = as_json(value, f"store key {key!r}")
        if not _whole(keep) or keep < 1:
            raise StoreError(f"store key {key!r}: keep is a whole number from 1 up, got {keep!r}")
        op = _op("append", name, text, ttl=_ttl(ttl, key), keep=keep)
        self._write(op, ("list", self._appended(name, key).with_one(text, keep)))

    def items(self, key: str, *, scope: str = "", last: int | None = None) -> list[Any]:
        """Return the items of a list, oldest first; `last` limits them to the newest."""
        if last is not None and (not _whole(last) or last < 0):
            raise StoreError(f"store key {key!r}: last is a whole number from 0 up, got {last!r}")
        return [json.loads(text) for text in self._read_as("list", self._name(key, scope), key, last) or ()]

    def put(self, key: str, field: str, value: Any, *, scope: str = "", ttl: float | None = None) -> None:
        """Set one field of a mapping; ttl (seconds) counts from now for the whole mapping."""
        name, where = self._name(key, scope), f"store key {key!r}, field {field!r}"
        _check_field(field, where)
        text = as_json(value, where)
        fields = self._read_as("hash", name, key) or {}
        self._write(_op("put", name, text, field=field, ttl=_ttl(ttl, key)), ("hash", {**fields, field: text}))

    def fields(self, key: str, *, scope: str = "") -> dict[str, Any]:
        """Return the fields of a mapping."""
        texts = self._read_as("hash", self._name(key, scope), key) or {}
        return {name: json.loads(text) for name, text in texts.items()}

    def _name(self, key: str, scope: str) -> str:
        step = active("lumia.store")
        plugin = self._plugin if self._plugin is not None else (step.plugin if step else None)
        if plugin is None:
            raise NotRunningError("outside of a handler the store needs a plugin: lumia.store.of('my-plugin').get(…)")
        if not key or not plugin or not all(map(_text, (plugin, scope, key))):
            raise StoreError(
                f"store of plugin {plugin!r}, key {key!r}, scope {scope!r}: each is text without NUL or lone "
                "surrogates, and only the scope may be empty"
            )
        return stored_name(plugin, scope, key)

    def _appended(self, name: str, key: str) -> _Appended:
        """Return what this step has appended to a list so far; only the type of what is stored is looked at."""
        step = active("lumia.store")
        known = step.overlay.get(name, ("", None))[1] if step is not None else None
        if isinstance(known, _Appended):
            return known
        return _Appended(stored=self._read_as("list", name, key, 0) is not None)

    def _read_as(self, wanted: str, name: str, key: str, last: int | None = None) -> Any:
        kind, found = self._read(name, last)
        if kind not in ("none", wanted):
            raise StoreError(
                f"store key {key!r} holds {_KINDS[kind]}, not {_KINDS[wanted]}; use another key or delete it"
            )
        return found

    def _read(self, name: str, last: int | None = None) -> tuple[str, Any]:
        step = active("lumia.store")
        if step is None or name not in step.overlay:
            return _stored(step, name, last)
        kind, value = step.overlay[name]
        if isinstance(value, _Appended):
            return "list", value.over(lambda few: _stored(step, name, few)[1] or [], last)
        return kind, value

    def _write(self, op: StoreOp, seen: tuple[str, Any]) -> None:
        step = active("lumia.store")
        if step is None:
            _transport(None).write([op])
            return
        step.writes.append(op)
        step.overlay[op.key] = seen


def stored_name(plugin: str, scope: str, key: str) -> str:
    """Return the name under which a transport knows a key."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in (plugin, scope, key))


def _stored(step: StepContext | None, name: str, last: int | None) -> tuple[str, Any]:
    """Return (type, value) as it is committed; of a list only its newest `last` items, so that no more is recorded."""
    shown = name if last is None else f"{name}[-{last}:]"
    kind, value = observed("store", shown, lambda: _transport(step).read(name, last))
    return kind, value


def _op(kind: str, name: str, value: str = "", **options: Any) -> StoreOp:
    from lumia.ports import StoreOp  # the ports cost more to import than all the rest of the public names

    return StoreOp(kind, name, value, **options)


def _transport(step: StepContext | None) -> Any:
    from lumia import runtime

    return (step.runtime if step else runtime.current()).transport


def _check_field(field: str, where: str) -> None:
    if not _text(field):
        raise StoreError(f"{where}: a field is text without NUL or lone surrogates")


def _ttl(ttl: float | None, key: str) -> float | None:
    if ttl is not None and not (is_seconds(ttl) and ttl >= MIN_TTL):
        raise StoreError(f"store key {key!r}: ttl is seconds, at least {MIN_TTL}, got {ttl!r}")
    return ttl


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _text(part: object) -> bool:
    if not isinstance(part, str) or "\x00" in part:
        return False
    try:
        part.encode()
    except UnicodeEncodeError:
        return False
    return True
