"""What is said about settings that don't fit, aren't known or can't be written: where, what, and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lumia.config_field import Fault, Keys
from lumia.config_schema import Schema
from lumia.errors import ConfigKeyError


def dotted(keys: Keys) -> str:
    """Return a place as one name: `worker.concurrency`."""
    return ".".join(keys)


def written(keys: Keys) -> str:
    """Return a place as the file shows it: `[worker] concurrency`."""
    return f"[{dotted(keys[:-1])}] {keys[-1]}" if len(keys) > 1 else dotted(keys)


def in_file(path: Path, fault: Fault) -> str:
    """Say which value in a file doesn't fit."""
    way_out = f"correct it, or remove it to get the default {fault.default}" if fault.default else "correct it"
    return f"{path}: {written(fault.keys)} = {fault.shown} is not allowed (allowed: {fault.must}); {way_out}."


def in_environment(fault: Fault) -> str:
    """Say which variable doesn't fit; its name stands in the place of the keys."""
    return (
        f"the environment variable {dotted(fault.keys)} = {fault.shown} is not allowed (allowed: {fault.must}); "
        "correct or unset it."
    )


def in_call(path: Path, plugin: str, fault: Fault) -> str:
    """Say which value a program tried to set."""
    return (
        f"{dotted(fault.keys)} = {fault.shown} is not allowed for {plugin} (allowed: {fault.must}); "
        f"nothing was changed in {path}"
    )


def unknown_in_file(path: Path, plugin: str, schema: Schema, keys: Keys) -> str:
    """Warn of a key nobody declared."""
    return f"{path}: {written(keys)} is no setting of {plugin} and has no effect{_closest(schema, keys)}"


def unknown_variable(plugin: str, name: str) -> str:
    """Warn of a variable that overrides nothing."""
    return f"the environment variable {name} names no setting of {plugin} and has no effect"


def no_such_setting(plugin: str, schema: Schema, keys: Keys) -> ConfigKeyError:
    """Return the error for a name that is no setting: the closest one and all there are."""
    names = list(_names(schema))
    inside = [name for name in names if name.startswith(dotted(keys) + ".")]
    if inside:
        return ConfigKeyError(f"{dotted(keys)} is a section of {plugin}, not a setting; it holds {', '.join(inside)}")
    closest = _closest(schema, keys)
    return ConfigKeyError(f"{plugin} has no setting {dotted(keys)}{closest}; there are {', '.join(names) or 'none'}")


def _names(schema: Schema) -> Iterator[str]:
    for place, field in schema.leaves():
        yield dotted(place)
        yield from (f"{dotted(place)}.<name>.{sub}" for sub in field.fields or ())


def _closest(schema: Schema, keys: Keys) -> str:
    import difflib

    near = difflib.get_close_matches(dotted(keys), [dotted(place) for place, _ in schema.leaves()], 1)
    return f" (did you mean {near[0]}?)" if near else ""
