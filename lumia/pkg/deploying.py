"""Handing a finished change of `plugins/` to the running bot (docs/hot-reload.md).

`deploy` writes a deployment record; the bot's processes load the new generations beside the old ones, and all switch,
or none does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lumia.deployment import Decided, Deployments, Progress, Wanted
from lumia.errors import (
    BackendForbiddenError,
    BackendSilentError,
    BackendUnavailableError,
    BusyDeploymentError,
    DeploymentRecordError,
    PkgError,
    StaleDeploymentError,
)
from lumia.pkg import basis
from lumia.pkg.model import Locked
from lumia.pkg.text import plain

if TYPE_CHECKING:
    from lumia.config import ConfigStore
    from lumia.pkg.bringing import Root
    from lumia.ports import Transport

WAIT_SECONDS = 60.0
"""How long the processes of a bot may take to load what a deployment brings."""
SWITCH_SECONDS = 10.0
"""How long it is waited for that they all have switched, which takes each of them a moment."""
WORKER_SECONDS = 30.0
"""How long it is waited for a worker, as one that is being restarted."""
LOOK_SECONDS = 0.05
SAY_SECONDS = 1.0
HINDERED = (BackendForbiddenError, BackendSilentError)
"""Of a broker that is there: the bot may run."""
NOBODY = "no process of the bot runs; the change takes effect at its next start"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Failed:
    """Why one process could not take a deployment. text: one sentence with plugin, stage, file and line."""

    process: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What became of a deployment.

    state: `active`: every live process has loaded it and works with it; `rolled back`: one could not, and all work on
    with what they had (the caller puts the files back); `stopped`: no bot runs, so its next start takes it over; `in
    step`: the bot works with it already, and now this root has it, too.
    number: the deployment's, 0 when there is none. processes: how many took part. note: what somebody should know.
    """

    state: Literal["active", "rolled back", "stopped", "in step"]
    number: int = 0
    processes: int = 0
    failed: tuple[Failed, ...] = ()
    seconds: float = 0.0
    note: str = ""

    @property
    def text(self) -> str:
        """Return it in a sentence or two."""
        if self.state == "rolled back":
            whose: dict[str, list[str]] = {}
            for one in self.failed:
                whose.setdefault(one.text, []).append(one.process)
            reasons = "; ".join(f"{', '.join(processes)}: {text}" for text, processes in whose.items())
            return f"it works on as before, since {reasons}"
        if self.state == "stopped":
            return self.note or NOBODY
        if self.state == "in step":
            return f"this bot root is in step with the bot (deployment {self.number})"
        return f"deployment {self.number}: {self.processes} processes of the bot switched in {self.seconds:.1f} s"

    @property
    def ok(self) -> bool:
        """Tell whether the change stands."""
        return self.state != "rolled back"


def deploy(
    root: Path,
    lock: Mapping[str, Locked],
    *,
    operation: str = "",
    turn: int = 0,
    wait: float = WAIT_SECONDS,
    on_step: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Have the running processes of the bot of `root` work with `lock`, which its `plugins/` holds already.

    lock: plugin → what is installed now. operation: id of the operation, for which the same deployment is begun once.
    turn: the token of the turn to change the bot's plugins (`lumia.pkg.turn`), 0 without one. wait: seconds the
    processes may take. on_step: told in a sentence what is waited for. Returns when all have switched or none will;
    raises `PkgError` when another deployment is under way for that long.
    """
    from lumia.pkg.bringing import Root

    try:
        with reached(root) as (transport, config):
            place = Root(root, config)
            try:
                return hand_over(transport, place, lock, operation=operation, turn=turn, wait=wait, say=on_step)
            except BackendUnavailableError as error:
                return Outcome(
                    "stopped",
                    note=f"{why_away(error)}; processes that run all the same take it over when they start anew",
                )
    except BackendUnavailableError:
        return Outcome("stopped", note=NOBODY)


def why_away(error: Exception) -> str:
    """Return why the broker couldn't be asked, without what is said of messages then."""
    if isinstance(error, BackendForbiddenError):
        return str(error)
    return f"the bot's broker does not answer ({plain(str(error.__cause__), 200)})" if error.__cause__ else str(error)


def await_worker(root: Path, on_step: Callable[[str], None] = lambda text: None) -> None:
    """Wait until a worker of the running bot can judge a deployment; returns at once when nothing runs.

    A gateway loads few plugins: alone it would take one that no worker can load. Raises `PkgError` when none comes.
    """
    until, told = time.monotonic() + WORKER_SECONDS, False
    with suppress(BackendUnavailableError), reached(root) as (transport, _):
        while (members := transport.deployments().members()) and all(one.kind == "gateway" for one in members):
            if time.monotonic() > until:
                raise PkgError(
                    "processes of the bot run, but no worker, so nobody can tell whether this loads; see `lumia "
                    "status` for what keeps the workers from running, or end the bot (`lumia down`) and run this again"
                )
            if not told:
                on_step("waiting for a worker of the bot")
                told = True
            time.sleep(LOOK_SECONDS)


def require_in_step(root: Path, on_step: Say = lambda text: None, *, replace: bool = False) -> bool:
    """Return when a change made from what `root` holds is one of what the running bot works with (`lumia.pkg.basis`).

    replace: the change says by itself what is installed afterwards, so it may replace a record that no machine takes;
    returns True where there is such a one. Raises `PkgError` naming what differs, and the way out. A bot that can't be
    reached is nothing to be in step with.
    """
    from lumia.pkg.bringing import Root

    try:
        with suppress(BackendUnavailableError), reached(root) as (transport, config):
            basis.require(Root(root, config), transport.deployments(), on_step)
    except DeploymentRecordError:
        if not replace:
            raise
        return True
    return False


@contextmanager
def reached(root: Path) -> Iterator[tuple[Transport, ConfigStore]]:
    """Give the way to the running bot of `root`, and its settings; raises `BackendUnavailableError` without one.

    Where its broker is there and refuses, or stays silent, the bot may well run: that raises `PkgError`.
    """
    from lumia.config import ConfigStore
    from lumia.opening import connect, limits_of

    config = ConfigStore(root)
    transport = connect(config.core.lumia.backend, root, limits_of(config), config)
    try:
        yield transport, config
    except HINDERED as error:
        raise PkgError(
            f"nothing was changed, as the running bot can't be asked what it works with: {why_away(error)}; run this "
            "again when that is mended"
        ) from error
    finally:
        transport.close()


def hand_over(
    transport: Transport,
    root: Root,
    lock: Mapping[str, Locked],
    *,
    operation: str = "",
    turn: int = 0,
    wait: float = WAIT_SECONDS,
    say: Say = lambda text: None,
) -> Outcome:
    """Do what `deploy` does, over a transport.

    Raises `BackendUnavailableError` while the broker is away, `StaleDeploymentError` when `root` was changed from other
    plugins than those the bot works with.
    """
    deployments, began = transport.deployments(), time.monotonic()
    held = root.held()
    plugins = {name: one.as_dict() for name, one in lock.items()}
    wanted = Wanted(plugins, held.disabled, held.layer, operation, root.place)
    number, handed = _begun(deployments, root, wanted, turn, wait, say)
    decided = _awaited(deployments, number, wait, say)
    if decided.state == "active":
        root.note(number)
        root.saw(handed)
        _switched(deployments, number)
    return _outcome(decided, time.monotonic() - began)


def _begun(
    deployments: Deployments, root: Root, wanted: Wanted, turn: int, wait: float, say: Say
) -> tuple[int, Wanted]:
    """Return the number of the deployment, and its record."""
    until, told = time.monotonic() + wait, 0
    while True:
        base = basis.base_of(root, deployments, wanted.operation)
        try:
            sealed = root.sealed(replace(wanted, serial=basis.serial_of(root, deployments, wanted)))
            return deployments.begin(sealed, wait, base, turn), sealed
        except StaleDeploymentError:  # active since we looked: does it go with what is here?
            if time.monotonic() >= until:
                raise
        except BusyDeploymentError as error:
            if time.monotonic() >= until:
                raise
            if told != error.number:
                say(f"waiting for deployment {error.number}, begun at {error.origin}")
                told = error.number
        time.sleep(LOOK_SECONDS)
        deployments.look()


def _awaited(deployments: Deployments, number: int, wait: float, say: Say) -> Decided:
    said, until = 0.0, time.monotonic() + wait + SWITCH_SECONDS
    while True:
        with suppress(BackendUnavailableError):
            deployments.look()
            found = next((one for one in deployments.decided() if one.number == number), None)
            if found is not None:
                return found
            if time.monotonic() - said > SAY_SECONDS and (progress := deployments.progress()) is not None:
                said = time.monotonic()
                say(_told(progress))
        if time.monotonic() > until:
            raise BackendUnavailableError(
                f"nobody knows what became of deployment {number}: the broker does not answer"
            )
        time.sleep(LOOK_SECONDS)


def _told(progress: Progress) -> str:
    count = len(progress.open) + len(progress.ready)
    waiting = ", ".join(progress.open[:3]) + (f" and {len(progress.open) - 3} more" if len(progress.open) > 3 else "")
    return f"{len(progress.ready)} of {count} processes have loaded it; waiting for {waiting or 'the decision'}"


def _switched(deployments: Deployments, number: int) -> None:
    """Wait until every process works with a deployment; one that takes long does so soon, and nothing depends on it."""
    until = time.monotonic() + SWITCH_SECONDS
    while time.monotonic() < until and any(member.active < number for member in deployments.members()):
        if deployments.look().active != number:
            return
        time.sleep(LOOK_SECONDS)


def _outcome(decided: Decided, seconds: float) -> Outcome:
    failed = tuple(Failed(name, why) for name, why in decided.reasons)
    if decided.state == "rolled back":
        return Outcome("rolled back", decided.number, decided.ready, failed, seconds)
    state: Literal["active", "stopped"] = "active" if decided.ready else "stopped"
    return Outcome(state, decided.number, decided.ready, (), seconds)
