"""What `lumia.store` keeps on the in-memory transport: the same types, conflicts and lifetimes as in Redis."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from lumia.errors import StoreError
from lumia.ports import StoreOp
from lumia.system import Clock

_WANTED = {"incr": "value", "append": "list", "put": "hash", "add": "hash"}
_MADE = {"set": "value", "delete": "none"} | _WANTED


class Values:
    """Store keys with type, value and end of life. Not safe for threads: the transport holds its lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: dict[str, tuple[str, Any, float | None]] = {}

    def read(self, key: str) -> tuple[str, Any]:
        """Return (type, value) of a key."""
        kind, value, until = self._values.get(key, ("none", None, None))
        if until is not None and until <= self._clock.monotonic():
            del self._values[key]
            return "none", None
        return kind, value

    def dump(self) -> dict[str, Any]:
        """Return everything that is kept, as JSON values; what has an end of life counts the seconds left."""
        now = self._clock.monotonic()
        live = {key: self._values[key] for key in list(self._values) if self.read(key)[0] != "none"}
        return {
            key: [kind, value, None if until is None else until - now] for key, (kind, value, until) in live.items()
        }

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Keep what `dump` returned."""
        now = self._clock.monotonic()
        for key, (kind, value, left) in dumped.items():
            self._values[key] = (kind, value, None if left is None else now + left)

    def check(self, ops: Sequence[StoreOp]) -> None:
        """Raise `StoreError` when one of the writes, made one after the other, would meet a key of another type."""
        ahead: dict[str, tuple[str, Any]] = {}
        for op in ops:
            kind, value = ahead.get(op.key) or self.read(op.key)
            if op.op in _WANTED and kind not in ("none", _WANTED[op.op]):
                raise StoreError(f"store key {op.key}: {op.op} on a {kind}; use another key or delete it")
            held = (value or {}).get(op.field) if op.op == "add" else value if op.op == "incr" else None
            if held is not None and not _is_count(held):
                raise StoreError(f"store key {op.key}: holds {held}, which is no counter; use another key or delete it")
            ahead[op.key] = (_MADE[op.op], _ahead(op, value))

    def write(self, op: StoreOp) -> None:
        """Make one write; `check` came before."""
        kind, value = self.read(op.key)
        kept = self._values[op.key][2] if kind != "none" else None
        until = self._clock.monotonic() + op.ttl if op.ttl else None
        if op.op == "delete":
            self._values.pop(op.key, None)
        elif op.op == "set":
            self._values[op.key] = ("value", op.value, until)
        elif op.op == "incr":
            self._values[op.key] = ("value", str(int(value or 0) + int(op.value)), until if kind == "none" else kept)
        elif op.op == "add":
            total = int((value or {}).get(op.field, 0)) + int(op.value)
            self._values[op.key] = ("hash", {**(value or {}), op.field: str(total)}, until if kind == "none" else kept)
        elif op.op == "append":
            self._values[op.key] = ("list", [*(value or []), op.value][-op.keep :], until or kept)
        else:
            self._values[op.key] = ("hash", {**(value or {}), op.field: op.value}, until or kept)


class StorePort:
    """The store's part of `InMemoryTransport`."""

    _changed: threading.Condition
    _values: Values

    def read(self, key: str, last: int | None = None) -> tuple[str, Any]:
        """Return (type, value) of a store key; last: of a list only so many of its newest items."""
        with self._changed:
            kind, value = self._values.read(key)
        return (kind, value) if last is None or kind != "list" else (kind, value[max(0, len(value) - last) :])

    def write(self, ops: Sequence[StoreOp]) -> None:
        """Apply store writes at once, all or none."""
        with self._changed:
            self._values.check(ops)
            for op in ops:
                self._values.write(op)

    def dump_store(self) -> dict[str, Any]:
        """Return every store value as JSON, for `load_store` of another transport."""
        with self._changed:
            return self._values.dump()

    def load_store(self, dumped: Mapping[str, Any]) -> None:
        """Take over the store values of another transport."""
        with self._changed:
            self._values.load(dumped)


def _ahead(op: StoreOp, value: Any) -> Any:
    """Return as much of the value after `op` as a later write could object to."""
    if op.op in ("put", "add"):
        return {**(value or {}), op.field: op.value}
    return {"incr": "0", "delete": None}.get(op.op, op.value)


def _is_count(text: str) -> bool:
    return text.removeprefix("-").isdigit()
