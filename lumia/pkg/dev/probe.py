"""Whether a plugin loads, found out in a sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lumia.pkg.dev.notices import Notice
from lumia.pkg.dev.project import find_project
from lumia.pkg.dev.sandbox import Bounds
from lumia.pkg.dev.session import Session
from lumia.pkg.dev.trial import Trial


def problem_of(folder: Path, beside: Sequence[str] = (), bounds: Bounds | None = None) -> str | None:
    """Load the plugin in `folder` and return why that fails, with file and line; None when it loads.

    beside: what it depends on, as folders or names of plugins that Lumia brings.
    """
    told: list[Notice] = []
    trial = Trial(find_project(folder), beside)
    try:
        with Session(trial, told.append, bounds=bounds, spare=False) as session:
            if session.wait():
                return None
    finally:
        trial.close()
    broken = next(notice for notice in told if notice.kind == "broken")
    place = broken.failure.place if broken.failure is not None else ""
    return f"{place}: {broken.text}" if place else broken.text
