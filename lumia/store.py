"""`lumia.store`: small typed values per plugin and scope, kept by the transport (DESIGN §5).

In a handler writes wait for the step's commit and are seen by its own reads; elsewhere they happen at once. Values are
JSON values. A scope separates chats, users or whatever the plugin likes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from lumia.context import StepContext, active
from lumia.errors import NotRunningError, StoreError
from lumia.ports import StoreOp

_KINDS = {"value": "a value", "list": "a list", "hash": "fields", "none": "nothing"}


def _json(value: Any, where: str) -> str:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"{where}: {error}; the store keeps JSON values, put anything else into a Box") from error
    return text


class Store:
    """The store of one plugin, or of the plugin whose handler is running when `plugin` is None."""

    def __init__(self, plugin: str | None = None) -> None:
        self._plugin = plugin

    def of(self, plugin: str) -> Store:
        """Return the store of another plugin, for gateway routes, commands and tests."""
        return Store(plugin.replace("-", "_"))

    def get(self, key: str, default: Any = None, *, scope: str = "") -> Any:
        """Return the value of `key`, or `default`."""
        kind, text = self._read(self._name(key, scope))
        self._expect(kind, "value", key)
        return default if kind == "none" else json.loads(text)

    def set(self, key: str, value: Any, *, scope: str = "", ttl: float | None = None) -> None:
        """Set `key`; ttl: seconds until it is forgotten."""
        name = self._name(key, scope)
        text = _json(value, f"store key {key!r}")
        self._write(StoreOp("set", name, text, ttl=_ttl(ttl, key)), lambda _: ("value", text))

    def delete(self, key: str, *, scope: str = "") -> None:
        """Forget `key`."""
        self._write(StoreOp("delete", self._name(key, scope)), lambda _: ("none", None))

    def incr(self, key: str, by: int = 1, *, scope: str = "", ttl: float | None = None) -> int:
        """Add `by` to a counter and return the sum; ttl (seconds) counts from the counter's first use."""
        name = self._name(key, scope)
        if isinstance(by, bool) or not isinstance(by, int):
            raise StoreError(f"store key {key!r}: incr adds whole numbers, got {by!r}")
        kind, text = self._read(name)
        self._expect(kind, "value", key)
        before = 0 if kind == "none" else json.loads(text)
        if isinstance(before, bool) or not isinstance(before, int):
            raise StoreError(f"store key {key!r} holds {before!r}, which is no counter; use another key or delete it")
        total = before + by
        self._write(StoreOp("incr", name, str(by), ttl=_ttl(ttl, key)), lambda _: ("value", str(total)))
        return total

    def append(self, key: str, value: Any, *, scope: str = "", keep: int = 200, ttl: float | None = None) -> None:
        """Append to a list that keeps its newest `keep` items."""
        name = self._name(key, scope)
        self._expect(self._read(name)[0], "list", key)
        text = _json(value, f"store key {key!r}")
        if keep < 1:
            raise StoreError(f"store key {key!r}: keep is at least 1, got {keep!r}")

        def seen(old: tuple[str, Any]) -> tuple[str, Any]:
            return "list", [*(old[1] or []), text][-keep:]

        self._write(StoreOp("append", name, text, ttl=_ttl(ttl, key), keep=keep), seen)

    def items(self, key: str, *, scope: str = "", last: int | None = None) -> list[Any]:
        """Return the items of a list, oldest first; `last` limits them to the newest."""
        kind, texts = self._read(self._name(key, scope))
        self._expect(kind, "list", key)
        chosen = (texts or [])[-last:] if last else (texts or [])
        return [json.loads(text) for text in chosen]

    def put(self, key: str, field: str, value: Any, *, scope: str = "") -> None:
        """Set one field of a mapping."""
        name = self._name(key, scope)
        self._expect(self._read(name)[0], "hash", key)
        text = _json(value, f"store key {key!r}, field {field!r}")
        op = StoreOp("put", name, text, field=field)
        self._write(op, lambda old: ("hash", {**(old[1] or {}), field: text}))

    def fields(self, key: str, *, scope: str = "") -> dict[str, Any]:
        """Return the fields of a mapping."""
        kind, texts = self._read(self._name(key, scope))
        self._expect(kind, "hash", key)
        return {name: json.loads(text) for name, text in (texts or {}).items()}

    def _name(self, key: str, scope: str) -> str:
        step = active()
        plugin = self._plugin or (step.plugin if step else None)
        if plugin is None:
            raise NotRunningError("outside of a handler the store needs a plugin: lumia.store.of('my-plugin').get(…)")
        parts = (plugin, scope, key)
        if not key or any(not isinstance(part, str) or "\x00" in part or not _encodable(part) for part in parts):
            raise StoreError(f"store key {key!r} in scope {scope!r}: both are text without NUL or lone surrogates")
        return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)

    def _read(self, name: str) -> tuple[str, Any]:
        step = active()
        if step is not None and name in step.overlay:
            return step.overlay[name]
        found: tuple[str, Any] = _transport(step).read(name)
        return found

    def _write(self, op: StoreOp, seen: Callable[[tuple[str, Any]], tuple[str, Any]]) -> None:
        step = active()
        if step is None:
            _transport(None).write([op])
            return
        old = self._read(op.key)
        step.writes.append(op)
        step.overlay[op.key] = seen(old if op.op != "set" else ("none", None))

    def _expect(self, found: str, wanted: str, key: str) -> None:
        if found not in ("none", wanted):
            raise StoreError(
                f"store key {key!r} holds {_KINDS[found]}, not {_KINDS[wanted]}; use another key or delete it"
            )


def _transport(step: StepContext | None) -> Any:
    from lumia import runtime  # noqa: PLC0415 (the runtime imports the public modules)

    return (step.runtime if step else runtime.current()).transport


def _ttl(ttl: float | None, key: str) -> float | None:
    if ttl is not None and not (isinstance(ttl, (int, float)) and ttl > 0 and math.isfinite(ttl)):
        raise StoreError(f"store key {key!r}: ttl is seconds above 0, got {ttl!r}")
    return ttl


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
