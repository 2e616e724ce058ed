"""How commands speak: data on stdout, notes and errors on stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def prepare() -> None:
    """Let both streams print any text (a lone surrogate is escaped) and show what the library logs as warnings."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    log = logging.getLogger("lumia")
    if not log.handlers:
        log.addHandler(_Notes(logging.WARNING))


@contextmanager
def quiet() -> Iterator[None]:
    """Show nothing the library logs in the block: the command tells it itself."""
    log = logging.getLogger("lumia")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


class _Notes(logging.Handler):
    """Shows what is logged in this process like the commands' own warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def data(value: Any) -> None:
    """Print `value` as one line of JSON on stdout."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def text(line: str) -> None:
    """Print one line of data on stdout."""
    print(line, flush=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns on stdout, headers first and, on a terminal, in bold; `--json` is for scripts."""
    lines = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *lines, strict=True)]
    _headline(_aligned(headers, widths))
    for line in lines:
        text(_aligned(line, widths))


def _headline(line: str) -> None:
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(line, style="bold", markup=False)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def note(message: str, *, style: str = "") -> None:
    """Print a line for the reader, not for scripts, on stderr."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(message, style=style or None, markup=False)


def warn(message: str) -> None:
    """Print `warning: …` as one line on stderr."""
    note(f"warning: {_one_line(message)}", style="yellow")


def error(message: str) -> None:
    """Print `error: …` as one line on stderr."""
    note(f"error: {_one_line(message)}", style="red")


def _one_line(message: str) -> str:
    return " ".join(message.split())
