"""`lumia status` and the table of `lumia up`."""

from __future__ import annotations

import time
from typing import IO

from tasks.supervise.memory import measure, megabytes
from tasks.supervise.state import ServiceState, UpState

_WIDE = 160
"""Columns where no terminal sets the width."""
_STYLES = {"ready": "green", "starting": "yellow", "restarting": "yellow", "stopping": "yellow"}


def show(state: UpState, out: IO[str]) -> None:
    """Print one table of the services to `out`."""
    from rich.console import Console
    from rich.table import Table

    memory = measure(state)
    table = Table(title=None, box=None, pad_edge=False, header_style="bold", show_footer=True)
    table.add_column("service", footer="in all")
    table.add_column("state", footer="ready" if state.ready else "not ready")
    table.add_column("pid", justify="right")
    table.add_column("memory", justify="right", footer=megabytes(memory.total))
    table.add_column("since", justify="right")
    table.add_column("url", min_width=max((len(one.url or "") for one in state.services), default=0), no_wrap=True)
    now = time.time()
    for one in state.services:
        size = memory.services.get(one.name)
        table.add_row(
            one.name,
            _state(one),
            str(one.pid or "-"),
            megabytes(size) if size else "-",
            _ago(now - one.since),
            one.url or "",
        )
    Console(file=out, highlight=False, width=None if out.isatty() else _WIDE).print(table)


def _state(one: ServiceState) -> str:
    again = f", {one.restarts} restart{'s' if one.restarts > 1 else ''}" if one.restarts else ""
    return f"[{_STYLES.get(one.state, 'red')}]{one.state}[/]{again}"


def _ago(seconds: float) -> str:
    """Return a length of time as its largest unit: `42 s`, `7 min`, `3 h`, `5 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
