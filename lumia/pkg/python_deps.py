"""Python packages of plugins: resolved before anything changes, installed beside the bot's own.

Order of calls in an operation: `resolve` while planning (changes nothing, raises `PlanError`), `build` before plugins
change, `layers.switch` with the commit; undone by `layers.switch(root, before)`. Other machines call `ensure`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lumia.pkg.layers import Layer

Say = Callable[[str], None]


def _silent(line: str) -> None:
    return None


def resolve(
    requirements: Mapping[str, Sequence[str]], *, root: Path, python: str | None = None, say: Say = _silent
) -> Layer | None:
    """Return the layer that these requirements need beside the bot's own packages; None when they need none.

    requirements: plugin → PEP 508 texts, of ALL plugins that are in the bot's processes afterwards (not of isolated
    ones: `resolve_isolated`). python: the bot's interpreter, this one by default. Nothing is installed; a layer that
    is there already, and satisfies them, is returned without asking any index. Raises `PlanError` naming both sides of
    a conflict, `SourceError` when a package can't be had.
    """
    raise NotImplementedError


def build(layer: Layer | None, *, python: str | None = None, say: Say = _silent) -> Layer | None:
    """Install a resolved layer into its folder, complete or not at all; returns it. One that is built is left alone.

    Raises `SourceError` when a package can't be fetched or isn't the one that was resolved.
    """
    raise NotImplementedError


def ensure(
    requirements: Mapping[str, Sequence[str]], *, root: Path, python: str | None = None, say: Say = _silent
) -> Layer | None:
    """Resolve and build: what a machine does that is to follow another one. Doesn't make it current."""
    return build(resolve(requirements, root=root, python=python, say=say), python=python, say=say)


def resolve_isolated(
    name: str, requirements: Sequence[str], *, root: Path, python: str | None = None, say: Say = _silent
) -> None:
    """Check that the environment of an isolated plugin can be made; raises as `resolve` does.

    Its packages have to agree with Lumia's own requirements only. `lumia.isolation` builds the environment.
    """
    raise NotImplementedError


def of_plugins(root: Path, *, base: Path | None = None) -> dict[str, tuple[str, ...]]:
    """Return the requirements of the plugins in this bot root that are in the bot's own processes, as installed now."""
    raise NotImplementedError
