"""Bringing a bot root in step with the running bot although none of its processes runs here: `pkg sync`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lumia.deployment import Wanted
from lumia.errors import BackendUnavailableError, DeploymentRecordError, PkgError, StaleDeploymentError, TransportError
from lumia.pkg import basis, lockfile
from lumia.pkg.bringing import Root
from lumia.pkg.deploying import Outcome, reached, why_away

if TYPE_CHECKING:
    from lumia.pkg.lockfile import Lock


@dataclass(frozen=True)
class Target:
    """What the bot works with. here: what this root holds."""

    number: int
    wanted: Wanted
    here: Wanted

    @property
    def lock(self) -> Lock:
        """Return its plugins."""
        return lockfile.of_fields(self.wanted.plugins or {}, "the lock of the deployment")

    @property
    def reached(self) -> bool:
        """Tell whether this root holds just that."""
        return basis.same(self.here, self.wanted)


def target(root: Path) -> Target:
    """Return what the bot of `root` works with.

    Raises `PkgError` when there is no such thing, `DeploymentRecordError` when no machine takes the record of it.
    """
    try:
        with reached(root) as (transport, config):
            place = Root(root, config)
            number, wanted = basis.active(place, transport.deployments())
            if wanted is None or wanted.plugins is None:
                raise PkgError(
                    "the bot works with no deployment yet, so there is nothing to bring this root in step with; name a "
                    "LOCK, as `pkg freeze` on another machine prints it"
                )
            return Target(number, wanted, place.held())
    except TransportError as error:
        raise PkgError(
            f"what the bot works with can't be asked for: {why_away(error)}; or name a LOCK, as `pkg freeze` "
            "on another machine prints it"
        ) from error


def is_target(root: Path, lock: Lock) -> bool:
    """Tell whether `lock` is just what the bot works with, and this root is not in step with it."""
    try:
        found = target(root)
    except (PkgError, DeploymentRecordError):
        return False
    return not found.reached and found.lock == lock


def confirm(root: Path, target: Target, then: Callable[[Root], None] = lambda root: None) -> None:
    """Do `then` if the bot still works with `target`; raises `StaleDeploymentError`, `PkgError` while it is away."""
    try:
        with reached(root) as (transport, config):
            number = transport.deployments().look().active
            if number != target.number:
                raise StaleDeploymentError(
                    f"the bot works with deployment {number} by now, no longer with {target.number}; run it again"
                )
            then(Root(root, config))
    except BackendUnavailableError as error:
        raise PkgError(
            f"whether the bot still works with deployment {target.number} can't be asked for: {why_away(error)}"
        ) from error


def join(root: Path, target: Target) -> Outcome:
    """Note that `root`, which holds the plugins of `target` now, is in step with the bot; raises as `confirm` does."""
    confirm(root, target, lambda place: place.join(target.wanted, target.number))
    return Outcome("in step", target.number)
