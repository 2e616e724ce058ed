"""Bringing this machine's bot root in step with the bot: what a deployment wants, and what a starting process finds.

`data/pkg/deployed.json` notes with which deployment the root was in step last, and what it held then: so a starting
process knows whether the root is behind, because the machine was away, or ahead, because the bot was stopped.
"""

from __future__ import annotations

import fcntl
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lumia.atomic import locked
from lumia.atomic import replace as write_file
from lumia.deployment import Deployments, Standing, Wanted, place_of
from lumia.errors import (
    BackendUnavailableError,
    LumiaError,
    OldRecordError,
    OperationError,
    PkgError,
    PlanError,
    RegistryError,
    StaleDeploymentError,
)
from lumia.pkg import basis, layers, lockfile, sealing
from lumia.pkg.layout import Layout
from lumia.pkg.model import Locked
from lumia.secrets import load_secret

if TYPE_CHECKING:
    from lumia.config import ConfigStore
    from lumia.pkg.layers import Layer
    from lumia.pkg.lockfile import Lock
    from lumia.pkg.revocation import Revoked
    from lumia.runtime import Runtime

START_SECONDS = 60.0
_log = logging.getLogger("lumia.pkg")
LOOK_SECONDS = 0.1
TURN_SECONDS = 20.0
"""How long a starting process waits for its turn to change the bot's plugins; then it tries without."""
OPERATION_SECONDS = 120.0
"""How long a `pkg` at work may keep a starting process waiting; its hooks are the longest part."""
_TRIES = 3
MEND_SECONDS = 1.0
"""How long a process that would build lost packages waits for a `pkg` at work, which builds them itself."""


@dataclass(frozen=True)
class _Noted:
    """With which deployment a root was in step last. held: what it held then. before: what it held before that.

    serial: the greatest of an active deployment that this root has seen; an older record is taken no more.
    """

    number: int
    held: str
    before: str = ""
    serial: int = 0


class Root:
    """One bot root and the settings that say what is disabled in it."""

    def __init__(self, root: Path, config: ConfigStore) -> None:
        self._layout, self._config = Layout(root), config
        self.place = place_of(root)

    @property
    def managed(self) -> bool:
        """Tell whether `pkg` has installed something here."""
        return self._layout.lock.is_file()

    def held(self) -> Wanted:
        """Return what this root holds now. layer: the Python packages that its processes start with."""
        plugins = {name: one.as_dict() for name, one in lockfile.read(self._layout.root).plugins.items()}
        disabled = tuple(sorted(self._config.core.plugins.disabled))
        layer = layers.name_of_current(self._layout.root)
        return Wanted(plugins if self.managed else None, disabled, layer, origin=self.place)

    def noted(self) -> _Noted | None:
        """Return with which deployment the root was in step last."""
        try:
            return _Noted(**json.loads(self._file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def took_part(self) -> Wanted | None:
        """Return what the root held when it was in step last; None when it never was, or nobody knows."""
        noted = self.noted()
        try:
            return Wanted.load(noted.held) if noted is not None else None
        except PkgError:
            return None

    def note(self, number: int, before: str = "", held: Wanted | None = None) -> None:
        """Note that the root is in step with a deployment. held: what that brought, default is what is here now.

        Raises `OSError`.
        """
        text = content(held or self.held())
        self._note(lambda noted: _Noted(number, text, before, noted.serial if noted is not None else 0))

    def saw(self, wanted: Wanted) -> None:
        """Note that a deployment is active: no older one is taken from now on. Raises `PkgError`, `OSError`."""
        serial = sealing.verified(wanted, load_secret(self._layout.root)).serial
        if serial > self.serial:
            self._note(lambda noted: replace(noted or _Noted(0, ""), serial=max(serial, noted.serial if noted else 0)))

    @property
    def serial(self) -> int:
        """Return the greatest serial of an active deployment that this root has seen, 0 for none."""
        noted = self.noted()
        return noted.serial if noted is not None else 0

    def _note(self, change: Callable[[_Noted | None], _Noted]) -> None:
        self._layout.data.mkdir(parents=True, exist_ok=True)
        with locked(self._layout.data):
            write_file(self._file, json.dumps(asdict(change(self.noted()))).encode())

    @property
    def _file(self) -> Path:
        return self._layout.data / "deployed.json"

    # --- syncing

    def bring(self, wanted: Wanted, number: int = 0) -> None:
        """Make this root hold what is wanted, as `pkg` would; one process of the machine does it. Raises `PkgError`."""
        self._bring(self.verified(wanted), number)

    def sealed(self, wanted: Wanted) -> Wanted:
        """Return it with the seal of this bot, without which no machine takes it."""
        return sealing.sealed(wanted, load_secret(self._layout.root))

    def verified(self, wanted: Wanted) -> Wanted:
        """Return what bears the seal of this bot, and is no older than what this root has seen at work.

        Raises `PkgError` for anything else that stands in Redis.
        """
        found, seen = sealing.verified(wanted, load_secret(self._layout.root)), self.serial
        if found.serial < seen:
            raise OldRecordError(
                f"the deployment record in Redis (serial {found.serial}) is older than what {self.place} has worked "
                f"with (serial {seen}), so nothing of it is installed or loaded: Redis was restored from a backup, or "
                "somebody put an older record back; `pkg sync` with a lock you trust, as `pkg sync "
                "plugins/plugins.lock`, replaces it"
            )
        return found

    def _bring(self, wanted: Wanted, number: int = 0, *, wait: bool = True) -> None:
        if wanted.plugins is None:
            return
        with self._alone():
            before = self.held()
            for left in reversed(range(_TRIES)):
                if (self.held().plugins or {}) == wanted.plugins:
                    break
                try:
                    self._sync(wanted, wait=wait)
                except PlanError as error:  # perhaps somebody else has changed what is installed meanwhile
                    if not left:
                        raise PkgError(f"{self.place} can't be brought in step with the bot: {error}") from error
            self._disable(wanted)
            if number:  # a `pkg` may be at work here again
                self.note(number, before.dump(), replace(self.held(), plugins=wanted.plugins))

    def join(self, wanted: Wanted, number: int) -> None:
        """Note that this root, whose plugins are those of active deployment `number` now, is in step with the bot.

        Raises `PkgError` when they aren't, `OSError`.
        """
        before = self.held()
        if (before.plugins or {}) != (wanted.plugins or {}):
            raise PkgError(f"{self.place} does not hold the plugins of deployment {number}; run it again")
        self._disable(wanted)
        self.note(number, before.dump())
        self.saw(wanted)

    def restore(self, wanted: Wanted | None, number: int = 0) -> None:
        """Go back to what is at work after a deployment was rolled back. wanted: None when nobody has said.

        number: of the deployment that is at work, which the root is in step with again.

        While a `pkg` is at work here it is left to that: it puts its own changes back, or it goes on from what is here
        and waits for this process to answer, which may not wait for it then.
        """
        from lumia.pkg.mutex import HeldError

        noted = self.noted()
        before = Wanted.load(noted.before) if noted is not None and noted.before else None
        try:
            if wanted is not None:
                self.verified(wanted)
            if before is not None and (wanted is None or content(before) == content(wanted)):
                self._bring(before, number, wait=False)  # with the Python packages that were here
            elif wanted is not None:
                self._bring(wanted, number, wait=False)
        except HeldError as error:
            _log.info("%s is not put back by this process: %s", self.place, error)

    def _sync(self, wanted: Wanted, *, wait: bool = True) -> None:
        from lumia.pkg import ground, history, operation, python_deps, recovery

        root = self._layout.root
        recovery.recover(root)
        lock = lockfile.of_fields(wanted.plugins or {}, "the lock of the deployment")
        plan = history.sync_plan(root, lock, revoked=self._revoked)

        def packages(lock: Lock) -> Layer | None:
            needed = ground.python_of(ground.applied(plan, root, strict=False))
            return python_deps.ensure(needed, root=root, prefer=wanted.layer)

        operation.run(plan, layout=self._layout, packages=packages, wait=wait)

    def mend(self) -> None:
        """Build the Python packages anew that are named and not there, as in a copy of the root without data/python."""
        from lumia.pkg import ground, mutex, python_deps

        root = self._layout.root
        if layers.pointer(root) is None or layers.current(root) is not None:
            return
        try:
            with self._alone(), mutex.hold(self._layout, timeout=MEND_SECONDS):
                if layers.current(root) is None:
                    needed = ground.python_of(ground.Ground.read(root).world)
                    layers.point(root, layers.pointing(python_deps.ensure(needed, root=root, say=_log.warning)))
        except (LumiaError, OSError) as error:
            _log.error("the Python packages in %s are gone, and plugins that need them can't be loaded until the next "
                       "start that can build them: %s", root / layers.FOLDER, error)  # fmt: skip

    def _revoked(self) -> Revoked:
        from lumia.pkg.registry import Registry, configured
        from lumia.pkg.sources import revoked_now

        registry = None
        try:
            if url := configured(self._config):
                registry = Registry(url, self._layout.data / "registry", warn=_log.warning)
        except RegistryError as error:
            _log.warning("what is revoked can't be asked for: %s", error)
        return revoked_now(self._layout.root, registry, _log.warning)

    def _disable(self, wanted: Wanted) -> None:
        if set(self._config.core.plugins.disabled) != set(wanted.disabled):
            self._config.set_path("plugins.disabled", sorted(wanted.disabled))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._layout.data.mkdir(parents=True, exist_ok=True)
        with (self._layout.data / "sync").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def content(wanted: Wanted) -> str:
    """Return a text that is the same for what holds the same plugins, with the same ones disabled."""
    return replace(wanted, layer="", operation="", origin="", seal="", serial=0).dump()


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
