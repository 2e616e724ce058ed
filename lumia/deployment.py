"""Deployments: how the processes of a bot change their plugins together (docs/hot-reload.md).

A deployment is a numbered record that the transport keeps. Members prepare it, and every look at it decides it when it
can be decided: `active` when all live members are ready, `rolled back` when one failed, died over it, or is late.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from lumia.errors import DeploymentRecordError
from lumia.loading import boot

if TYPE_CHECKING:
    from lumia.routes import RouteTable

State = Literal["", "preparing", "active", "rolled back"]

ALIVE_SECONDS = 5.0
"""A member that was not heard of for so long is gone."""
LOADING_SECONDS = 15.0
"""The same for one that is loading: an import may hold up all threads of a process."""
BREAK_SECONDS = 2.0
"""When nobody was heard of for so long it was the broker that was away, and nobody is taken for gone at once."""
KEPT = 50
"""Decided deployments that are remembered."""
_ANEW = "`pkg sync` with a lock you trust writes it anew"


@dataclass(frozen=True)
class Wanted:
    """What a deployment brings.

    plugins: name → fields of `lumia.pkg.model.Locked`; None where nothing was installed by `pkg`. disabled: plugins
    that are not loaded. layer: the Python packages that go with it. operation: of `pkg`. origin: the place it began at.
    seal: by the bot's secret (`lumia.pkg.sealing`); what bears none is not brought anywhere. serial: greater than
    that of every deployment that was active before, so that an older one is told from it.
    """

    plugins: Mapping[str, Mapping[str, Any]] | None = None
    disabled: tuple[str, ...] = ()
    layer: str = ""
    operation: str = ""
    origin: str = ""
    seal: str = ""
    serial: int = 0

    def dump(self) -> str:
        """Return it as JSON."""
        plugins = None if self.plugins is None else {name: dict(fields) for name, fields in self.plugins.items()}
        rest = {"serial": self.serial} if self.serial else {}
        return json.dumps(
            {"plugins": plugins, "disabled": list(self.disabled), "layer": self.layer, "operation": self.operation,
             "origin": self.origin, "seal": self.seal, **rest},
            sort_keys=True, separators=(",", ":"),
        )  # fmt: skip

    @classmethod
    def load(cls, text: str | bytes) -> Wanted:
        """Return what `dump` wrote. Raises `DeploymentRecordError` for anything else."""
        try:
            data = json.loads(text)
            found = cls(**{**data, "disabled": tuple(data["disabled"])})
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DeploymentRecordError(f"the deployment record is damaged: {error}; {_ANEW}") from error
        texts = (found.layer, found.operation, found.origin, found.seal, *found.disabled)
        plugins: Any = {} if found.plugins is None else found.plugins
        numbered = type(found.serial) is int and found.serial >= 0
        if not all(isinstance(one, str) for one in texts) or not isinstance(plugins, dict) or not numbered:
            raise DeploymentRecordError(f"the deployment record is damaged: a field has the wrong type; {_ANEW}")
        if not all(isinstance(fields, dict) for fields in plugins.values()):
            raise DeploymentRecordError(f"the deployment record is damaged: a plugin is no table; {_ANEW}")
        return found

    def same(self, other: Wanted | None) -> bool:
        """Tell whether a process that has the one has the other."""
        return other is not None and (self.plugins, set(self.disabled), self.layer) == (
            other.plugins, set(other.disabled), other.layer
        )  # fmt: skip


@dataclass(frozen=True)
class Member:
    """A process that takes part. kind: worker or gateway. place: machine and bot root. active: the deployment it works
    with. holds: `plugin generation` of everything it can execute.
    """

    name: str
    kind: str = "worker"
    place: str = ""
    active: int = 0
    holds: tuple[str, ...] = ()

    def dump(self) -> str:
        """Return it as JSON, without the name."""
        about = {"kind": self.kind, "place": self.place, "active": self.active, "holds": list(self.holds)}
        return json.dumps(about, separators=(",", ":"))

    @classmethod
    def load(cls, name: str, text: str | bytes) -> Member:
        """Return what `dump` wrote."""
        data = json.loads(text)
        return cls(name, data["kind"], data["place"], int(data["active"]), tuple(data["holds"]))


@dataclass(frozen=True)
class Standing:
    """Where things stand: number and state of the newest deployment, and the number of the active one."""

    number: int = 0
    state: State = ""
    active: int = 0


@dataclass(frozen=True)
class Decided:
    """A deployment that is over. reasons: (process, why) of those that could not. ready: processes that had loaded it.

    at: when it was decided, in seconds since 1970; seconds: how long it took.
    """

    number: int
    state: State
    operation: str = ""
    reasons: tuple[tuple[str, str], ...] = ()
    ready: int = 0
    at: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Progress:
    """The newest deployment while it is prepared. open: live members that have not answered; ready: those that are."""

    number: int
    wanted: Wanted
    open: tuple[str, ...] = field(default=())
    ready: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Holder:
    """Who has the turn to change the bot's plugins. owner: this turn's own name. place: machine and lock file, for
    which it has the `flock`. since: when it began, in seconds since 1970.
    """

    owner: str
    place: str
    process: int
    command: str
    since: float = 0.0

    def __str__(self) -> str:
        host = self.place.partition(":")[0]
        since = datetime.fromtimestamp(self.since).astimezone().strftime("%H:%M:%S")
        return f"`{self.command}` on {host} (process {self.process}, since {since})"

    def dump(self) -> str:
        """Return it as JSON, without when it began."""
        return json.dumps([self.owner, self.place, self.process, self.command])

    @classmethod
    def load(cls, text: str | bytes, since: float) -> Holder:
        """Return what `dump` wrote, fit to be shown on a terminal."""
        owner, place, process, command = json.loads(text)
        return cls(str(owner), shown(place, 300), int(process), shown(command, 120), since)


def shown(text: object, most: int) -> str:
    """Return a text that somebody else wrote, in one line without control characters."""
    return "".join(one if one.isprintable() else " " for one in str(text))[:most]


class Deployments(Protocol):
    """The part of a transport that keeps deployments and their members. Every call may be repeated."""

    def begin(self, wanted: Wanted, seconds: float, base: int | None = None, turn: int = 0) -> int:
        """Begin a deployment that has `seconds` to be prepared; returns its number.

        base: the active deployment that it was made from, None where that doesn't matter. turn: the token of the turn
        it is begun in, 0 without one. Raises `BusyDeploymentError` while another one is prepared,
        `StaleDeploymentError` when another one than `base` is active, or somebody else took the turn meanwhile.
        """

    def take_turn(self, holder: Holder, seconds: float, over: int = 0) -> int:
        """Take the turn to change the bot's plugins; it ends after `seconds` unless it is kept.

        Returns its token, greater than those of all turns before. over: token of a turn whose holder is known to be
        dead. Raises `BusyTurnError` while somebody else has it.
        """

    def keep_turn(self, token: int, seconds: float) -> bool:
        """Keep a turn for `seconds` from now; returns False when it is over."""

    def end_turn(self, token: int) -> None:
        """Give a turn back; one that is over already is left as it is."""

    def attend(self, member: Member) -> Standing:
        """Tell that this process lives, and what it has; several times a second."""

    def leave(self, name: str) -> None:
        """Sign off: nobody waits for this process any more."""

    def answer(
        self, number: int, name: str, said: Literal["loading", "ready", "failed"], reasons: tuple[str, ...] = (),
        table: RouteTable | None = None,
    ) -> Standing:  # fmt: skip
        """Tell how this process fares with a deployment. table: the routes that are published when it is active."""

    def look(self) -> Standing:
        """Return where things stand, decided if it can be."""

    def progress(self) -> Progress | None:
        """Return what is being prepared, None when nothing is."""

    def wanted(self, number: int) -> Wanted | None:
        """Return what a deployment brings, for the newest and the active one."""

    def decided(self) -> list[Decided]:
        """Return what became of the last deployments, newest first."""

    def members(self) -> list[Member]:
        """Return the live members."""

    def in_use(self) -> frozenset[tuple[str, str]]:
        """Return (handler, generation) of every step in the plans of runs in flight."""


def made_from(base: int | None, active: int) -> str:
    """Return what is said of a change whose base is not what the bot works with any more."""
    return f"the change was made from deployment {base}, and {active} is active by now; run it again"


LOST_TURN = (
    "this process did not answer for so long that another one took its turn to change the bot's plugins; run it again"
)


def place_of(root: Path) -> str:
    """Return the name of a bot root on this machine: its processes share the files.

    Containers may have one host name and one path for what are two folders, so it tells the folder, too.
    """
    try:
        folder = f"#{named(root.stat())}"
    except OSError:
        folder = ""
    return f"{socket.gethostname()}:{root.absolute()}{folder}"


def lock_place(descriptor: int) -> str:
    """Return the name of an open lock file on this machine: who has its `flock` knows that no one else there does."""
    return f"{socket.gethostname()}:lock#{named(os.fstat(descriptor))}"


def named(file: os.stat_result) -> str:
    """Return what no other file has, on whichever machine, until this one starts anew."""
    return hashlib.sha256(f"{boot()} {file.st_dev} {file.st_ino}".encode()).hexdigest()[:12]
