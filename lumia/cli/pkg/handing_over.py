"""A finished change goes to the running bot: first its Python packages, then the plugins (docs/hot-reload.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lumia.pkg.layout import Layout

if TYPE_CHECKING:
    from lumia.pkg.deploying import Outcome
    from lumia.pkg.layers import Layer
    from lumia.pkg.lockfile import Lock


class Deployer:
    """Hands a lock over. layer: the Python packages that go with it, None to leave those as they are. turn: the
    token of the turn to do so (`lumia.pkg.turn`).
    """

    def __init__(
        self, root: Path, say: Callable[[str], None], layer: Callable[[], Layer | None] | None, turn: int = 0
    ) -> None:
        self._root = root
        self._say = say
        self._layer = layer
        self._turn = turn
        self.outcome: Outcome | None = None

    def __call__(self, lock: Lock) -> Outcome:
        """Switch the packages, hand the lock over, and switch back when the bot can't take it."""
        from lumia.pkg import layers

        before = layers.current(self._root)
        layer = self._layer() if self._layer is not None else before
        changed = self._layer is not None and (layer.name if layer else "") != (before.name if before else "")
        if changed:
            layers.switch(self._root, layer)
        ok = False
        try:
            outcome = self.hand_over(lock, layer.name if layer else "")
            ok = outcome.ok
        finally:
            if changed and not ok:
                layers.switch(self._root, before)
        self.outcome = outcome
        return outcome

    def hand_over(self, lock: Lock, layer: str) -> Outcome:
        """Hand it over, with a folder of Python packages that this root has switched to."""
        from lumia.pkg.deploying import deploy

        operation = _operation(self._root)
        return deploy(self._root, lock.plugins, operation=operation, layer=layer, turn=self._turn, on_step=self._say)


def deployer(root: Path, say: Callable[[str], None], turn: int = 0) -> Deployer:
    """Return what hands over an operation that was cut off: its packages are those that the plugins need now."""

    def needed() -> Layer | None:
        from lumia.pkg import python_deps

        return python_deps.ensure(python_deps.of_plugins(root), root=root, say=say)

    return Deployer(root, say, needed, turn)


def _operation(root: Path) -> str:
    """Return the id of the operation that is going on."""
    try:
        data = json.loads(Layout(root).journal.read_bytes())
    except (OSError, ValueError):
        return ""
    return str(data.get("id", "")) if isinstance(data, dict) else ""
