"""The values that the parts of `pkg` hand to each other (spec §7.1, §13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from lumia.manifest import Manifest

Origin = Literal["registry", "git", "folder"]
Kind = Literal["install", "upgrade", "downgrade", "remove", "enable", "disable", "mark"]


@dataclass(frozen=True)
class Request:
    """What somebody asked `pkg -S` for.

    origin: how it is to be found: by `name` in the registry, at a git `url`, or in a `folder` (its URL is then the
    absolute path). tag: the version asked for, None for the latest.
    """

    origin: Origin
    text: str
    name: str | None = None
    url: str | None = None
    tag: str | None = None


@dataclass(frozen=True)
class Locked:
    """One installed plugin as `plugins/plugins.lock` records it.

    version: of the tag, or `0.0.0+<sha>`. tag: None for an untagged commit. commit: 40 hex digits. digest: `sha256:`
    and 64 hex digits over the tree (`lumia.pkg.tree.digest`). key: fingerprint of the key that signed it, None when
    unsigned. requested: somebody asked for it; else it came as a dependency. enabled: False keeps it installed and not
    loaded. signature: that key's, in full, so that others can check it; None in locks from before it was kept.
    """

    name: str
    version: str
    tag: str | None
    commit: str
    url: str
    origin: Origin
    digest: str
    key: str | None = None
    requested: bool = True
    enabled: bool = True
    signature: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them; one that is not signed, or from an older lock, has no `signature`."""
        return {key: value for key, value in asdict(self).items() if key != "signature" or value is not None}


@dataclass(frozen=True)
class Staged:
    """A version fetched, checked, and not yet installed: `folder` is a git checkout with nothing else in it."""

    locked: Locked
    folder: Path
    manifest: Manifest
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Action:
    """One change of a plan. before: what is installed; after: what will be, with its files in `staged`.

    kind: `mark` changes nothing but whether somebody asked for the plugin itself (`Locked.requested`).
    """

    kind: Kind
    name: str
    before: Locked | None = None
    after: Locked | None = None
    staged: Staged | None = None
    reason: str = ""


@dataclass(frozen=True)
class Plan:
    """What one operation will do, in the order it does it (dependencies before what needs them; removals reversed).

    purge: plugins whose settings are deleted with them. python: requirements of all plugins that are in the bot's own
    processes afterwards, plugin → PEP 508 texts. warnings: what somebody should read before saying yes. left: plugins
    that were meant and stay as they are, since their newer versions can't be had or are refused.
    """

    actions: tuple[Action, ...] = ()
    purge: frozenset[str] = frozenset()
    python: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
