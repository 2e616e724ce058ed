"""What one setting may be, and fitting a value to it (spec §8.2)."""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as slot
from typing import Any

from lumia.secrets import HIDDEN, is_secret_key

Keys = tuple[str, ...]
"""Where a setting is: `("worker", "concurrency")` is `[worker] concurrency`."""


class Unset(enum.Enum):
    """The type of `UNSET`, which says that a default was not given."""

    UNSET = "unset"


UNSET = Unset.UNSET
TABLE = "table"
TYPE_NAMES: dict[object, str] = {
    str: "str", int: "int", float: "float", bool: "bool", dict: TABLE,
    list[str]: "list[str]", list[int]: "list[int]", list[float]: "list[float]",
}  # fmt: skip
"""The Python types a setting may have, with their names in a schema file."""

_ZERO: dict[str, Any] = {"str": "", "int": 0, "float": 0.0, "bool": False}
_INT64 = 2**63
_DEEPEST = 32
_SCALARS = (bool, int, float, str)
_TIMES = (dt.datetime, dt.date, dt.time)


@dataclass(frozen=True, slots=True)
class Field:
    """One setting: its type by name, default, description and what is allowed.

    min, max: bounds, allowed themselves; of each item for a list. fields: the fields of every entry of a table; a table
    without them may hold anything TOML can. secret: shown as `***` wherever it is printed.
    """

    type: str
    default: Any = UNSET
    description: str = ""
    min: float | None = None
    max: float | None = None
    choices: tuple[Any, ...] | None = None
    secret: bool = False
    fields: Mapping[str, Field] | None = None

    @property
    def is_list(self) -> bool:
        """Tell whether the value is a list."""
        return self.type.startswith("list[")

    @property
    def item(self) -> str:
        """The type of a list's items, else of the value."""
        return self.type[5:-1] if self.is_list else self.type

    @property
    def initial(self) -> Any:
        """The value of a setting nobody set: the default, else the type's empty value."""
        if self.default is not UNSET:
            return self.default
        return {} if self.type == TABLE else [] if self.is_list else _ZERO[self.type]

    @property
    def allowed(self) -> str:
        """What a value may be, in words: `float from 0.0 to 1.0`."""
        if self.type == TABLE:
            return f"table of tables with the keys {', '.join(self.fields)}" if self.fields else "table"
        limits = _limits(self)
        if self.is_list:
            return f"list of {self.item}" + (f", each {limits}" if limits else "")
        if self.choices is not None:
            return limits
        return " ".join(filter(None, ("true or false" if self.type == "bool" else self.type, limits)))

    def hides(self, name: str) -> bool:
        """Tell whether the value must not be printed; `name` is the setting's own."""
        return self.secret or (self.item == "str" and is_secret_key(name))


def _limits(field: Field) -> str:
    if field.choices is not None:
        return "one of " + ", ".join(map(repr, field.choices))
    if field.min is not None and field.max is not None:
        return f"from {field.min} to {field.max}"
    if field.min is not None:
        return f"of at least {field.min}"
    return f"of at most {field.max}" if field.max is not None else ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that does not fit: its place, the value as it may be shown, what it must be, and the default."""

    keys: Keys
    shown: str
    must: str
    default: str = ""


@dataclass(slots=True)
class Findings:
    """What was noticed while fitting values."""

    faults: list[Fault] = slot(default_factory=list)
    unknown: list[Keys] = slot(default_factory=list)


class _UnfitError(Exception):
    """A value is not allowed; the message says what it must be."""


def fit(field: Field, value: object, keys: Keys, found: Findings, *, fill: bool = True) -> Any:
    """Return `value` as the plain type of the field (a float field takes an int, a list field a tuple).

    fill: give the entries of a table the defaults of what they leave out. What doesn't fit is added to `found.faults`
    and the default returned in its place.
    """
    try:
        if field.type == TABLE:
            return _table(field, value, keys, found, fill)
        return _list(field, value) if field.is_list else _scalar(field, value)
    except _UnfitError as why:
        shown = HIDDEN if field.hides(keys[-1]) else shorten(value)
        found.faults.append(Fault(keys, shown, str(why), shorten(field.initial)))
        return field.initial


def shorten(value: object) -> str:
    """Return a value's repr in at most 80 characters that any terminal can print."""
    text = repr(value).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else text[:79] + "…"


def _table(field: Field, value: object, keys: Keys, found: Findings, fill: bool) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _UnfitError(field.allowed)
    if field.fields is None:
        return {_name(name): _anything(item) for name, item in value.items()}
    return {_name(name): _entry(field.fields, entry, (*keys, name), found, fill) for name, entry in value.items()}


def _entry(fields: Mapping[str, Field], entry: object, keys: Keys, found: Findings, fill: bool) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        found.faults.append(Fault(keys, shorten(entry), f"table with the keys {', '.join(fields)}"))
        return {}
    found.unknown.extend((*keys, str(name)) for name in entry if name not in fields)
    return {
        name: fit(sub, entry.get(name, sub.initial), (*keys, name), found, fill=fill)
        for name, sub in fields.items()
        if fill or name in entry
    }


def _list(field: Field, value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise _UnfitError(field.allowed)
    return [_scalar(field, item) for item in value]


def _scalar(field: Field, value: object) -> Any:
    plain = _plain(field.item, value)
    if plain is None or not _inside(field, plain) or (field.choices is not None and plain not in field.choices):
        raise _UnfitError(field.allowed)
    return plain


def _inside(field: Field, number: Any) -> bool:
    return (field.min is None or number >= field.min) and (field.max is None or number <= field.max)


def _plain(kind: str, value: object) -> Any:
    """Return `value` as exactly the type TOML knows as `kind`, without subclasses; None when it is of another type."""
    if isinstance(value, bool):
        return value if kind == "bool" else None
    if kind == "str" and isinstance(value, str):
        return _text(value)
    if kind == "int" and isinstance(value, int):
        return _whole(value)
    if kind == "float" and isinstance(value, int | float):
        return _number(float(_whole(value) if isinstance(value, int) else value))
    return None


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _UnfitError("text that UTF-8 can hold (this has a lone surrogate)") from None
    return str.__str__(value)


def _whole(value: int) -> int:
    if not -_INT64 <= value < _INT64:
        raise _UnfitError("a number of at most 64 bits")
    return int(value)


def _number(value: float) -> float:
    if math.isnan(value):
        raise _UnfitError("a number")
    return value


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise _UnfitError("a table whose keys are text")
    return _text(name)


def _anything(value: object, depth: int = _DEEPEST) -> Any:
    """Return a copy of any value TOML can hold."""
    if isinstance(value, Mapping | list | tuple) and depth == 0:
        raise _UnfitError(f"nested at most {_DEEPEST} levels deep")
    if isinstance(value, Mapping):
        return {_name(name): _anything(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_anything(item, depth - 1) for item in value]
    if isinstance(value, _TIMES):
        return value
    if isinstance(value, _SCALARS):
        return _plain(next(kind.__name__ for kind in _SCALARS if isinstance(value, kind)), value)
    raise _UnfitError("made of what TOML can hold: text, numbers, true, false, times, lists and tables")
