"""Settings of plugins and of Lumia itself: declare, read and write them (spec §7.5, §8).

::

    lumia.config.declare("heartflow", {
        "trigger_threshold": lumia.config.field(float, default=0.65, desc="Engagement trigger threshold"),
    })
    cfg = lumia.config.get("heartflow")
    cfg.trigger_threshold          # typed, always the value in force
    cfg.trigger_threshold = 0.7    # written to config/heartflow.toml at once

The same fields may be described in the plugin's `config-schema.toml`; the two complement each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, NamedTuple, TypeVar

from lumia.config_field import TYPE_NAMES, UNSET, Field
from lumia.config_live import ConfigProblem, LiveFile
from lumia.config_schema import Schema, declared_schema, load_schema, merged
from lumia.config_store import ConfigStore, Settings, canonical
from lumia.context import here
from lumia.errors import ConfigError, NotRunningError

__all__ = [
    "ConfigProblem", "ConfigStore", "Field", "Schema", "Settings", "collect", "declare", "derived", "field", "get",
    "load_schema",
]  # fmt: skip

T = TypeVar("T")
Declared = dict[str, dict[str, Field]]

_collecting: ContextVar[Declared | None] = ContextVar("lumia_config_collecting", default=None)
_pending: Declared = {}


def field(
    type: object, default: Any = UNSET, desc: str = "", min: float | None = None, max: float | None = None,
    choices: Any = None, *, secret: bool = False, fields: Mapping[str, Field] | None = None,
) -> Field:  # fmt: skip
    """Describe one setting for `declare`.

    type: `str`, `int`, `float`, `bool`, `list[str]`, `list[int]`, `list[float]` or `dict` (a table), or its name as in
    a schema file. default: without one, the type's empty value. min, max: bounds, allowed themselves. choices: the
    only values allowed. secret: never printed. fields: for a table, the settings of each of its entries.
    """
    name = type if isinstance(type, str) else _type_name(type)
    allowed = tuple(choices) if isinstance(choices, list | set | frozenset) else choices
    return Field(name, default, desc, min, max, allowed, secret, fields)


def _type_name(type_: object) -> str:
    try:
        return TYPE_NAMES.get(type_) or repr(type_)
    except TypeError:  # not hashable, so no type
        return repr(type_)


def declare(plugin: str, fields: Mapping[str, Field]) -> None:
    """Declare settings of a plugin (spec §7.5); a dot in a name makes a section.

    While a plugin is loaded its loader takes them. Outside of loading they go to the active bot, or wait for one that
    asks for them. Raises `ConfigSchemaError` when a field makes no sense or disagrees with an earlier one.
    """
    name, schema = canonical(plugin), declared_schema(plugin, fields)
    collected = _collecting.get()
    if collected is None:
        store = _active_store()
        if store is not None:
            store.extend(name, schema)
            return
        collected = _pending
    if name in collected:
        schema = merged(declared_schema(plugin, collected[name]), schema)
    collected[name] = {".".join(keys): found for keys, found in schema.leaves()}


@contextmanager
def collect() -> Iterator[Declared]:
    """Collect what `declare` is told in the block: by plugin name (hyphenated), then by setting.

    A loader imports a plugin inside it and gives the result to `ConfigStore.register`.
    """
    declared: Declared = {}
    token = _collecting.set(declared)
    try:
        yield declared
    finally:
        _collecting.reset(token)


def get(plugin: str) -> Settings:
    """Return the settings of a plugin of the active bot.

    It may be called before the plugin is loaded (at the top of its module); then reading a value raises
    `NotRunningError` or `ConfigError` until it is. Raises `ConfigKeyError` when a running bot knows no such plugin.
    """
    name = canonical(plugin)
    store = _active_store()
    if store is None or _collecting.get() is not None:
        return Settings(lambda: _find(name))
    file = _registered(store, name)
    return Settings(lambda: file)


class Derived(NamedTuple):
    """What a function has made of settings. pairs: their files, and the state of each then."""

    pairs: tuple[tuple[LiveFile, object], ...]
    value: Any


def derived(*plugins: str) -> Callable[[Callable[[], T]], Callable[[], T]]:
    """Keep what a function without arguments makes of the settings of `plugins` until one of them changes.

    For what is read with every request. Each bot has its own; in a step, whose reads are recorded for replay, it is
    made anew each time. Whoever calls it must not change what it returns.
    """
    names = [canonical(plugin) for plugin in plugins]

    def decorate(make: Callable[[], T]) -> Callable[[], T]:
        @wraps(make)
        def kept() -> T:
            store = _active_store()
            if store is None or here() is not None:
                return make()
            known = store.derived.get(make)
            if known is not None:
                for file, state in known.pairs:
                    if file.state() is not state:
                        break
                else:
                    value: T = known.value
                    return value
            files = [_registered(store, name) for name in names]
            states = [file.state() for file in files]
            value = make()
            store.derived[make] = Derived(tuple(zip(files, states, strict=True)), value)
            return value

        return kept

    return decorate


def _find(name: str) -> LiveFile:
    store = _active_store()
    if store is None:
        _runtime().current()
        raise NotRunningError("the active bot has no configuration; open it with lumia.runtime.open_bot()")
    if _collecting.get() is not None and name not in store.plugins():
        raise ConfigError(f"settings of {name} can be read once it is loaded: in on_load() or in a handler")
    return _registered(store, name)


def _registered(store: ConfigStore, name: str) -> LiveFile:
    if name in _pending and name not in store.plugins():
        store.register(name, None, _pending[name])
    return store.file(name)


def _active_store() -> ConfigStore | None:
    bot = _runtime().active()
    if bot is None:
        return None
    store: ConfigStore = bot.config
    return store


@cache
def _runtime() -> Any:
    from lumia import runtime  # which needs this module

    return runtime
