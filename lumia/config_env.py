"""Settings from the environment: `LUMIA__<PLUGIN>__<KEY>`, for the core `LUMIA__<SECTION>__<KEY>`.

A variable beats the file and is never written to it. It is read when a file is (at start and when the file changes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lumia.config_field import TABLE, Field, Findings, Keys, fit
from lumia.config_schema import Schema

CORE = "lumia"
_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def variable(plugin: str, keys: Keys) -> str:
    """Return the name of the variable that overrides a setting; the core's settings go without a plugin's name."""
    return "__".join(("LUMIA", *(() if plugin == CORE else (plugin,)), *keys)).replace("-", "_").upper()


def overridden(
    plugin: str, schema: Schema, values: Mapping[Keys, Any], environ: Mapping[str, str], core: Schema
) -> tuple[dict[Keys, Any], Findings]:
    """Return the values with the environment's over them; in the findings a variable's name stands for the place.

    A list is given as `a,b` or as TOML (`["a", "b"]`), a table as TOML (`{x = 1}`) or by `…__<ENTRY>__<FIELD>`. Where a
    plugin is called as one of the core's sections, variables that name a setting of the core are the core's.
    """
    prefixes = tuple(_prefixes(plugin, schema))
    names = [name for name in environ if name.startswith(prefixes)]
    if names and plugin != CORE:
        taken = {variable(CORE, keys) for keys, _ in core.leaves()}
        names = [name for name in names if name not in taken]
    found, result = Findings(), dict(values)
    places = _places(plugin, schema) if names else {}
    for name in names:
        if not _apply(name, environ[name], places, result, found):
            found.unknown.append((name,))
    return result, found


def _prefixes(plugin: str, schema: Schema) -> Iterator[str]:
    if plugin != CORE:
        yield variable(plugin, ()) + "__"
        return
    yield from (variable(CORE, (name,)) + "__" for name in schema.members)
    yield from (variable(CORE, keys) for keys, field in schema.leaves() if len(keys) == 1)


def _places(plugin: str, schema: Schema) -> dict[str, tuple[Keys, Field]]:
    return {variable(plugin, keys): (keys, field) for keys, field in schema.leaves()}


def _apply(
    name: str, text: str, places: Mapping[str, tuple[Keys, Field]], values: dict[Keys, Any], found: Findings
) -> bool:
    if name in places:
        keys, field = places[name]
        values[keys] = _fitted(field, keys, text, name, found)
        return True
    for start, (keys, field) in places.items():
        if field.fields and name.startswith(start + "__"):
            return _apply_entry(name, text, (start, keys, field.fields), values, found)
    return False


def _apply_entry(
    name: str, text: str, table: tuple[str, Keys, Mapping[str, Field]], values: dict[Keys, Any], found: Findings
) -> bool:
    start, keys, fields = table
    entry, _, key = name.removeprefix(start + "__").rpartition("__")
    known = {variable(CORE, (own,)): own for own in values[keys]}
    chosen = known.get(variable(CORE, (entry,)), entry.lower())
    match = next((own for own in fields if own.upper() == key), None)
    if not entry or match is None:
        return False
    # A new entry starts with the defaults; an existing one is copied, for the file's own values must not change.
    before = values[keys].get(chosen) or {own: sub.initial for own, sub in fields.items()}
    place = (*keys, chosen, match)
    values[keys] = {**values[keys], chosen: {**before, match: _fitted(fields[match], place, text, name, found)}}
    return True


def _fitted(field: Field, keys: Keys, text: str, name: str, found: Findings) -> Any:
    own = Findings()
    value = fit(field, _parsed(field, text), keys, own)
    found.faults.extend(_renamed(own, name))
    return value


def _renamed(own: Findings, name: str) -> Iterator[Any]:
    import dataclasses

    yield from (dataclasses.replace(fault, keys=(name,)) for fault in own.faults)


def _parsed(field: Field, text: str) -> Any:
    if field.type == TABLE or (text.lstrip().startswith("[") and field.is_list):
        return _toml(text)
    if field.is_list:
        return [_word(field.item, part.strip()) for part in text.split(",") if part.strip()]
    return _word(field.type, text)


def _toml(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text  # no list and no table: told as a value that doesn't fit


def _word(kind: str, text: str) -> Any:
    if kind == "bool":
        return _TRUTH.get(text.strip().lower(), text)
    try:
        return {"int": int, "float": float}.get(kind, str)(text)
    except ValueError:
        return text
