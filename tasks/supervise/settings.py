"""What `lumia up` reads from config/lumia.toml, and where the servers of a bot are.

Read with the standard library alone, since the first line of `lumia up` must not wait for the whole configuration
layer; `lumia doctor` checks every file through that layer.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lumia.errors import ConfigValueError
from lumia.paths import CONFIG_FILE

_FSYNC = ("everysec", "always")
_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True)
class Settings:
    """Ports, addresses and switches of the supervised processes; defaults as in `lumia/core-schema.toml`."""

    gateway_host: str = "127.0.0.1"
    gateway_port: int = 8470
    gateways: int = 1
    flower_port: int = 8471
    redis_port: int = 8472
    postgres_port: int = 8473
    postgres_enabled: bool = True
    appendfsync: str = "everysec"

    def moved_to(self, first: int) -> Settings:
        """Return the same settings on four ports in a row from `first`, in the order of the defaults."""
        if not 1 <= first <= 65532:
            raise ConfigValueError(f"--port {first}: four ports in a row are used, so give 1 to 65532")
        return replace(self, gateway_port=first, flower_port=first + 1, redis_port=first + 2, postgres_port=first + 3)


def read_settings(root: Path) -> Settings:
    """Read `root`/config/lumia.toml and the variables over it (`LUMIA__REDIS__PORT`); what is absent is the default.

    Raises `ConfigValueError` naming file, key, value and the allowed range.
    """
    reader = _Reader(root / CONFIG_FILE)
    return Settings(
        gateway_host=reader.text("gateway", "host", Settings.gateway_host),
        gateway_port=reader.port("gateway", Settings.gateway_port),
        gateways=reader.number("gateway", "processes", Settings.gateways, 1, 64),
        flower_port=reader.port("flower", Settings.flower_port),
        redis_port=reader.port("redis", Settings.redis_port),
        postgres_port=reader.port("postgres", Settings.postgres_port),
        postgres_enabled=reader.switch("postgres", "enabled", Settings.postgres_enabled),
        appendfsync=reader.choice("redis", "appendfsync", Settings.appendfsync, _FSYNC),
    )


class _Reader:
    """Takes values from the environment first, as the whole configuration layer does, then from the file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tables = _load(file)

    def _value(self, table: str, key: str, default: Any) -> Any:
        given = os.environ.get(_variable(table, key))
        if given is not None:
            return _parsed(given, default)
        found = self._tables.get(table, {})
        return found.get(key, default) if isinstance(found, Mapping) else default

    def _refuse(self, table: str, key: str, value: object, allowed: str) -> ConfigValueError:
        name = _variable(table, key)
        place = f"{name} =" if name in os.environ else f"{self._file}: [{table}] {key} ="
        return ConfigValueError(f"{place} {value!r} is not allowed; use {allowed}")

    def text(self, table: str, key: str, default: str) -> str:
        value = self._value(table, key, default)
        if not isinstance(value, str) or not value:
            raise self._refuse(table, key, value, "a text")
        return value

    def switch(self, table: str, key: str, default: bool) -> bool:
        value = self._value(table, key, default)
        if not isinstance(value, bool):
            raise self._refuse(table, key, value, "true or false")
        return value

    def port(self, table: str, default: int) -> int:
        return self.number(table, "port", default, 1, 65535)

    def number(self, table: str, key: str, default: int, least: int, most: int) -> int:
        value = self._value(table, key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._refuse(table, key, value, f"a whole number from {least} to {most}")
        return value

    def choice(self, table: str, key: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self._value(table, key, default)
        if value not in allowed:
            raise self._refuse(table, key, value, "one of " + ", ".join(allowed))
        return str(value)


def _variable(table: str, key: str) -> str:
    return f"LUMIA__{table}__{key}".upper()


def _parsed(text: str, default: Any) -> Any:
    """Read a variable as what the default is; what can't be read stays text and is refused."""
    if isinstance(default, bool):
        return _TRUTH.get(text.strip().lower(), text)
    if isinstance(default, int) and text.strip().isdigit():
        return int(text)
    return text


def _load(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigValueError(f"{file} can't be read as TOML: {error}; correct it and start again") from error
