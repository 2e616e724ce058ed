"""A terminal on which a line is being typed while other lines appear above it."""

from __future__ import annotations

import sys
import threading
from typing import Any

from lumia.cli import output


class Screen:
    """Where a session's lines go: on a terminal above the prompt, else replies to stdout and the rest to stderr."""

    def __init__(self, interactive: bool) -> None:
        self.interactive = interactive
        self._lock = threading.Lock()
        self._prompt: str | None = None
        self._readline: Any = None
        if interactive:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=True)
            self._begin_editing()

    def _begin_editing(self) -> None:
        try:
            import readline
        except ImportError:  # a Python without it: typing works, its line is just not drawn again
            return
        self._readline = readline

    def ask(self, prompt: str) -> str:
        """Return the next line that is typed; raises `EOFError` at the end."""
        with self._lock:
            self._prompt = prompt
        try:
            return input(prompt)
        finally:
            with self._lock:
                self._prompt = None

    def say(self, text: str, style: str = "") -> None:
        """Show what a plugin says."""
        if self.interactive:
            self._above(text, style)
        else:
            output.text(text)

    def note(self, text: str, style: str = "") -> None:
        """Show a line about what happens."""
        if self.interactive:
            self._above(text, style)
        else:
            output.note(text, style=style)

    def _above(self, text: str, style: str) -> None:
        with self._lock:
            typing = self._prompt is not None
            if typing:
                sys.stdout.write("\r\x1b[2K")
                sys.stdout.flush()
            self._console.print(text, style=style or None, markup=False)
            if typing:
                typed = self._readline.get_line_buffer() if self._readline is not None else ""
                sys.stdout.write(f"{self._prompt}{typed}")
                sys.stdout.flush()
