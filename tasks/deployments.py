"""Deployments in Redis: `lumia.deployment.Deployments` by the scripts deploy, turn, attend and answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from lumia.deployment import ALIVE_SECONDS, LOST_TURN, Decided, Holder, Member, Progress, Standing, Wanted, made_from
from lumia.errors import BusyDeploymentError, BusyTurnError, StaleDeploymentError, UnknownRunError

if TYPE_CHECKING:
    from lumia.routes import RouteTable
    from tasks.transport import RedisTransport


class RedisDeployments:
    """The deployments of one transport's bot."""

    def __init__(self, transport: RedisTransport) -> None:
        self._transport = transport
        self._key = f"{transport.prefix}deployment"

    def begin(self, wanted: Wanted, seconds: float, base: int | None = None, turn: int = 0) -> int:
        """Begin a deployment that has `seconds` to be prepared, made from `base`."""
        reply = self._transport.call("deploy", wanted.dump(), int(seconds * 1000), "" if base is None else base, turn)
        if reply[0] == b"lost":
            raise StaleDeploymentError(LOST_TURN)
        if reply[0] == b"stale":
            raise StaleDeploymentError(made_from(base, int(reply[1])))
        if reply[0] == b"busy":
            raise BusyDeploymentError(int(reply[1]), Wanted.load(reply[2]).origin)
        return int(reply[1])

    def take_turn(self, holder: Holder, seconds: float, over: int = 0) -> int:
        """Take the turn to change the bot's plugins."""
        reply = self._transport.call("turn", "take", int(seconds * 1000), holder.owner, holder.dump(), over)
        if reply[0] == b"busy":
            found = Holder.load(reply[2], int(reply[3]) / 1000)
            raise BusyTurnError(int(reply[1]), found.place, str(found))
        return int(reply[1])

    def keep_turn(self, token: int, seconds: float) -> bool:
        """Keep a turn."""
        return bool(self._transport.call("turn", "keep", int(seconds * 1000), token)[0] == b"ok")

    def end_turn(self, token: int) -> None:
        """Give a turn back."""
        self._transport.call("turn", "end", 0, token)

    def attend(self, member: Member) -> Standing:
        """Tell that this process lives, and what it has."""
        return _standing(self._transport.call("attend", member.name, member.dump()))

    def leave(self, name: str) -> None:
        """Sign off."""
        self._transport.call("attend", name, "")

    def answer(
        self, number: int, name: str, said: Literal["loading", "ready", "failed"], reasons: tuple[str, ...] = (),
        table: RouteTable | None = None,
    ) -> Standing:  # fmt: skip
        """Tell how this process fares with a deployment."""
        text = json.dumps({"s": said, "y": list(reasons)} if reasons else {"s": said})
        return _standing(self._transport.call("answer", number, name, text, table.dump() if table else ""))

    def look(self) -> Standing:
        """Return where things stand, decided if it can be."""
        return _standing(self._transport.call("attend", "", ""))

    def progress(self) -> Progress | None:
        """Return what is being prepared."""
        number, state, wanted = self._asked("hmget", self._key, ("number", "state", "wanted"))
        if state != b"preparing":
            return None
        said = {
            name.decode(): json.loads(text)["s"]
            for name, text in self._asked("hgetall", f"{self._key}:answers").items()
        }
        ready = sorted(name for name, word in said.items() if word == "ready")
        late = {member.name for member in self.members()} | {name for name, word in said.items() if word == "loading"}
        return Progress(int(number), Wanted.load(wanted), tuple(sorted(late - set(ready))), tuple(ready))

    def wanted(self, number: int) -> Wanted | None:
        """Return what a deployment brings."""
        names = ("number", "wanted", "active", "active_wanted")
        newest, text, active, working = self._asked("hmget", self._key, names)
        if text is not None and int(newest) == number:
            return Wanted.load(text)
        return Wanted.load(working) if working is not None and int(active or 0) == number else None

    def decided(self) -> list[Decided]:
        """Return what became of the last deployments, newest first."""
        return [_decided(json.loads(text)) for text in self._asked("lrange", f"{self._key}s", 0, -1)]

    def members(self) -> list[Member]:
        """Return the live members."""
        seconds, micros = self._asked("time")
        since = seconds * 1000 + micros // 1000 - int(ALIVE_SECONDS * 1000)
        names = self._asked("zrangebyscore", f"{self._transport.prefix}members", f"({since}", "+inf")
        if not names:
            return []
        about = self._asked("hmget", f"{self._transport.prefix}member", names)
        pairs = zip(names, about, strict=True)
        return sorted((Member.load(name.decode(), text) for name, text in pairs if text), key=lambda one: one.name)

    def in_use(self) -> frozenset[tuple[str, str]]:
        """Return (handler, generation) of every step in the plans of runs in flight."""
        found: set[tuple[str, str]] = set()
        for digest in self._asked("hkeys", f"{self._transport.prefix}plans"):
            try:
                plan = self._transport.plan(digest)
            except UnknownRunError:
                continue
            found.update((step.handler, step.generation) for step in plan.steps)
        return frozenset(found)

    def _asked(self, command: str, *args: Any) -> Any:
        return self._transport.asked(command, *args)


def _standing(reply: Any) -> Standing:
    return Standing(int(reply[0]), reply[1].decode(), int(reply[2]))


def _decided(row: dict[str, Any]) -> Decided:
    reasons = tuple((str(name), str(why)) for name, why in row.get("y", ()))
    return Decided(row["n"], row["s"], row["o"], reasons, row["r"], row["at"], row["ms"] / 1000)
