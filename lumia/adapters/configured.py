"""Which accounts the bot's configuration names, read from its files without loading or writing anything."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lumia.discovery import Found, discover
from lumia.manifest import DEFAULT_SCHEMA_FILE, Adapter
from lumia.marks import is_name


@dataclass(frozen=True)
class Plugin:
    """An adapter there is. table: the setting that holds its accounts, "" when it has one account only.

    owned: an account has the setting `owner`, who gets the probe. disabled: it is switched off in config/lumia.toml.
    """

    name: str
    adapter: Adapter
    folder: Path
    schema: Path
    table: str
    disabled: bool = False
    owned: bool = False


@dataclass(frozen=True)
class Configured:
    """An account of the configuration. settings: as they stand in the file."""

    plugin: Plugin
    account: str
    enabled: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return `adapter/account`."""
        return f"{self.plugin.name}/{self.account}"

    @property
    def destination(self) -> str:
        """Return where a message to the account's owner goes, "" without one; a group is written group-<id>."""
        from lumia.payloads import destination

        owner = str(self.settings.get("owner") or "")
        if not owner:
            return ""
        kind, dash, id = owner.partition("-")
        about = self.plugin.adapter
        if kind in ("group", "private") and dash and id:
            return destination(about.pid, about.platform, kind, id)
        return destination(about.pid, about.platform, "private", owner)


def plugins(base: Path, root: Path, disabled: Collection[str] = ()) -> list[Plugin]:
    """Return the adapters of a bot, by name."""
    found = (_plugin(one) for one in discover(base, root, disabled))
    return sorted((one for one in found if one is not None), key=lambda one: one.name)


def _plugin(found: Found) -> Plugin | None:
    if found.manifest is None or found.manifest.adapter is None:
        return None
    adapter = found.manifest.adapter
    schema = found.folder / (found.manifest.config_schema or DEFAULT_SCHEMA_FILE)
    declared = read(schema)
    table = adapter.accounts if adapter.accounts in declared else ""
    fields = declared[table].get("fields") if table and isinstance(declared[table], Mapping) else None
    owned = isinstance(fields, Mapping) and "owner" in fields
    return Plugin(found.name, adapter, found.folder, schema, table, found.disabled, owned)


def configured(base: Path, root: Path, disabled: Collection[str] = ()) -> list[Configured]:
    """Return the configured accounts of every adapter, by adapter and name."""
    return [account for plugin in plugins(base, root, disabled) for account in of_plugin(plugin, root)]


def of_plugin(plugin: Plugin, root: Path) -> Iterator[Configured]:
    """Yield the accounts that an adapter's file names; an adapter without such tables has one, called like it.

    What can't be a name (empty, unprintable) is left out: the adapter's check tells of it.
    """
    if not plugin.table:
        yield Configured(plugin, plugin.name, not plugin.disabled)
        return
    tables = read(file_of(plugin.name, root)).get(plugin.table)
    for name, settings in sorted(tables.items()) if isinstance(tables, Mapping) else ():
        if isinstance(settings, Mapping) and is_name(name):
            enabled = settings.get("enabled", True) is not False and not plugin.disabled
            yield Configured(plugin, name, enabled, settings)


def file_of(name: str, root: Path) -> Path:
    """Return a plugin's settings file."""
    path, other = (root / "config" / f"{spelled}.toml" for spelled in (name, name.replace("-", "_")))
    return other if other.is_file() and not path.exists() else path


def read(file: Path) -> dict[str, Any]:
    """Return what a TOML file says; nothing when it is absent or wrong, which `lumia doctor` tells."""
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}
