"""One plugin's settings file while a bot runs: last good values, changes by others, writes (spec §8.3)."""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lumia import config_messages as say
from lumia.config_edit import at, drop, generated, incomplete, put, same, upgraded
from lumia.config_env import overridden, variable
from lumia.config_field import TABLE, Field, Findings, Keys, fit
from lumia.config_file import Document, Stamp, parse, read, read_if_there, rewrite
from lumia.config_schema import Schema, evaluate, secrets_in
from lumia.context import here
from lumia.errors import ConfigError, ConfigValueError
from lumia.recording import observed

CHECK_EVERY = 0.2
"""Seconds between two looks at a file; an access takes the look, no thread waits for changes."""

_SETTLE = 0.1  # s: a file changed in place this recently may be half written
_SETTLE_AT_MOST = 0.5
_RACY = 2_000_000_000  # ns: where file times are coarse, two changes this close can leave the same stamp
_log = logging.getLogger("lumia.config")


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """What is wrong with a plugin's settings now. An `error` keeps the file from being used, a `warning` doesn't."""

    plugin: str
    file: Path
    severity: Literal["error", "warning"]
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class _State:
    """What a file says: its text, every value, and what to warn of."""

    document: Document
    data: Mapping[str, Any]
    values: Mapping[Keys, Any]
    warnings: tuple[str, ...]


class LiveFile:
    """The settings of one plugin: their file, schema and the values in force. May be used from any thread.

    Reading a value costs a clock call and a dict lookup; at most every `CHECK_EVERY` seconds it also looks at the file.
    """

    def __init__(self, plugin: str, path: Path, schema: Schema, environ: Mapping[str, str], core: Schema) -> None:
        self.plugin, self.path, self.schema = plugin, path, schema
        self._environ, self._core = environ, core
        self._guard, self._owner = threading.RLock(), os.getpid()
        self._retired: Mapping[Keys, Any] = {}
        self._hidden: tuple[Schema | None, frozenset[Keys]] = (None, frozenset())
        self._error = self._unwritten = ""
        self._told: set[str] = set()
        self._seen: Stamp | None = None
        self._settled = False
        self._changing_since: float | None = None
        self._next_check = 0.0
        self._state = self._prepared(schema)

    def adopt(self, schema: Schema) -> None:
        """Use another schema, as after an upgrade; raises `ConfigError` and changes nothing when the file doesn't fit.

        What the new schema leaves out stays readable: handlers of the old version may still be finishing their runs.
        """
        with self._lock():
            state = self._prepared(schema)
            before = {**self._retired, **self._state.values}
            self._retired = {keys: value for keys, value in before.items() if keys not in state.values}
            self.schema = schema
            self._succeed(state)

    # --- Reading ------------------------------------------------------------------------------------------------------

    def value(self, keys: Keys) -> Any:
        """Return the value in force; raises `KeyError` for what is no setting. In a step it is recorded for replay."""
        if here() is None:
            return self._value(keys)
        name = f"{self.plugin}/{say.dotted(keys)}"
        return observed("config", name, lambda: self._value(keys), hide=lambda: self._is_secret(keys))

    def _is_secret(self, keys: Keys) -> bool:
        known, secret = self._hidden
        if known is not self.schema:
            schema = self.schema
            secret = frozenset(place for place, field in schema.leaves() if field.hides(place[-1]))
            self._hidden = (schema, secret)
        return keys in secret

    def _value(self, keys: Keys) -> Any:
        if time.monotonic() >= self._next_check:
            self.refresh()
        values = self._state.values
        found = values[keys] if keys in values else self._retired[keys]
        return copy.deepcopy(found) if isinstance(found, list | dict) else found

    def state(self) -> object:
        """Return what is another object once a value in force has changed; costs no more than reading one."""
        if time.monotonic() >= self._next_check:
            self.refresh()
        return self._state

    def values(self) -> dict[Keys, Any]:
        """Return all values in force."""
        self.refresh()
        return copy.deepcopy(dict(self._state.values))

    def problems(self) -> list[ConfigProblem]:
        """Return what is wrong with the file now."""
        self.refresh()
        errors, warnings = filter(None, [self._error]), filter(None, [*self._state.warnings, self._unwritten])
        return [
            *(ConfigProblem(self.plugin, self.path, "error", text) for text in errors),
            *(ConfigProblem(self.plugin, self.path, "warning", text) for text in warnings),
        ]

    def refresh(self) -> None:
        """Take over what others have written to the file; an invalid file changes nothing but `problems()`."""
        guard = self._lock()
        if not guard.acquire(blocking=False):
            return  # another thread is at it; this one sees the result at its next access
        try:
            self._next_check = time.monotonic() + CHECK_EVERY
            self._look()
        finally:
            guard.release()

    def _lock(self) -> threading.RLock:
        # A process forked while a thread held the lock would wait for a thread it doesn't have.
        if self._owner != os.getpid():
            self._guard, self._owner = threading.RLock(), os.getpid()
        return self._guard

    def _look(self) -> None:
        try:
            now = Stamp.of(self.path.stat())
            if now == self._seen and self._settled:
                return
            if self._half_written(now):
                self._next_check = time.monotonic() + _SETTLE
            else:
                self._take(read(self.path))
        except FileNotFoundError:
            self._seen = None  # also the same file, moved back, is news
            if self._state.document.stamp is not None:  # else it could never be written, which was told
                self._fail(f"{self.path} is gone; the last good values hold, and the next change writes the file again")
        except OSError as error:
            self._seen = None
            self._fail(f"{self.path} can't be looked at ({error.strerror}); the last good values hold")
        except ConfigError as error:
            self._fail(f"{str(error).rstrip('.')}. Until then the last good values hold.")

    def _half_written(self, now: Stamp) -> bool:
        """Tell whether the file is being changed in place: an editor may have emptied it and not yet filled it."""
        in_place = self._seen is not None and now != self._seen and now.inode == self._seen.inode
        if not in_place or not 0 <= time.time() - now.modified / 1e9 < _SETTLE:
            self._changing_since = None
            return False
        if self._changing_since is None:
            self._changing_since = time.monotonic()
        return time.monotonic() - self._changing_since < _SETTLE_AT_MOST

    def _take(self, document: Document) -> None:
        """Use what was just read; raises `ConfigError` when it is invalid, then the old values stay."""
        self._remember(document)
        if document.text != self._state.document.text or self._error:
            self._succeed(self._evaluated(self.schema, document))

    def _succeed(self, state: _State) -> None:
        self._told.discard(self._error)  # should it come again, it is news again
        self._state, self._error = state, ""

    def _remember(self, document: Document) -> None:
        self._seen, self._changing_since = document.stamp, None
        self._settled = document.stamp is not None and time.time_ns() - document.stamp.modified > _RACY

    def _evaluated(self, schema: Schema, document: Document) -> _State:
        """Return the state a document stands for; raises `ConfigError`."""
        data, found = parse(document.text, self.path), Findings()
        plain = evaluate(schema, data, found)
        values, environment = self._overridden(schema, plain)
        wrong = [say.in_file(self.path, fault) for fault in found.faults]
        wrong += [say.in_environment(fault) for fault in environment.faults]
        if wrong:
            raise ConfigValueError(" ".join(wrong))
        warnings = [say.unknown_in_file(self.path, self.plugin, schema, keys) for keys in found.unknown]
        warnings += [say.unknown_variable(self.plugin, name) for (name,) in environment.unknown]
        if document.stamp is not None and document.stamp.mode & 0o077 and any(secrets_in(schema, plain)):
            warnings.append(f"{self.path} holds secrets and other users can read it; run `chmod 600 {self.path}`")
        for text in warnings:
            self._tell(text)
        return _State(document, data, values, tuple(warnings))

    def _overridden(self, schema: Schema, values: Mapping[Keys, Any]) -> tuple[dict[Keys, Any], Findings]:
        return overridden(self.plugin, schema, values, self._environ, self._core)

    def _fail(self, message: str) -> None:
        self._error = message
        self._tell(message, logging.ERROR)

    def _tell(self, message: str, level: int = logging.WARNING) -> None:
        if message not in self._told:
            self._told.add(message)
            _log.log(level, "%s", message)

    # --- Starting -----------------------------------------------------------------------------------------------------

    def _prepared(self, schema: Schema) -> _State:
        """Return the first state under a schema, with the file made or completed; raises `ConfigError`."""
        document = read_if_there(self.path)
        state = self._evaluated(schema, document)  # an invalid file is refused before it is touched
        if document.stamp is None or incomplete(state.data, document.text, schema):
            state = self._evaluated(schema, self._completed(schema, document))
        self._remember(state.document)
        self._next_check = time.monotonic() + CHECK_EVERY
        return state

    def _completed(self, schema: Schema, document: Document) -> Document:
        def completed(now: Document) -> str:
            return upgraded(now.text, schema) if now.text.strip() else generated(self.plugin, schema)

        try:
            self._unwritten = ""
            return rewrite(self.path, completed, mode=_mode(schema))
        except OSError as error:
            # A read-only configuration is a way to run bots: what is missing has its default.
            self._unwritten = f"{self.path} lacks settings and can't be completed ({error.strerror}); defaults hold"
            self._tell(self._unwritten)
            return document

    # --- Writing ------------------------------------------------------------------------------------------------------

    def set(self, keys: Keys, value: Any) -> None:
        """Set one setting, or one entry or value of a table, and flush it.

        Raises `ConfigKeyError` for what is no setting, `ConfigValueError` for what is not allowed, `ConfigError` when
        the file can't be written; then nothing is changed, neither in the file nor in force.
        """
        place, field = self._field(keys)
        checked = self._checked(place, field, keys, value)
        self._change(place, keys, lambda text: put(text, keys, _sparse(field, place, keys, checked, text)))

    def remove(self, keys: Keys) -> None:
        """Remove a table's entry, or a setting from the file so that its default holds; raises as `set` does."""
        place, _ = self._field(keys)
        self._change(place, keys, lambda text: drop(text, keys))

    def _field(self, keys: Keys) -> tuple[Keys, Field]:
        """Return the field that `keys` names or is inside of, with its place."""
        for place, field in self.schema.leaves():
            if keys == place or (field.type == TABLE and keys[: len(place)] == place):
                return place, field
        raise say.no_such_setting(self.plugin, self.schema, keys)

    def _checked(self, place: Keys, field: Field, keys: Keys, value: Any) -> Any:
        inside, found = keys[len(place) :], Findings()
        for name in reversed(inside):
            value = {name: value}
        checked = fit(field, value, place, found, fill=False)
        if found.unknown:
            raise say.no_such_setting(self.plugin, self.schema, found.unknown[0])
        if found.faults:
            raise ConfigValueError(say.in_call(self.path, self.plugin, found.faults[0]))
        return at(checked, inside)

    def _change(self, place: Keys, keys: Keys, edit: Callable[[str], str]) -> None:
        def edited(now: Document) -> str:
            # A file someone removed comes back as it last was.
            text = self._state.document.text if now.stamp is None else now.text
            parse(text, self.path)
            try:
                return edit(text)
            except ConfigError as error:
                raise ConfigError(f"{self.path}: {error}") from error

        try:
            with self._lock():
                self._use(rewrite(self.path, edited, mode=_mode(self.schema)), place)
        except OSError as error:
            raise ConfigError(
                f"{say.dotted(keys)} of {self.plugin} was not changed: {self.path} can't be written "
                f"({error.strerror}); look at the rights and the free space there"
            ) from error
        name = variable(self.plugin, place)
        if name in self._environ:
            self._tell(f"{self.path}: {say.written(place)} was changed, but the environment variable {name} beats it")

    def _use(self, document: Document, place: Keys) -> None:
        """Put a change of ours in force, even where a hand edit of another setting keeps the file from being used."""
        self._remember(document)
        try:
            self._succeed(self._evaluated(self.schema, document))
        except ConfigError as error:
            ours = evaluate(self.schema, parse(document.text, self.path), Findings())[place]
            values, _ = self._overridden(self.schema, {**self._state.values, place: ours})
            self._state = dataclasses.replace(self._state, values=values)
            self._fail(f"{str(error).rstrip('.')}. Until then the last good values hold.")


def _mode(schema: Schema) -> int:
    return 0o600 if schema.private else 0o644


def _sparse(field: Field, place: Keys, keys: Keys, value: Any, text: str) -> Any:
    """Return a table without the defaults that the file leaves out, which a read-change-write would else fill in."""
    fields, depth = field.fields, len(keys) - len(place)
    if fields is None or depth > 1:
        return value
    have = at(parse(text, ""), keys, {})
    if depth == 1:
        return _without_defaults(fields, value, have)
    return {name: _without_defaults(fields, entry, at(have, (name,), {})) for name, entry in value.items()}


def _without_defaults(fields: Mapping[str, Field], entry: Mapping[str, Any], have: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in entry.items()
        if at(have, (name,), None) is not None or not same(value, fields[name].initial)
    }
