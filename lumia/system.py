"""Time, ids, randomness, the adapter registry and the tools of the running bot (spec §6.2, §10.3).

Whoever needs a clock, an id or a random number asks here, so that tests and replay can pin them.
"""

from __future__ import annotations

import os
import random as _random
import struct
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from lumia.context import here
from lumia.errors import PayloadError
from lumia.ids import timed_id
from lumia.marks import MAX_NAME, is_name
from lumia.mcp_calls import Mcp
from lumia.recording import inner, observed

if TYPE_CHECKING:
    from lumia.store import Store


class Clock(Protocol):
    """Where time and chance come from."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def noise(self) -> int:
        """Return 60 random bits."""

    def random(self) -> float:
        """Return a number in [0, 1)."""


class RealClock:
    """The machine's clock and randomness."""

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def noise(self) -> int:
        """Return 60 random bits; the system is asked for many at a time, since every message needs some."""
        try:
            return _noise.pop()
        except IndexError:
            _noise.extend(word >> 4 for word in struct.unpack("256Q", os.urandom(2048)))
            return self.noise()

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return _random.random()


_REAL = RealClock()
_noise: list[int] = []
os.register_at_fork(after_in_child=_noise.clear)


@cache
def _runtime() -> ModuleType:
    from lumia import runtime  # which needs this module

    return runtime


def _clock() -> Clock:
    bot = _runtime().active()
    return bot.clock if bot is not None else _REAL


def now() -> float:
    """Return the seconds since 1970; in a step they are recorded, and a replay gives them again."""
    if here() is None:
        return _clock().now()
    seconds: float = observed("now", "", _clock().now)
    return seconds


def monotonic() -> float:
    """Return seconds that never go back, for measuring durations; not recorded."""
    return _clock().monotonic()


def random() -> float:
    """Return a random number in [0, 1); in a step the same one in every replay, so never use it for a secret."""
    chance = _chance()
    return _clock().random() if chance is None else chance.random()


def new_id() -> str:
    """Return a new time-sortable id of 22 characters; in a step the same one in every replay, so it is no secret."""
    if here() is None:
        clock = _clock()
        return timed_id(clock.now(), clock.noise())
    chance = _chance()
    return timed_id(now(), _clock().noise() if chance is None else chance.getrandbits(60))


def _chance() -> _random.Random | None:
    """Return the running step's source of chance: it follows from (run, step, attempt), which a replay has too."""
    step = here()
    if step is None or step.closed or inner():
        return None
    if step.chance is None:
        of = step.claim if step.player is None else step.player.recording
        step.chance = _random.Random(f"{of.run_id}/{of.step}/{of.attempt}")
    return step.chance


DATABASE_URL = "LUMIA_DATABASE_URL"
NOTED_DATABASE = Path("data") / "run" / "database.url"


def database_url(root: Path | None = None) -> str:
    """Return the URL of the bot's PostgreSQL: `LUMIA_DATABASE_URL`, else what `lumia up` noted; "" when there is none.

    root: of the bot, the active one's by default.
    """
    given = os.environ.get(DATABASE_URL, "").strip()
    if given:
        return given
    if root is None:
        from lumia import runtime

        bot = runtime.active()
        if bot is None:
            return ""
        root = bot.root
    try:
        return (root / NOTED_DATABASE).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class AdapterInfo:
    """A registered adapter. seen: when it last gave a sign of life, in seconds since 1970."""

    id: str
    version: str
    platform: str
    account: str = ""
    seen: float = 0.0


class _Adapters:
    """`lumia.system.adapters`: who serves which platform."""

    def reg(self, adapter_id: str, version: str, *, platform: str | None = None, account: str | None = None) -> None:
        """Register an adapter; the platform is the id's part before the first '-' unless given.

        Raises `PayloadError` for an id that isn't 1 to 512 printable characters.
        """
        _check(adapter_id)
        found = platform or adapter_id.split("-", 1)[0]
        self._put(AdapterInfo(adapter_id, version, found, account or "", now()))

    def heartbeat(self, adapter_id: str, version: str) -> None:
        """Note that an adapter is alive; one that was never registered is registered by it."""
        _check(adapter_id)
        known = {info.id: info for info in self.list()}.get(adapter_id)
        platform = known.platform if known else adapter_id.split("-", 1)[0]
        self._put(AdapterInfo(adapter_id, version, platform, known.account if known else "", now()))

    def list(self) -> list[AdapterInfo]:
        """Return every registered adapter, by id."""
        fields = _store().fields("adapters")
        return [AdapterInfo(**fields[key]) for key in sorted(fields)]

    def _put(self, info: AdapterInfo) -> None:
        _store().put("adapters", info.id, asdict(info))


def _check(adapter_id: object) -> None:
    if not is_name(adapter_id):
        raise PayloadError(f"an adapter's id is 1 to {MAX_NAME} printable characters, got {str(adapter_id)[:80]!r}")


def _store() -> Store:
    from lumia.store import Store

    return Store("lumia")


adapters = _Adapters()
mcp = Mcp()
