"""Plugins that processes are loading for long, or didn't survive: read from their marks, without importing anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lumia.errors import LumiaError
from lumia.quarantine import LOSSES, slow, suspects
from tasks.supervise.findings import Finding, risk


def check_loading(base: Path, root: Path) -> Iterator[Finding]:
    """Yield a finding for each plugin that keeps a process from starting, or is kept out since it ended some."""
    for mark in slow(root):
        limit = f"; it is ended after {mark.limit:g} s" if mark.limit else ""
        yield risk(
            "plugins", f"plugin {mark.plugin} {mark.what} in process {mark.process}, for {mark.age:.0f} s now{limit}",
            f"wait if it loads a model; else {_off(mark.plugin)}",
        )  # fmt: skip
    with suppress(LumiaError, OSError):
        for one in suspects(base, root):
            if one.quarantined:
                message, fix = (
                    f"plugin {one.plugin} is quarantined: {one}",
                    "the others run without it; install another ",
                )
                fix += f"version, or mend what it needs and `lumia plugins release {one.plugin}`"
            else:
                message = f"plugin {one.plugin}: {one}; after {LOSSES} it is left out"
                fix = _off(one.plugin)
            yield risk("plugins", message, fix)


def _off(plugin: str) -> str:
    """Say how to do without a plugin: what comes with Lumia can't be removed."""
    return f"turn it off: `pkg disable {plugin}`, or [plugins] disabled in config/lumia.toml"
