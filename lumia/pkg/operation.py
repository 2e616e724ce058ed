"""An operation: a plan is carried out as a whole, or nothing of it (spec §7.4; DESIGN §11; docs/pkg-operations.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lumia.pkg.layout import Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Plan


@dataclass(frozen=True)
class Step:
    """What an operation does just now, for whoever watches.

    name: a step of `lumia.pkg.journal.STEPS`, or `wait` (another `pkg` holds the lock), `output` (a line that a hook
    printed), `undo` (it failed and is being undone), `warning`. text: in plain words, free of secrets and control
    characters.
    """

    name: str
    plugin: str = ""
    text: str = ""


class Outcome(Protocol):
    """How the hand-over to the running bot ended. ok: every process has it. text: what went wrong, in plain words."""

    @property
    def ok(self) -> bool: ...
    @property
    def text(self) -> str: ...


OnStep = Callable[[Step], None]
Check = Callable[[Lock], None]
"""Is asked before anything changes, with the lock that will be, and raises `PkgError` to call it off."""
Deploy = Callable[[Lock], Outcome]
"""Hands the new lock to the running bot. It may be asked again for the same lock after a crash."""


@dataclass(frozen=True)
class Done:
    """An operation that is complete. commit: in plugins/, 40 hex digits. lock: what is installed now."""

    id: str
    commit: str
    lock: Lock
    warnings: tuple[str, ...] = ()


def run(
    plan: Plan,
    *,
    layout: Layout,
    on_step: OnStep = lambda step: None,
    check: Check | None = None,
    deploy: Deploy | None = None,
    wait: bool = True,
    force: bool = False,
) -> Done:
    """Carry out `plan`; whatever fails, everything is put back and the error raised.

    wait: for another `pkg` that is at work; else `OperationError` names it. force: replace plugins whose files were
    edited by hand; the edits are kept as a patch in data/pkg/undo.

    Raises `PkgError`: `PlanError` (what is installed is no longer what was planned with), `HookError`,
    `OperationError`, and what `check` raises.
    """
    raise NotImplementedError
