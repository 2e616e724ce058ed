"""What surrounds a replayed step instead of the world: a transport that keeps nothing, a pinned clock, the record."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Protocol

from lumia.asyncloop import AsyncLoop
from lumia.blob_incoming import Incoming
from lumia.blobs import BlobRef, Blobs
from lumia.box import Box
from lumia.errors import BlobError, ReplayError
from lumia.history import MemoryHistory
from lumia.ports import Claim, Commit, Health, Limits, StoreOp
from lumia.recording import Missed, Player, Recording
from lumia.routes import RouteTable
from lumia.runtime import Runtime

ANSWERED = ("store", "config", "now", "waiting", "tools")
"""Reads that a replay answers itself when they are not recorded: nothing stored, today's setting, the pinned time, an
empty lane, the tools of today's plugins."""


class PinnedClock:
    """Shows the moment the recorded step began. Durations are real ones; chance follows from the step."""

    def __init__(self) -> None:
        self.moment = 0.0

    def now(self) -> float:
        """Return the pinned moment, in seconds since 1970."""
        return self.moment

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def noise(self) -> int:
        """Return 0: inside of a step ids come from its own source of chance, and outside there are none."""
        return 0

    def random(self) -> float:
        """Return 0, see `noise`."""
        return 0.0


class OfflinePlayer(Player):
    """Answers a replayed try from its record, and makes no call for what isn't there."""

    def read(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        """Return the recorded value; of what is not recorded, what an empty store and today's configuration hold.

        Raises `ReplayError` for anything else, such as the answer of a service: it would have to be asked.
        """
        if kind in ANSWERED:
            if kind == "config" and (kind, name) not in self._reads:
                value = call()  # a section is no setting: this raises then as it did when it was recorded
                return super().read(kind, name, lambda: value)
            return super().read(kind, name, call)
        return super().read(kind, name, lambda: _not_recorded(kind, name))

    @property
    def lacks(self) -> list[Missed]:
        """Return what was asked for and can't be answered without the world: the step can't be replayed."""
        return [miss for miss in self.misses if is_lacking(miss)]


def is_lacking(miss: Missed) -> bool:
    """Tell whether a step goes another way without what it missed: a call, or the answer of a service."""
    return miss.kind not in ANSWERED and not is_other_call(miss)


def is_other_call(miss: Missed) -> bool:
    """Tell whether a recorded call was made with other arguments: its recorded result was given."""
    return "other arguments" in miss.why


def _not_recorded(kind: str, name: str) -> NoReturn:
    raise ReplayError(f"{kind} {name} was not asked when this was recorded, and a replay asks nobody")


class Scene(Protocol):
    """One run being replayed."""

    def player(self, claim: Claim) -> OfflinePlayer:
        """Return what answers the step of a claim."""

    def commit(self, claim: Claim, commit: Commit) -> Claim | None:
        """Take in what a step came to; returns what follows."""


class StageTransport:
    """The part of `lumia.ports.Transport` that a replayed step can meet; whatever else it asks for is refused."""

    def __init__(self, limits: Limits, table: RouteTable) -> None:
        self.limits, self._table = limits, table
        self.scene: Scene | None = None

    def commit(self, claim: Claim, commit: Commit) -> Claim | None:
        """Hand what a step came to, to the scene."""
        assert self.scene is not None
        return self.scene.commit(claim, commit)

    def player(self, claim: Claim) -> OfflinePlayer:
        """Return what answers a step."""
        assert self.scene is not None
        return self.scene.player(claim)

    def read(self, key: str) -> tuple[str, Any]:
        """Return ("none", None): what was in the store then is in the record."""
        return ("none", None)

    def waiting(self, key: str, count: int, most: int, *, newest: bool) -> list[Any]:
        """Return no runs: who waited then is in the record."""
        return []

    def routes(self) -> RouteTable:
        """Return the routes of today's code."""
        return self._table

    def history(self) -> MemoryHistory:
        """Return no runs: a handler that looks into the journal sees an empty one."""
        return MemoryHistory([])

    def tail(self, after: str, timeout: float, limit: int) -> list[Any]:
        """Return no entries."""
        return []

    def cursor(self) -> str:
        """Return the start of the journal."""
        return "0"

    def run(self, run_id: str) -> None:
        """Return None: no other run is known."""

    def health(self) -> Health:
        """Tell that all is well."""
        return Health(True)

    def write(self, ops: Sequence[StoreOp]) -> None:
        """Keep nothing of what is written outside of a step, as plugins do when they start."""

    def close(self) -> None:
        """Release nothing."""

    def __getattr__(self, name: str) -> Any:
        """Return a refusal of everything else a transport does."""
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._refuse(name)

    def _refuse(self, what: str) -> NoReturn:
        raise ReplayError(
            f"a replay keeps nothing and reaches nobody, and this code asked the transport to {what} outside of a step"
        )


class StageBlobs:
    """The blobs of a bot, to which a replay adds none: those it makes stay in its own temporary folder."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs.at(touch=False)

    @property
    def _own(self) -> Blobs:
        return self._blobs.at(Path(tempfile.gettempdir()) / "blobs")

    def put(self, data: bytes, media_type: str) -> BlobRef:
        """Return the reference of bytes."""
        return self._own.put(data, media_type)

    def get(self, ref: BlobRef | dict[str, Any] | str) -> bytes:
        """Return the bytes of a reference."""
        try:
            return self._own.get(ref)
        except BlobError:
            return self._blobs.get(ref)

    @property
    def max_bytes(self) -> int:
        """Return the size of the largest blob that is taken."""
        return self._blobs.max_bytes

    def incoming(self) -> AbstractContextManager[Incoming]:
        """Return where bytes can be written piece by piece."""
        return self._own.incoming()

    def holds(self, ref: BlobRef | dict[str, Any] | str) -> bool:
        """Tell whether a blob is here."""
        return self._own.holds(ref) or self._blobs.holds(ref)

    def open(self, ref: BlobRef | dict[str, Any] | str) -> BinaryIO:
        """Open the bytes of a reference."""
        try:
            return self._own.open(ref)
        except BlobError:
            return self._blobs.open(ref)


class StageRuntime(Runtime):
    """Today's code on the stage."""

    def run_inline(self, run_id: str, box: Box[Any]) -> None:
        """Execute no run of a live resource: what it would do with it is not recorded."""

    def close_loops(self) -> None:
        """End the threads async handlers ran on; the plugins belong to the bot this one was made of."""
        for loop in (self._loop, self._beside):
            if loop is not None:
                (loop.close if isinstance(loop, AsyncLoop) else loop.shutdown)()


def staged(bot: Runtime, transport: StageTransport, clock: PinnedClock) -> StageRuntime:
    """Return the code and settings of `bot` on a stage; `bot` stays as it is."""
    own: dict[str, Any] = {
        "transport": transport, "clock": clock, "player": transport.player, "worker": "replay", "draining": False,
        "_table": None, "_loop": None, "_beside": None, "_lock": threading.Lock(),
    }  # fmt: skip
    if bot.blobs is not None:
        own["blobs"] = StageBlobs(bot.blobs)
    names = [item.name for item in fields(Runtime) if item.init and item.name not in own]
    return StageRuntime(**{name: getattr(bot, name) for name in names}, **own)


def nothing(claim: Claim, run_id: str) -> Recording:
    """Return the recording of a step that was not recorded."""
    return Recording(run_id, claim.step, claim.attempt)
