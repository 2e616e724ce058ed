"""All settings of one bot: `config/lumia.toml` and one TOML file per plugin (spec §8)."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lumia import config_messages as say
from lumia.config_edit import at
from lumia.config_env import CORE
from lumia.config_field import TABLE, Field, Keys
from lumia.config_live import ConfigProblem, LiveFile
from lumia.config_schema import Schema, complete, declared_schema, load_schema, merged, secrets_in
from lumia.errors import ConfigError, ConfigKeyError, ConfigSchemaError
from lumia.secrets import HIDDEN, redact

_NAME = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")


@cache
def core_schema() -> Schema:
    """Return the schema of `config/lumia.toml`."""
    return load_schema(Path(__file__).with_name("core-schema.toml"))


def canonical(name: str) -> str:
    """Return a plugin's hyphenated name; raises `ConfigSchemaError` for what can't be one."""
    if not _NAME.fullmatch(str(name)):
        raise ConfigSchemaError(f"{name!r} is no name of a plugin: take lower-case letters, digits and hyphens")
    return name.replace("_", "-")


class Settings:
    """A plugin's settings as attributes: reading gives the value in force, assigning writes the file (spec §8.3).

    A section is an attribute that has attributes. Lists and tables are copies: assign a new one to change a setting.
    Raises `ConfigKeyError` (an `AttributeError`) for an unknown name, on assignment also `ConfigValueError` and
    `ConfigError`.
    """

    __slots__ = ("_file", "_keys")

    def __init__(self, file: Callable[[], LiveFile], keys: Keys = ()) -> None:
        object.__setattr__(self, "_file", file)
        object.__setattr__(self, "_keys", keys)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked by copy, dill and debuggers; no setting starts so
            raise AttributeError(name)
        file, keys = self._file(), (*self._keys, name)
        try:
            return file.value(keys)
        except KeyError:
            if any(keys == place for place, _ in file.schema.sections()):
                return Settings(self._file, keys)
            raise say.no_such_setting(file.plugin, file.schema, keys) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._file().set((*self._keys, name), value)

    def __dir__(self) -> list[str]:
        section = dict(self._file().schema.sections())[self._keys]
        return [*super().__dir__(), *section.members]


class LiveTable(Mapping[str, Any]):
    """A table setting as it is now, at every look."""

    def __init__(self, file: LiveFile, keys: Keys) -> None:
        self._file, self._keys = file, keys

    def __getitem__(self, name: str) -> Any:
        return self._file.value(self._keys)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.value(self._keys))

    def __len__(self) -> int:
        return len(self._file.value(self._keys))


class ConfigStore:
    """The settings of the bot at `root`. core: those of Lumia itself.

    Making one reads `config/lumia.toml` (and writes it, commented, when it is absent). environ: where overriding
    variables are looked up. Raises `ConfigValueError` or `ConfigError` when the file is invalid.
    """

    def __init__(self, root: Path | str, *, environ: Mapping[str, str] | None = None) -> None:
        self.root = Path(root).absolute()
        self.folder = self.root / "config"
        self._environ = os.environ if environ is None else environ
        self._lock = threading.RLock()
        self._files: dict[str, LiveFile] = {}
        self.derived: dict[Any, Any] = {}
        if not self.root.is_dir():
            raise ConfigError(f"{self.root} is no folder, so it can't be a bot root; make one with `lumia init`")
        with contextlib.suppress(OSError):  # told when a file can't be written there
            self.folder.mkdir(exist_ok=True)
        self._files[CORE] = self._open(CORE, core_schema())
        self.core = self.settings(CORE)

    def register(
        self, plugin_name: str, schema_file: Path | Schema | None, declared: Mapping[str, Field] | None = None
    ) -> Settings:
        """Use a plugin's settings: make or complete its file, read it, return them.

        schema_file: the plugin's `config-schema.toml`, or a schema made otherwise; `declared` complements it.
        Registering again replaces the schema, as after an upgrade. Raises `ConfigSchemaError`, `ConfigValueError` or
        `ConfigError`; then a plugin that was registered keeps the schema and values it had.
        """
        name = canonical(plugin_name)
        if name == CORE:
            raise ConfigSchemaError(f"no plugin can be called {CORE}: config/lumia.toml belongs to Lumia itself")
        schema = complete(_joined(name, schema_file, declared))
        with self._lock:
            if name in self._files:
                self._files[name].adopt(schema)
            else:
                self._files[name] = self._open(name, schema)
        return self.settings(name)

    def extend(self, plugin: str, schema: Schema) -> Settings:
        """Add settings to those a plugin has; raises `ConfigSchemaError` when the two disagree."""
        with self._lock:
            file = self._files.get(canonical(plugin))
            return self.register(plugin, schema if file is None else merged(file.schema, schema))

    def plugins(self) -> list[str]:
        """Return the names of the registered plugins."""
        return sorted(name for name in self._files if name != CORE)

    def settings(self, plugin: str) -> Settings:
        """Return the settings of a registered plugin; raises `ConfigKeyError` naming the closest one."""
        file = self.file(plugin)
        return Settings(lambda: file)

    def schema(self, plugin: str = CORE) -> Schema:
        """Return the schema a plugin is registered with."""
        return self.file(plugin).schema

    def table(self, path: str | Sequence[str], plugin: str = CORE) -> Mapping[str, Any]:
        """Return a table as a mapping that follows its file; raises `ConfigKeyError` when it is none."""
        file, keys = self.file(plugin), _keys(path)
        if dict(file.schema.leaves()).get(keys, Field("str")).type != TABLE:
            raise say.no_such_setting(file.plugin, file.schema, keys)
        return LiveTable(file, keys)

    def get_path(self, path: str | Sequence[str], plugin: str = CORE) -> Any:
        """Return a value by its dotted place (`"worker.concurrency"`, `"models.main.model"`); a section as a dict.

        A place may be given as a sequence where a table's entry has a dot in its name. Raises `ConfigKeyError`.
        """
        file, keys = self.file(plugin), _keys(path)
        found = at(_nested(file.values()), keys, None)
        if found is None:
            raise say.no_such_setting(file.plugin, file.schema, keys)
        return found

    def set_path(self, path: str | Sequence[str], value: Any, plugin: str = CORE) -> None:
        """Set a value by its place, also a single entry of a table; raises as assigning an attribute does."""
        self.file(plugin).set(_keys(path), value)

    def remove_path(self, path: str | Sequence[str], plugin: str = CORE) -> None:
        """Remove a table's entry, or a setting so that its default holds."""
        self.file(plugin).remove(_keys(path))

    def as_dict(self, plugin: str = CORE, *, hide: bool = True) -> dict[str, Any]:
        """Return all values of a plugin as nested dicts. hide: secrets as `***`."""
        file = self.file(plugin)
        values = file.values()
        shown = {keys: _hidden(field, keys[-1], values[keys]) for keys, field in file.schema.leaves()}
        return _nested(shown if hide else values)

    def problems(self) -> list[ConfigProblem]:
        """Return what is wrong with any file now: errors (last good values hold) and warnings."""
        return [problem for file in list(self._files.values()) for problem in file.problems()]

    def known_secrets(self) -> frozenset[str]:
        """Return the secrets in all settings, and those in the variables that `…_env` settings name, for `redact`."""
        found: set[str] = set()
        for file in list(self._files.values()):
            values = file.values()
            found.update(secrets_in(file.schema, values))
            found.update(self._environ.get(name, "") for name in _variables(_nested(values)))
        return frozenset(found - {""})

    def file(self, plugin: str) -> LiveFile:
        """Return the live file of a registered plugin; raises `ConfigKeyError`."""
        name = canonical(plugin)
        if name in self._files:
            return self._files[name]
        import difflib

        near = difflib.get_close_matches(name, self._files, 1)
        raise ConfigKeyError(
            f"no plugin {name} has declared settings{f' (did you mean {near[0]}?)' if near else ''}; "
            f"there are those of {', '.join(self._files)}"
        )

    def _open(self, name: str, schema: Schema) -> LiveFile:
        path = self.folder / f"{name}.toml"
        other = self.folder / f"{name.replace('-', '_')}.toml"
        return LiveFile(
            name, other if other.is_file() and not path.exists() else path, schema, self._environ, core_schema()
        )


def _joined(name: str, described: Path | Schema | None, declared: Mapping[str, Field] | None) -> Schema:
    schema = load_schema(described) if isinstance(described, Path) else described
    if schema is None:
        return declared_schema(name, declared or {})
    return merged(schema, declared_schema(name, declared)) if declared else schema


def _keys(path: str | Sequence[str]) -> Keys:
    return tuple(path.split(".")) if isinstance(path, str) else tuple(path)


def _nested(values: Mapping[Keys, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for keys, value in values.items():
        inner = tree
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = value
    return tree


def _hidden(field: Field, name: str, value: Any) -> Any:
    if field.fields:
        return {
            entry: {key: _hidden(field.fields[key], key, item) for key, item in items.items()}
            for entry, items in value.items()
        }
    return HIDDEN if value and field.hides(name) else redact(value) if field.type == TABLE else value


def _variables(tree: Mapping[str, Any]) -> list[str]:
    names: list[str] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            names += _variables(value)
        elif key.endswith("_env") and isinstance(value, str):
            names.append(value)
    return names
