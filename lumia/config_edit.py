"""Changing the text of a settings file: comments, order and everything else in it are kept (spec §8.2, §8.3)."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from lumia.config_field import TABLE, Field, Keys
from lumia.config_file import parse
from lumia.config_schema import Schema
from lumia.errors import ConfigError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TITLE = re.compile(r"\A(?:#[^\n]*\n)+(?=\n)")
_MISSING = object()


def put(text: str, keys: Keys, value: Any) -> str:
    """Return `text` with the setting at `keys` set, everything else kept; raises `ConfigError` if that can't be done.

    A table is changed entry by entry: what is equal in both keeps its place and comments.
    """
    have = at(parse(text, "the file"), keys)
    if not isinstance(value, dict):
        return text if have is not _MISSING and same(have, value) else _put_leaf(text, keys, value)
    if not isinstance(have, dict):
        text, have = text if have is _MISSING else drop(text, keys), {}
        if not value:
            return _put_leaf(text, keys, {})
    for name in have.keys() - value.keys():
        text = drop(text, (*keys, name))
    for name, item in value.items():
        text = put(text, (*keys, name), item)
    return text


def _put_leaf(text: str, keys: Keys, value: Any) -> str:
    data = parse(text, "the file")
    known = at(data, keys) is not _MISSING
    place, nested = keys, value
    while place[:-1] and at(data, place[:-1]) is _MISSING:
        place, nested = place[:-1], {place[-1]: nested}

    def section() -> str:
        if value == {}:
            return _append(text, f"\n[{_dotted(keys)}]\n")
        return _append(text, f"\n[{_dotted(keys[:-1])}]\n{_key(keys[-1])} = {_literal(value)}\n")

    def inserted() -> str:
        return _insert(text, place[:-1], f"{_key(place[-1])} = {_literal(nested)}\n")

    def assigned() -> str:
        return _assign(text, place, nested)

    # In the order of what looks best: into the section there is, as a section of its own, as an inline table.
    new = (inserted, section, assigned) if place == keys and value != {} else (section, inserted, assigned)
    return _first_right((assigned,) if known else new, _with(data, keys, value), keys)


def drop(text: str, keys: Keys) -> str:
    """Return `text` without the setting or table entry at `keys`; raises `ConfigError` if that can't be done."""
    wanted = parse(text, "the file")
    if at(wanted, keys) is _MISSING:
        return text
    del at(wanted, keys[:-1])[keys[-1]]

    def emptied() -> str:
        # A table without its last entry stays, as an empty one: when it is absent its default holds.
        return _put_leaf(_delete(text, keys), keys[:-1], {})

    return _first_right((lambda: _delete(text, keys), emptied), wanted, keys)


def _first_right(ways: tuple[Callable[[], str], ...], wanted: dict[str, Any], keys: Keys) -> str:
    """Return the first result that says exactly what is wanted.

    The same setting can be written as section, dotted key or inline table, and no single way of editing serves them
    all. Each result is read again before anyone may write it, so a wrong edit can't lose a setting.
    """
    for way in ways:
        with contextlib.suppress(Exception):  # an edit that fails, in whatever way, is just not the right one
            text = way()
            if same(parse(text, "the file"), wanted):
                return text
    raise ConfigError(f"{'.'.join(keys)} is written in a form that can't be changed in place; edit the file by hand")


def same(one: Any, other: Any) -> bool:
    """Tell whether two pieces of data are the same TOML; 1, 1.0 and true are not, nan is the same as nan."""
    return json.dumps(one, sort_keys=True, default=repr) == json.dumps(other, sort_keys=True, default=repr)


def at(data: Any, keys: Keys, default: Any = _MISSING) -> Any:
    """Return what nested tables hold at `keys`, else `default`."""
    for key in keys:
        if not isinstance(data, Mapping) or key not in data:
            return default
        data = data[key]
    return data


def _with(data: dict[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    inner = data
    for depth, key in enumerate(keys[:-1], 1):
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(
                f"{'.'.join(keys[:depth])} is no table, so it can't hold {keys[-1]}; edit the file by hand"
            )
    inner[keys[-1]] = value
    return data


# --- Editing text with tomlkit ----------------------------------------------------------------------------------------


def _node(document: Any, keys: Keys) -> Any:
    for key in keys:
        document = document[key]
    return document


def _assign(text: str, keys: Keys, value: Any) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    _node(document, keys[:-1])[keys[-1]] = _item(value)
    return tomlkit.dumps(document)


def _delete(text: str, keys: Keys) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    del _node(document, keys[:-1])[keys[-1]]
    return tomlkit.dumps(document)


def _insert(text: str, section: Keys, lines: str) -> str:
    """Return `text` with `lines` after the last simple setting of a section, where no comment of another is parted."""
    import tomlkit
    from tomlkit.items import AoT, Table

    document = tomlkit.parse(text)
    node = _node(document, section)
    body = node.value if section else document
    items: list[Any] = [body.item(key) for key in body]
    simple = [item for item in items if not isinstance(item, Table | AoT)]
    if not simple and not section:
        return _insert_at_top(text, lines) if items else _append(text, lines)
    trivia: Any = (simple[-1] if simple else node).trivia
    trivia.trail = (trivia.trail or "\n") + lines
    return tomlkit.dumps(document)


def _insert_at_top(text: str, lines: str) -> str:
    title = _TITLE.match(text)
    place = title.end() if title else 0
    return text[:place] + ("\n" if title else "") + lines.lstrip("\n") + ("" if title else "\n") + text[place:]


def _append(text: str, lines: str) -> str:
    return text + ("" if text.endswith("\n") or not text else "\n") + (lines if text else lines.lstrip("\n"))


def _item(value: Any) -> Any:
    import tomlkit

    if isinstance(value, dict):
        table = tomlkit.inline_table()
        table.update(value)
        return table
    if isinstance(value, list):
        array = tomlkit.array()
        array.extend(value)
        return array
    return tomlkit.item(value)


def _literal(value: Any) -> str:
    return str(_item(value).as_string())


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _literal(name)


def _dotted(keys: Keys) -> str:
    return ".".join(map(_key, keys))


# --- Generating -------------------------------------------------------------------------------------------------------


def incomplete(data: Mapping[str, Any], text: str, schema: Schema) -> bool:
    """Tell whether `upgraded` has something to add; cheap, for it is asked at every start."""
    return any(
        not _mentioned(text, keys) if field.type == TABLE and not field.initial else True
        for keys, field in schema.leaves()
        if at(data, keys) is _MISSING
    )


def generated(name: str, schema: Schema) -> str:
    """Return a new file: every setting at its default, with description, type and range as comments."""
    title = f"# Settings of {name}. A running bot sees changes within a second; comments and order are kept.\n"
    return upgraded(title, schema)


def upgraded(text: str, schema: Schema) -> str:
    """Return `text` with the settings it lacks added at their defaults, commented; what is there stays as it is."""
    for keys, section in schema.sections():
        fields = {name: item for name, item in section.members.items() if isinstance(item, Field)}
        text = _add_simple(text, keys, section, {name: item for name, item in fields.items() if item.type != TABLE})
    for keys, field in schema.leaves():
        if field.type == TABLE:
            text = _add_table(text, keys, field)
    return text


def _add_simple(text: str, keys: Keys, section: Schema, fields: Mapping[str, Field]) -> str:
    have = at(parse(text, "the file"), keys)
    missing = {name: item for name, item in fields.items() if have is _MISSING or name not in have}
    if not missing:
        return text
    lines = "\n" + "\n".join(_lines(name, field) for name, field in missing.items())
    if have is _MISSING:
        return _append(text, f"\n{_comment(section.description)}[{_dotted(keys)}]{lines}")
    wanted = parse(text, "the file")
    for name, field in missing.items():
        _with(wanted, (*keys, name), field.initial)
    try:
        return _first_right((lambda: _insert(text, keys, lines),), wanted, keys)
    except ConfigError:
        return _add_plain(text, keys, missing)


def _add_plain(text: str, keys: Keys, missing: Mapping[str, Field]) -> str:
    for name, field in missing.items():
        with contextlib.suppress(ConfigError):  # the default holds without being written
            text = put(text, (*keys, name), field.initial)
    return text


def _lines(name: str, field: Field) -> str:
    described = _one_line(field.description)
    value = _literal(field.initial)
    return f"# {field.allowed}, default {value}\n{name} = {value}" + (f"  # {described}\n" if described else "\n")


def _add_table(text: str, keys: Keys, field: Field) -> str:
    if at(parse(text, "the file"), keys) is not _MISSING:
        return text
    if field.initial:
        return put(text, keys, field.initial)
    return text if _mentioned(text, keys) else _append(text, _sample(keys, field))


def _mentioned(text: str, keys: Keys) -> bool:
    return f"[{_dotted(keys)}" in text


def _sample(keys: Keys, field: Field) -> str:
    head = f"\n{_comment(field.description)}# [{_dotted(keys)}{'.NAME' if field.fields else ''}]\n"
    return head + "".join(f"# {name} = {_hint(sub)}\n" for name, sub in (field.fields or {}).items())


def _hint(field: Field) -> str:
    described = _one_line(field.description)
    return f"{_literal(field.initial)}  # {described + ': ' if described else ''}{field.allowed}"


def _comment(description: str) -> str:
    described = _one_line(description)
    return f"# {described}\n" if described else ""


def _one_line(text: str) -> str:
    # TOML comments can't hold control characters, nor UTF-8 lone surrogates.
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
