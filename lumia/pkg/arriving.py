"""What a process that starts finds: its bot root is brought in step with the bot, or the bot with what the root holds.

The root may be behind, because the machine was away, or ahead, because the bot was stopped (`lumia.pkg.bringing`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lumia.deployment import Deployments, Standing, Wanted
from lumia.errors import (
    BackendForbiddenError,
    BackendUnavailableError,
    OldRecordError,
    OperationError,
    PkgError,
    StaleDeploymentError,
)
from lumia.pkg import basis
from lumia.pkg.bringing import Root, content
from lumia.pkg.layout import Layout
from lumia.pkg.model import Locked

if TYPE_CHECKING:
    from lumia.runtime import Runtime

START_SECONDS = 60.0
TURN_SECONDS = 20.0
"""How long a starting process waits for its turn to change the bot's plugins; then it tries without."""
OPERATION_SECONDS = 120.0
"""How long a `pkg` at work may keep a starting process waiting; its hooks are the longest part."""
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Arrived:
    """What a starting process is to load. number: the active deployment. disabled: None as the settings say."""

    number: int = 0
    disabled: tuple[str, ...] | None = None


def arrive(bot: Runtime) -> Arrived:
    """Bring the root of a starting process in step with the bot, and tell what it is to load.

    Waits while a deployment is being prepared. While the broker is away the root is taken as it is. Raises `PkgError`.
    """
    assert bot.config is not None
    root = Root(bot.root, bot.config)
    try:
        if (bot.root / "data" / "pkg").is_dir():
            _recover(bot)
        arrived = _arrived(bot, root)
        root.mend()
        return arrived
    except BackendForbiddenError:
        raise
    except BackendUnavailableError as error:
        bot.log.warning("the plugins of this folder are loaded as they are: %s", error)
        return Arrived()
    except OSError as error:
        bot.log.error(
            "%s can't be brought in step with the bot, its plugins are loaded as they are: %s", root.place, error
        )
        return Arrived()


def _recover(bot: Runtime) -> None:
    from lumia.pkg import deploying, journal, recovery, turn

    try:
        cut_off = journal.read(Layout(bot.root))
        if cut_off is None:
            return
        operation = cut_off.id
        with turn.attempt(bot.root, TURN_SECONDS) as token:
            found = recovery.recover(
                bot.root,
                deploy=lambda lock: deploying.deploy(bot.root, lock.plugins, operation=operation, turn=token),
                wait=START_SECONDS,
            )
    except OperationError as error:
        bot.log.error("%s", error)  # the bot starts nevertheless: a plugin that is broken by it fails alone
        return
    if found is not None:
        bot.log.warning("%s", found.text)


def _settled(bot: Runtime, root: Root) -> Standing:
    """Return where things stand once no deployment is prepared, nor a `pkg` at work here is between two states.

    What such a `pkg` has put into the root may be about to be undone, so it is nothing to begin a deployment with.
    """
    deployments, until = bot.transport.deployments(), time.monotonic() + OPERATION_SECONDS
    while True:
        standing = deployments.look()
        if standing.state != "preparing" and (
            _in_step(root, deployments, standing.active) or not _at_work(bot) or time.monotonic() > until
        ):
            return standing
        time.sleep(LOOK_SECONDS)


def _in_step(root: Root, deployments: Deployments, active: int) -> bool:
    """Tell whether the root holds what is active; a record that can't be read is judged by who takes it."""
    try:
        wanted = deployments.wanted(active)
    except PkgError:
        return True
    return wanted is not None and wanted.plugins is not None and content(root.held()) == content(wanted)


def _at_work(bot: Runtime) -> bool:
    """Tell whether a `pkg` is in the middle of an operation on this root; one that died there is cleared up after."""
    from lumia.pkg import journal

    layout = Layout(bot.root)
    if journal.read(layout) is None:
        return False
    _recover(bot)
    return journal.read(layout) is not None


def _arrived(bot: Runtime, root: Root) -> Arrived:
    deployments, standing = bot.transport.deployments(), _settled(bot, root)
    try:
        wanted = deployments.wanted(standing.active)
        if wanted is not None:
            root.verified(wanted)
    except OldRecordError as error:
        bot.log.warning("%s; the plugins of %s are deployed anew", error, root.place)
        return _ahead(bot, root, root.held())
    except PkgError as error:
        bot.log.error("deployment %d is refused, and the plugins of %s are loaded as they are: %s", standing.active,
                      root.place, error)  # fmt: skip
        return Arrived()
    here, noted = root.held(), root.noted()
    if wanted is None or wanted.plugins is None:
        if here.plugins is None or (not standing.number and _others(bot)):
            return Arrived(standing.active)
        return _ahead(bot, root, here)
    root.saw(wanted)
    if content(here) == content(wanted):
        root.note(standing.active)
        return Arrived(standing.active, wanted.disabled)
    changed = here.plugins is not None and (noted is None or noted.held != content(here))
    base = root.took_part()
    if changed and base is not None and basis.same(base, wanted):
        return _ahead(bot, root, here)
    if changed:
        bot.log.error("%s was changed while the bot had other plugins: it goes back to those of deployment %d; what "
                      "was there is in `pkg log`", root.place, standing.active)  # fmt: skip
    root.bring(wanted, standing.active)
    return Arrived(standing.active, wanted.disabled)


def _others(bot: Runtime) -> bool:
    """Tell whether processes run that were started before anything was managed."""
    return bool(bot.transport.deployments().members())


def _ahead(bot: Runtime, root: Root, here: Wanted) -> Arrived:
    from lumia.pkg import deploying, turn

    plugins: Mapping[str, Mapping[str, Any]] = here.plugins or {}
    lock = {name: Locked(**fields) for name, fields in plugins.items()}
    try:
        with turn.attempt(bot.root, TURN_SECONDS) as token:
            operation = f"start {hash_of(here)}"
            outcome = deploying.hand_over(bot.transport, root, lock, operation=operation, turn=token)
    except StaleDeploymentError as error:  # another machine was faster
        bot.log.warning("%s", error)
        return _arrived(bot, root)
    if outcome.ok:
        return Arrived(outcome.number, here.disabled)
    active = bot.transport.deployments().look().active
    bot.log.error("what %s holds can't be loaded by the bot: %s", root.place, outcome.text)
    wanted = bot.transport.deployments().wanted(active)
    if wanted is None:
        return Arrived(active)
    root.bring(wanted, active)
    return Arrived(active, wanted.disabled)


def hash_of(wanted: Wanted) -> str:
    """Return a short name for what is wanted."""
    import hashlib

    return hashlib.sha256(content(wanted).encode()).hexdigest()[:16]
