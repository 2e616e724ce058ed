"""Secrets are taken out of what journal, traces and dead letters keep: by key and by value (DESIGN §9).

`lumia.secrets` knows what a secret looks like; here whole records are cleaned, and what was changed is told, so that a
replay can say that a value isn't the one that was.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lumia.secrets import HIDDEN, is_secret_key
from lumia.secrets import redact as by_key

if TYPE_CHECKING:
    from lumia.box import Box

__all__ = ["HIDDEN", "cleaned", "cleaned_stored", "cleaned_wire", "shown"]

Redact = Callable[[str], str]
"""Takes known secrets out of a text: `Runtime.redact`."""

_SUSPECT = re.compile(r"pass|pwd|secret|authorization|cookie|credential|key|token|\\", re.IGNORECASE)
"""In JSON without any of these no key speaks of a secret, and none is spelled with escapes."""


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
