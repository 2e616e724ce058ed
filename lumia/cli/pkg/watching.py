"""Showing an operation while it goes on: a line that moves on a terminal, plain lines elsewhere; all on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lumia.cli import output
from lumia.pkg.text import plain

if TYPE_CHECKING:
    from lumia.pkg.operation import Step

LOUD = frozenset({"output", "warning", "undo", "wait"})
"""Steps that are told in a line of their own, also where nothing moves."""


class Watch:
    """What is going on, in words. Nothing moves unless stderr is a terminal."""

    def __init__(self) -> None:
        self._moving: Any = None
        self._task: Any = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress within the block; after it the line is gone."""
        if not sys.stderr.isatty() or self._moving is not None:
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=30))
        with Progress(*columns, console=Console(stderr=True), transient=True) as moving:
            self._moving, self._task = moving, moving.add_task("…", total=None)
            try:
                yield
            finally:
                self._moving = None

    def doing(self, text: str) -> None:
        """Say what is being done now."""
        if self._moving is not None:
            self._moving.update(self._task, description=plain(text, 70), total=None, completed=0)

    def telling(self, text: str) -> None:
        """Say what is waited for, in a line of its own."""
        self.tell(text, style="dim")

    def fetching(self, text: str, part: float | None) -> None:
        """Say what is being fetched, and how much of it (0 to 1) is here."""
        if self._moving is not None:
            whole = None if part is None else 1.0
            self._moving.update(self._task, description=plain(text, 70), total=whole, completed=part or 0.0)

    def step(self, step: Step) -> None:
        """Show a step of an operation."""
        if step.name not in LOUD:
            self.doing(f"{step.plugin}: {step.text}" if step.plugin and step.plugin not in step.text else step.text)
            return
        lead = f"{step.plugin}| " if step.name == "output" else "warning: " if step.name == "warning" else ""
        self.tell(f"{lead}{step.text}", style={"warning": "yellow", "undo": "yellow"}.get(step.name, "dim"))

    def tell(self, line: str, style: str = "") -> None:
        """Print a line above what moves."""
        if self._moving is not None:
            self._moving.console.print(line, style=style or None, markup=False, highlight=False, soft_wrap=True)
        else:
            output.note(line, style=style)
