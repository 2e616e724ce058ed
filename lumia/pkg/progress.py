"""What an operation tells whoever watches it, and what it asks of whoever started it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lumia.pkg.layers import Layer
from lumia.pkg.lockfile import Lock


@dataclass(frozen=True)
class Step:
    """What an operation does just now.

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
Packages = Callable[[Lock], Layer | None]
"""Is asked then, too: returns the Python packages that go with that lock, a built layer, None when none is needed."""
Deploy = Callable[[Lock], Outcome]
"""Hands the new lock to the running bot. It may be asked again for the same lock after a crash."""


def silent(step: Step) -> None:
    """Watch nothing."""
