"""Settings files in an operation: made at install, completed at upgrade, never losing what somebody set (spec §8.2).

Only `config-schema.toml` is looked at, for no plugin's code runs here; what a plugin declares in code is added when it
loads. A setting that the new version no longer has stays in the file as a comment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lumia.config_edit import at, drop, generated, incomplete, put, same, upgraded
from lumia.config_field import Findings, Keys
from lumia.config_file import parse
from lumia.config_messages import in_file
from lumia.config_schema import Schema, complete, evaluate, load_schema
from lumia.errors import ConfigError, ConfigValueError
from lumia.manifest import DEFAULT_SCHEMA_FILE, Manifest, load_manifest

_NONE = object()
_LONGEST_VALUE = 200
"""Lines a single value may have to be commented where it stands."""


def schema_of(folder: Path, manifest: Manifest | None = None) -> Schema | None:
    """Return the schema in a plugin's folder; None when it has no schema file. Raises `ConfigSchemaError`."""
    named = (manifest or load_manifest(folder)).config_schema
    file = folder / (named or DEFAULT_SCHEMA_FILE)
    return complete(load_schema(file)) if named or file.is_file() else None


def completed(
    name: str, version: str, path: Path, text: str, schema: Schema | None, old: Schema | None, folder: Path
) -> str:
    """Return the text of a plugin's settings file for a new version; `text` is that of the present file, or empty.

    path: the file, for messages. schema: of the new version, old: of the version that is replaced; folder: of the new
    one. Raises `ConfigError` when the file is no TOML, `ConfigValueError` when a value in it isn't allowed any more.
    """
    if schema is None:
        return text
    if not text.strip():
        return generated(name, schema)
    data, found = parse(text, path), Findings()
    evaluate(schema, data, found)
    if found.faults:
        wrong = " ".join(in_file(path, fault) for fault in found.faults)
        raise ConfigValueError(f"the settings don't fit {name} {version}: {wrong}")
    new = upgraded(text, schema) if incomplete(data, text, schema) else text
    for keys in _gone(schema, old, folder):
        if at(parse(new, path), keys, _NONE) is not _NONE:
            new = _retired(new, keys, f"not used since {version}")
    return new


def _gone(schema: Schema, old: Schema | None, folder: Path) -> Iterator[Keys]:
    """Yield the settings that were in the old schema and are neither in the new one nor declared in its code."""
    if old is None:
        return
    there = {keys for keys, _ in schema.leaves()}
    code = b"".join(_declaring(folder))
    for keys, _ in old.leaves():
        inside = any(keys[: len(place)] == place or place[: len(keys)] == keys for place in there)
        if not inside and keys[-1].encode() not in code:
            yield keys


def _declaring(folder: Path) -> Iterator[bytes]:
    for pattern in ("*.py", "*.pyc"):
        for file in folder.rglob(pattern):
            with contextlib.suppress(OSError):
                content = file.read_bytes()
                if b"declare" in content:
                    yield content


def _retired(text: str, keys: Keys, why: str) -> str:
    """Return `text` with the setting at `keys` as a comment: where it stands, else at the end of the file."""
    wanted = parse(text, "the file")
    value = at(wanted, keys)
    del at(wanted, keys[:-1])[keys[-1]]
    lines = text.split("\n")
    for first, line in enumerate(lines):
        if not line.lstrip(" \t[\"'").startswith((keys[-1], keys[0])):
            continue
        for last in range(first, min(first + _LONGEST_VALUE, len(lines))):
            commented = _commented(lines, first, last, why)
            if _says(commented, wanted):
                return commented
    return _moved_to_the_end(text, keys, value, why)


def _commented(lines: list[str], first: int, last: int, why: str) -> str:
    out = [f"# {line}".rstrip() if line.strip() else line for line in lines[first : last + 1]]
    return "\n".join([*lines[:first], f"# {why}:", *out, *lines[last + 1 :]])


def _says(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return same(_without_empty(parse(text, "the file")), _without_empty(wanted))
    except ConfigError:
        return False


def _without_empty(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    inner = {key: _without_empty(item) for key, item in data.items()}
    return {key: item for key, item in inner.items() if item != {}}


def _moved_to_the_end(text: str, keys: Keys, value: Any, why: str) -> str:
    try:
        alone = put("", keys, value)
        rest = drop(text, keys)
    except ConfigError:
        return text  # it has no effect there, and a file is better with it than damaged
    block = "\n".join(f"# {line}" for line in alone.strip("\n").split("\n"))
    return f"{rest.rstrip()}\n\n# {why}:\n{block}\n"


def with_names(text: str, names: dict[str, bool], path: Path) -> str:
    """Return the text of config/lumia.toml with names put into `[plugins] disabled` (True) or taken out (False)."""
    have = at(parse(text, path), ("plugins", "disabled"), [])
    listed = [str(name) for name in have] if isinstance(have, list) else []
    kept = [name for name in listed if names.get(name.replace("_", "-"), True)]
    known = {name.replace("_", "-") for name in kept}
    wanted = [*kept, *(name for name, off in names.items() if off and name not in known)]
    return text if wanted == listed else put(text, ("plugins", "disabled"), wanted)


def disabled(text: str, path: Path) -> frozenset[str]:
    """Return the names in `[plugins] disabled` of the text of config/lumia.toml."""
    have = at(parse(text, path), ("plugins", "disabled"), [])
    return frozenset(str(name).replace("_", "-") for name in have) if isinstance(have, list) else frozenset()
