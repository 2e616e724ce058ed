"""Keys and versions that a registry has revoked; the last list known also counts while the registry is away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Revoked:
    """What is revoked. keys: fingerprint → reason; versions: (name, tag) → reason."""

    keys: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[tuple[str, str], str] = field(default_factory=dict)


def parse(data: Any) -> Revoked:
    """Return the list of a registry's `GET /revoked`. Raises `RegistryError` for what is none."""
    raise NotImplementedError


def load(root: Path) -> Revoked:
    """Return the last list `save` kept for this bot root, an empty one when there is none."""
    raise NotImplementedError


def save(root: Path, data: Any) -> Revoked:
    """Check the answer of `GET /revoked`, keep it in data/pkg/revoked.json, and return it."""
    raise NotImplementedError
