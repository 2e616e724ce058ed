"""Plans and what became of them, as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lumia.pkg import requests
from lumia.pkg.model import Action, Locked, Plan

HEADERS = ("change", "plugin", "from", "to", "signed by", "source", "why")
DONE = {
    "install": "installed",
    "upgrade": "upgraded",
    "downgrade": "downgraded",
    "remove": "removed",
    "enable": "enabled",
    "disable": "disabled",
    "mark": "marked",
}
KEY_LETTERS = 16
"""Letters of a key's fingerprint that a table shows."""


def table(plan: Plan) -> list[tuple[str, ...]]:
    """Return a row per action."""
    return [_row(action, action.name in plan.purge) for action in plan.actions]


def _row(action: Action, purged: bool) -> tuple[str, ...]:
    before, after = action.before, action.after
    shown = after or before
    key = "unsigned" if after is None or after.key is None else after.key[:KEY_LETTERS]
    changed = action.staged is not None
    return (
        action.kind + (" and purge" if purged else ""),
        action.name,
        before.version if before else "",
        after.version if after and changed else "",
        key if changed else "",
        requests.public_url(shown.url) if shown and changed else "",
        action.reason,
    )


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table without its empty columns, headers first."""
    kept = [number for number in range(len(headers)) if any(row[number] for row in rows)]
    lines = [[line[number] for number in kept] for line in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def first_keys(plan: Plan, root: Path) -> list[str]:
    """Return a line for each plugin whose first key this plan brings: from then on no other is accepted for it."""
    from lumia.pkg.trust import TrustStore

    signed = [one.after for one in plan.actions if one.staged is not None and one.after is not None and one.after.key]
    known = TrustStore(root).plugins() if signed else {}
    return [
        f"{one.name} {one.tag} is signed by the key {one.key}, from now on the only one accepted for {one.name}; "
        "compare it with what its author tells elsewhere"
        for one in signed
        if one.name not in known
    ]


def sentence(action: Action) -> str:
    """Return what was done in a line: `upgraded geo 0.3.0 → 0.4.0`."""
    before, after = action.before, action.after
    if action.kind == "mark" and after is not None:
        return f"marked {action.name} as {'asked for' if after.requested else 'a dependency'}"
    if before is not None and after is not None and action.staged is not None and before.version == after.version:
        return f"reinstalled {action.name} {after.version}"
    if action.kind in ("enable", "disable"):
        version = ""
    elif before is not None and after is not None:
        version = f" {before.version} → {after.version}"
    else:
        version = f" {(after or before).version}" if after or before else ""  # type: ignore[union-attr]  # one of them is
    return f"{DONE[action.kind]} {action.name}{version}"


def as_data(plan: Plan, *, operation: str | None = None, commit: str | None = None, note: str = "") -> dict[str, Any]:
    """Return a plan, and what came of it, as JSON-exact values."""
    return {
        "operation": operation,
        "commit": commit,
        "actions": [
            {
                "kind": action.kind,
                "name": action.name,
                "from": _locked(action.before),
                "to": _locked(action.after),
                "purge": action.name in plan.purge,
                "reason": action.reason,
            }
            for action in plan.actions
        ],
        "python": {name: list(wanted) for name, wanted in plan.python.items()},
        "warnings": list(plan.warnings),
        "note": note,
    }


def _locked(locked: Locked | None) -> dict[str, Any] | None:
    if locked is None:
        return None
    return {
        "version": locked.version,
        "tag": locked.tag,
        "commit": locked.commit,
        "source": requests.public_url(locked.url),
        "digest": locked.digest,
        "key": locked.key,
    }
