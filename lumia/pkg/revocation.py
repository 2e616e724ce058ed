"""Keys and versions that a registry has revoked; the last list known also counts while the registry is away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lumia.atomic import locked, replace
from lumia.errors import RegistryError
from lumia.pkg.text import plain

FILE = Path("data") / "pkg" / "revoked.json"
_MOST = 100_000


@dataclass(frozen=True)
class Revoked:
    """What is revoked. keys: fingerprint → reason; versions: (name, tag) → reason."""

    keys: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[tuple[str, str], str] = field(default_factory=dict)


def parse(data: Any) -> Revoked:
    """Return the list of a registry's `GET /revoked`. Raises `RegistryError` for what is none."""
    if not isinstance(data, dict):
        raise RegistryError(f"the list of revoked keys and versions is an object, got a {type(data).__name__}")
    keys = {_text(one, "fingerprint").lower(): _reason(one) for one in _items(data, "keys")}
    versions = {(_text(one, "name"), _text(one, "tag")): _reason(one) for one in _items(data, "versions")}
    return Revoked(keys, versions)


def _items(data: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = data.get(key)
    if not isinstance(found, list) or len(found) > _MOST or not all(isinstance(one, dict) for one in found):
        raise RegistryError(f"the list of revoked keys and versions has no usable list {key!r}")
    return found


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value or plain(value) != value:
        raise RegistryError(f"the list of revoked keys and versions has an entry without a usable {key!r}")
    return value


def _reason(item: dict[str, Any]) -> str:
    reason = item.get("reason")
    return plain(reason) if isinstance(reason, str) else ""


def load(root: Path) -> Revoked:
    """Return the last list `save` kept for this bot root, an empty one when there is none.

    Raises `RegistryError` when the file is damaged: then nobody knows what is revoked.
    """
    try:
        return parse(json.loads((root / FILE).read_bytes()))
    except FileNotFoundError:
        return Revoked()
    except (OSError, ValueError, RegistryError) as error:
        raise RegistryError(
            f"{root / FILE}: the list of what is revoked can't be read ({error}); delete it, and it is fetched anew"
        ) from None


def save(root: Path, data: Any) -> Revoked:
    """Check the answer of `GET /revoked`, keep it in data/pkg/revoked.json, and return it. Raises `RegistryError`."""
    revoked = parse(data)
    path = root / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):
            replace(path, json.dumps(data, ensure_ascii=False, indent=1).encode() + b"\n")
    except OSError as error:
        raise RegistryError(f"{path} can't be written: {error.strerror}") from error
    return revoked
