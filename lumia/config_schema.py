"""Schemas: the settings of one plugin, from `config-schema.toml` (spec §8.2) or `declare()` (spec §7.5).

DESIGN §11 on §7.5: file and declaration complement each other; where both say something they must agree.
"""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from lumia.config_field import TABLE, TYPE_NAMES, UNSET, Field, Findings, Keys, fit, shorten
from lumia.errors import ConfigSchemaError

_TYPES = tuple(TYPE_NAMES.values())
_ATTRIBUTES = ("type", "default", "description", "min", "max", "choices", "secret", "fields")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Schema:
    """A set of settings and, as inner schemas, of `[sections]`. source: where it was declared, for messages."""

    members: Mapping[str, Field | Schema]
    source: str
    description: str = ""

    def leaves(self, prefix: Keys = ()) -> Iterator[tuple[Keys, Field]]:
        """Yield every field with its place, in the order of declaration."""
        for name, member in self.members.items():
            if isinstance(member, Field):
                yield (*prefix, name), member
            else:
                yield from member.leaves((*prefix, name))

    @property
    def private(self) -> bool:
        """Tell whether a setting is a secret."""
        return any(_holds_secret(field, keys[-1]) for keys, field in self.leaves())

    def sections(self, prefix: Keys = ()) -> Iterator[tuple[Keys, Schema]]:
        """Yield this schema and every one inside it, with its place."""
        yield prefix, self
        for name, member in self.members.items():
            if isinstance(member, Schema):
                yield from member.sections((*prefix, name))


def _holds_secret(field: Field, name: str) -> bool:
    return field.hides(name) or any(_holds_secret(sub, key) for key, sub in (field.fields or {}).items())


def evaluate(schema: Schema, data: Mapping[str, Any], found: Findings, prefix: Keys = ()) -> dict[Keys, Any]:
    """Return the value of every field for the parsed file `data`; what is wrong or unknown is added to `found`."""
    found.unknown.extend((*prefix, name) for name in data if name not in schema.members)
    values: dict[Keys, Any] = {}
    for name, member in schema.members.items():
        keys = (*prefix, name)
        if isinstance(member, Field):
            values[keys] = fit(member, data.get(name, member.initial), keys, found)
        else:
            values |= evaluate(member, _section(data, keys, found), found, keys)
    return values


def _section(data: Mapping[str, Any], keys: Keys, found: Findings) -> Mapping[str, Any]:
    section = data.get(keys[-1], {})
    if isinstance(section, Mapping):
        return section
    fit(Field(TABLE), section, keys, found)
    return {}


def secrets_in(schema: Schema, values: Mapping[Keys, Any]) -> Iterator[str]:
    """Yield the text of every secret among the values, also in tables."""
    for keys, field in schema.leaves():
        yield from _secrets(field, keys[-1], values[keys])


def _secrets(field: Field, name: str, value: Any) -> Iterator[str]:
    if field.fields:
        for entry in value.values():
            for key, sub in field.fields.items():
                yield from _secrets(sub, key, entry[key])
    elif field.item == "str" and field.hides(name):
        yield from filter(None, value if field.is_list else [value])


# --- Making schemas ---------------------------------------------------------------------------------------------------


def load_schema(path: Path) -> Schema:
    """Read a `config-schema.toml`; raises `ConfigSchemaError` naming file and key."""
    import tomllib

    try:
        data = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigSchemaError(f"{path}: the schema can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigSchemaError(f"{path}: the schema is no valid TOML in UTF-8: {error}") from error
    return _schema(data, str(path), ())


def _schema(data: Mapping[str, Any], source: str, prefix: Keys) -> Schema:
    # Text is the section's own description; a table is a setting that is called so.
    description = data.get("description", "")
    members = {name: item for name, item in data.items() if name != "description" or not isinstance(item, str)}
    return Schema(
        {name: _member(item, source, (*prefix, name)) for name, item in members.items()},
        source,
        description if isinstance(description, str) else "",
    )


def _member(data: object, source: str, keys: Keys) -> Field | Schema:
    _check_key(keys, source)
    if not isinstance(data, Mapping):
        raise _wrong(source, keys[:-1] or keys, f"is no setting without `type`, one of {', '.join(_TYPES)}")
    # A section may hold a setting named "type": then it is a table, not text.
    if isinstance(data.get("type", {}), Mapping):
        return _schema(data, source, keys)
    return _field(data, source, keys)


def _field(data: Mapping[str, Any], source: str, keys: Keys) -> Field:
    for name in data:
        if name not in _ATTRIBUTES:
            raise _wrong(source, keys, f"has the attribute {name!r}; allowed are {', '.join(_ATTRIBUTES)}")
    inner = data.get("fields")
    if inner is not None and not isinstance(inner, Mapping):
        raise _wrong(source, keys, "has `fields` that are no table of settings")
    given: dict[str, Any] = dict(data)
    if inner is not None:
        given["fields"] = {name: _entry_field(item, source, (*keys, name)) for name, item in inner.items()}
    if isinstance(given.get("choices"), list):
        given["choices"] = tuple(given["choices"])
    return verified(Field(**given), source, keys)


def _entry_field(data: object, source: str, keys: Keys) -> Field:
    member = _member(data, source, keys)
    if isinstance(member, Schema):
        raise _wrong(source, keys, "has no `type`, and the entries of a table have no sections")
    return member


def declared_schema(plugin: str, fields: Mapping[str, Field]) -> Schema:
    """Return the schema of `declare(plugin, fields)`; a dot in a name makes a section. Raises `ConfigSchemaError`."""
    source = f"declare({plugin!r})"
    if not isinstance(fields, Mapping):
        raise _wrong(source, (), "needs a dict of names to lumia.config.field(…)")
    tree: dict[str, Any] = {}
    for name, field in fields.items():
        if not isinstance(field, Field):
            raise _wrong(source, (str(name),), f"is {shorten(field)}; make it with lumia.config.field(type, default=…)")
        keys = tuple(str(name).split("."))
        for depth in range(1, len(keys) + 1):
            _check_key(keys[:depth], source)
        _place(tree, keys, verified(field, source, keys), source)
    return _tree(tree, source)


def _place(tree: dict[str, Any], keys: Keys, field: Field, source: str) -> None:
    for depth, key in enumerate(keys[:-1], 1):
        inner: Any = tree.setdefault(key, {})
        if isinstance(inner, Field):
            raise _wrong(source, keys[:depth], f"is a setting, so it can't be the section of {'.'.join(keys)}")
        tree = inner
    if keys[-1] in tree:
        raise _wrong(source, keys, "is a section, so it can't be a setting too")
    tree[keys[-1]] = field


def _tree(tree: Mapping[str, Any], source: str) -> Schema:
    return Schema(
        {name: item if isinstance(item, Field) else _tree(item, source) for name, item in tree.items()}, source
    )


def verified(field: Field, source: str, keys: Keys) -> Field:
    """Return the field with its default as the field's plain type; raises `ConfigSchemaError` when it makes no sense.

    A default that was not given isn't judged: another declaration may give it (see `complete`).
    """
    given: Any = field  # what a declaration passed may be of any type
    if given.type not in _TYPES:
        raise _wrong(source, keys, f"has the type {given.type!r}; allowed are {', '.join(_TYPES)}")
    if not isinstance(given.description, str) or not isinstance(given.secret, bool):
        raise _wrong(source, keys, "needs text as description and true or false as secret")
    if field.fields is not None and (field.type != TABLE or not field.fields):
        raise _wrong(source, keys, "has `fields`: they belong to a table and name at least one setting")
    field = dataclasses.replace(field, fields=_verified_fields(field, source, keys))
    _check_bounds(field, source, keys)
    if field.item == "float":
        field = dataclasses.replace(field, min=_as_float(field.min), max=_as_float(field.max))
    _check_choices(field, source, keys)
    return field if field.default is UNSET else dataclasses.replace(field, default=_default(field, source, keys))


def complete(schema: Schema) -> Schema:
    """Return the schema if every setting has a usable default, given or implied; else raise `ConfigSchemaError`."""
    for keys, field in schema.leaves():
        _complete_field(field, schema.source, keys)
    return schema


def _complete_field(field: Field, source: str, keys: Keys) -> None:
    for name, sub in (field.fields or {}).items():
        _complete_field(sub, source, (*keys, name))
    _default(field, source, keys)


def _default(field: Field, source: str, keys: Keys) -> Any:
    found = Findings()
    default = fit(field, field.initial, keys, found, fill=False)
    if not found.faults and not found.unknown:
        return default
    which = "no default, and the empty value" if field.default is UNSET else "the default"
    must = found.faults[0].must if found.faults else field.allowed
    raise _wrong(source, keys, f"has {which} {shorten(field.initial)}, which is not allowed: it must be {must}")


def _verified_fields(field: Field, source: str, keys: Keys) -> Mapping[str, Field] | None:
    if field.fields is None:
        return None
    for name in field.fields:
        _check_key((*keys, name), source)
    return {name: verified(sub, source, (*keys, name)) for name, sub in field.fields.items()}


def _check_bounds(field: Field, source: str, keys: Keys) -> None:
    bounds = [bound for bound in (field.min, field.max) if bound is not None]
    if bounds and field.item not in ("int", "float"):
        raise _wrong(source, keys, f"has min or max, which a {field.type} has not")
    if any(isinstance(bound, bool) or not isinstance(bound, int | float) for bound in bounds):
        raise _wrong(source, keys, "has a min or max that is no number")
    if len(bounds) == 2 and not bounds[0] <= bounds[1]:
        raise _wrong(source, keys, f"has min {bounds[0]} above max {bounds[1]}")


def _as_float(bound: float | None) -> float | None:
    return None if bound is None else float(bound)


def _check_choices(field: Field, source: str, keys: Keys) -> None:
    if field.choices is None:
        return
    found, choices = Findings(), cast("Any", field.choices)
    if isinstance(choices, tuple) and choices and field.item in ("str", "int", "float"):
        for choice in choices:
            fit(Field(field.item), choice, keys, found)
        if not found.faults:
            return
    raise _wrong(source, keys, f"has the choices {shorten(field.choices)}; give a list of at least one {field.item}")


def _check_key(keys: Keys, source: str) -> None:
    if not _KEY.fullmatch(keys[-1]) or keyword.iskeyword(keys[-1]):
        raise _wrong(source, keys, "is no usable name: take letters, digits and _, a letter first, no Python keyword")


def _wrong(source: str, keys: Keys, why: str) -> ConfigSchemaError:
    return ConfigSchemaError(f"{source}: {'.'.join(keys)} {why}" if keys else f"{source} {why}")


# --- Merging ----------------------------------------------------------------------------------------------------------


def merged(first: Schema, second: Schema, prefix: Keys = ()) -> Schema:
    """Return the settings of both; raises `ConfigSchemaError` naming both sources where they disagree.

    Disagreement is about type, default, range, choices and inner fields that *both* give; the first description wins.
    """
    members = dict(first.members)
    for name, other in second.members.items():
        mine = members.get(name)
        members[name] = other if mine is None else _agreed(mine, other, first, second, (*prefix, name))
    source = first.source if first.source == second.source else f"{first.source} and {second.source}"
    return Schema(members, source, first.description or second.description)


def _agreed(mine: Field | Schema, other: Field | Schema, first: Schema, second: Schema, keys: Keys) -> Field | Schema:
    if isinstance(mine, Schema) and isinstance(other, Schema):
        return merged(mine, other, keys)
    if isinstance(mine, Schema) or isinstance(other, Schema):
        raise _disagree(first, second, keys, "one says it is a section, the other a setting")
    return _agreed_field(mine, other, first, second, keys)


def _agreed_field(mine: Field, other: Field, first: Schema, second: Schema, keys: Keys) -> Field:
    def one(name: str, none: T) -> T:
        a, b = getattr(mine, name), getattr(other, name)
        if a is none or b is none or (type(a) is type(b) and a == b):
            chosen: T = b if a is none else a
            return chosen
        raise _disagree(first, second, keys, f"{name} is {shorten(a)} in one and {shorten(b)} in the other")

    one("type", UNSET)
    field = Field(
        mine.type, one("default", UNSET), mine.description or other.description, one("min", None), one("max", None),
        one("choices", None), mine.secret or other.secret, _agreed_fields(mine, other, first, second, keys),
    )  # fmt: skip
    return verified(field, f"{first.source} and {second.source}", keys)


def _agreed_fields(mine: Field, other: Field, first: Schema, second: Schema, keys: Keys) -> Mapping[str, Field] | None:
    if mine.fields is None or other.fields is None:
        return mine.fields if other.fields is None else other.fields
    both = merged(Schema(mine.fields, first.source), Schema(other.fields, second.source), keys)
    return {keys[0]: field for keys, field in both.leaves()}


def _disagree(first: Schema, second: Schema, keys: Keys, why: str) -> ConfigSchemaError:
    return ConfigSchemaError(
        f"{first.source} and {second.source} disagree about {'.'.join(keys)}: {why}; make them say the same, "
        "or leave it out in one"
    )
