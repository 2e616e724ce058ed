"""Secrets are taken out of what journal, traces and dead letters keep: by key and by value (DESIGN §9).

`lumia.secrets` knows what a secret looks like; here whole records are cleaned, and what was changed is told, so that a
replay can say that a value isn't the one that was.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lumia.errors import BoxError
from lumia.history import box_of
from lumia.journal import JournalEntry
from lumia.secrets import HIDDEN, is_secret_key
from lumia.secrets import redact as by_key

if TYPE_CHECKING:
    from lumia.box import Box

__all__ = ["HIDDEN", "cleaned", "cleaned_entry", "cleaned_error", "cleaned_stored", "cleaned_wire", "shown"]

Redact = Callable[[str], str]
"""Takes known secrets out of a text: `Runtime.redact`."""

_SUSPECT = re.compile(r"pass|pwd|secret|authorization|cookie|credential|key|token|\\", re.IGNORECASE)
"""In JSON without any of these no key speaks of a secret, and none is spelled with escapes."""


_NAMED = re.compile(r"""\b(?P<name>[A-Za-z_][\w.-]{0,63})(?P<mark>["']?\s{0,3}[=:]\s{0,3})""")
_VALUE = re.compile(
    r"""(?:(?:bearer|basic|digest|token)\s+)?(?:"[^"\n]+"|'[^'\n]+'|["']?[^\s,;&)\]}"'=:][^\s,;&)\]}"']*)""",
    re.IGNORECASE,
)
"""What may follow a name and `=` or `:` in prose."""
_BEARER = re.compile(r"(?P<head>\bbearer\s+)(?=\S*\d|\S{16})[\w.~+/=-]{6,}", re.IGNORECASE)
_ERRORS = ("Error", "Exception", "Warning")


def cleaned(value: Any, redact: Redact, name: str = "") -> tuple[Any, bool]:
    """Return nested JSON data without secrets, and whether there were any.

    Hidden are texts under a key that speaks of a secret, all of `value` when `name` does (as for the setting
    "webhook/api_token"), and whatever `redact` knows. Data without secrets are returned as they are, not copied.
    """
    if name and _speaks_of_secrets(name) and any(_texts(value)):
        return HIDDEN, True
    joined = "\n".join(_texts(value))
    if _is_innocent(joined, redact):
        return value, False
    known = by_key(value)
    changed = known != _as_lists(value)
    found = known if changed else value
    joined = "\n".join(_texts(found))
    if redact(joined) == joined:
        return found, changed
    return _redacted(found, redact), True


def cleaned_error(text: str, redact: Redact) -> str:
    """Return an exception's text, or a traceback, without secrets: what `redact` knows, and what is named as one.

    Hidden is what follows a name that speaks of a secret (`password=…`, `"token": "…"`, `Authorization: …`), and what
    follows `Bearer`. A number under `token` is usage and stays, as is the text of an error whose class speaks of one.
    """
    shown = redact(text)
    if not _SUSPECT.search(shown) and "earer" not in shown:
        return shown
    parts, end = [], 0
    for found in _NAMED.finditer(shown):
        value = _VALUE.match(shown, found.end()) if found.start() >= end else None
        if value is not None and _is_named_secret(found["name"], found["mark"].strip(), value[0]):
            parts += [shown[end : found.end()], HIDDEN]
            end = value.end()
    return _BEARER.sub(rf"\g<head>{HIDDEN}", "".join([*parts, shown[end:]]))


def _is_named_secret(name: str, mark: str, value: str) -> bool:
    if mark == ":" and name.endswith(_ERRORS):
        return False
    data: Any = {name: int(value) if value.isdecimal() and value.isascii() else "x"}
    return bool(by_key(data) != data)


def cleaned_stored(value: Any, redact: Redact, name: str = "") -> tuple[Any, bool]:
    """Return (type, value) of a store key, as `Transport.read` gives it, without secrets; see `cleaned`."""
    kind, held = value
    if held is None or (_is_innocent("\n".join(_texts(held)), redact) and not _speaks_of_secrets(name)):
        return value, False
    data, changed = cleaned(_each(held, json.loads), redact, name)
    if not changed:
        return value, False
    if isinstance(held, str) or not isinstance(data, dict | list):
        return (kind, json.dumps(data)) if isinstance(held, str) else ("value", json.dumps(data)), True
    items = data.items() if isinstance(data, dict) else enumerate(data)
    texts = {key: json.dumps(item) for key, item in items}
    return (kind, texts if isinstance(data, dict) else list(texts.values())), True


def cleaned_wire(wire: str, redact: Redact, secret: bytes) -> tuple[str, bool]:
    """Return the wire text of a Box without meta as the journal may keep it, and whether something was taken out.

    JSON content loses its secrets. Of dill content the texts in it are looked at; if one is a secret or names one, the
    whole content is left out, since it can't be changed inside.
    """
    from lumia.box import Box

    box = Box.load(wire, secret)
    if box.transport == "json":
        if _is_innocent(wire, redact):
            return wire, False
        value, changed = cleaned(box.into(), redact)
    else:
        value, changed = HIDDEN, _dill_has_secrets(wire, redact)
    return (Box.any(value).dump(secret), True) if changed else (wire, False)


def shown(box: Box[Any], redact: Redact) -> Any:
    """Return a Box's value as JSON data that may be printed, without secrets.

    What is no JSON is only named: its class is not loaded, since a command loads no plugins.
    """
    if box.transport != "json":
        return f"<{box.type_name}, kept as {box.transport}>"
    return cleaned(box.into(), redact)[0]


def cleaned_entry(entry: JournalEntry, redact: Redact, secret: bytes) -> JournalEntry:
    """Return a journal entry as it may leave this machine: the Box a run began with without secrets, and its errors.

    What the journal holds beside that Box lost its secrets when it was written. An entry whose Box was changed says so
    by its detail "redacted"; a Box that can't be read is left out.
    """
    detail = dict(entry.detail)
    if box_of(entry):
        detail["box"], changed = _cleaned_box(box_of(entry), redact, secret)
        detail |= {"redacted": True} if changed else {}
    if isinstance(detail.get("trace"), str):
        detail["trace"] = cleaned_error(detail["trace"], redact)
    return replace(entry, reason=cleaned_error(entry.reason, redact), detail=detail)


def _cleaned_box(wire: str, redact: Redact, secret: bytes) -> tuple[str, bool]:
    from lumia.box import Box

    try:
        box = Box.load(wire, secret)
        bare, changed = cleaned_wire(wire, redact, secret)
        meta, marked = cleaned(dict(box.meta), redact)
    except BoxError:
        return "", True
    if not (changed or marked):
        return wire, False
    content = Box.load(bare, secret)
    if not changed and content.transport != "json":
        return "", True  # what is signed can't be given another meta
    return Box.any(content.into(), meta=meta).dump(secret), True


def _is_innocent(text: str, redact: Redact) -> bool:
    return not _SUSPECT.search(text) and by_key(text) == text and redact(text) == text


def _dill_has_secrets(wire: str, redact: Redact) -> bool:
    import pickletools

    arguments: list[Any] = [given for _, given, _ in pickletools.genops(a2b_base64(json.loads(wire)["d"]))]
    texts = [given.decode("utf-8", "replace") if isinstance(given, bytes) else given for given in arguments]
    texts = [text for text in texts if isinstance(text, str)]
    joined = "\n".join(texts)
    return any(map(is_secret_key, texts)) or by_key(joined) != joined or redact(joined) != joined


def _speaks_of_secrets(name: str) -> bool:
    return is_secret_key(name.rpartition("/")[2].rpartition(".")[2])


def _as_lists(value: Any) -> Any:
    """Return data as `by_key` returns them when nothing is hidden: tuples as lists."""
    if isinstance(value, Mapping):
        return {key: _as_lists(item) for key, item in value.items()}
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Return data with the known secrets taken out of every text, names included."""
    if isinstance(value, Mapping):
        return {redact(key) if isinstance(key, str) else key: _redacted(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, redact) for item in value]
    return redact(value) if isinstance(value, str) else value


def _each(value: Any, change: Callable[[str], Any]) -> Any:
    """Return data with every text changed; of mappings the values only."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    return [_each(item, change) for item in value] if isinstance(value, list | tuple) else value
