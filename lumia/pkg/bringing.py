"""Bringing this machine's bot root in step with the bot: what a deployment wants, and what is noted of it.

`data/pkg/deployed.json` notes with which deployment the root was in step last, and what it held then: so a starting
process knows whether the root is behind, because the machine was away, or ahead, because the bot was stopped.
"""

from __future__ import annotations

import fcntl
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lumia.atomic import locked
from lumia.atomic import replace as write_file
from lumia.deployment import Wanted, place_of
from lumia.errors import (
    LumiaError,
    OldRecordError,
    PkgError,
    PlanError,
    RegistryError,
)
from lumia.pkg import layers, lockfile, sealing
from lumia.pkg.layout import Layout
from lumia.secrets import load_secret

if TYPE_CHECKING:
    from lumia.config import ConfigStore
    from lumia.pkg.layers import Layer
    from lumia.pkg.lockfile import Lock
    from lumia.pkg.revocation import Revoked

_log = logging.getLogger("lumia.pkg")
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
