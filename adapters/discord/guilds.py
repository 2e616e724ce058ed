"""What the Gateway told of a server (guild): names of channels and roles, and which roles the bot has.

A resumed session is not told again, so a guild is kept in the store as JSON and read back when its first message comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

THREADS = (10, 11, 12)
"""Channel types that are threads: announcement, public, private."""
_ADMINISTRATOR = 1 << 3


@dataclass
class Guild:
    """One server. roles: id to [name, administrator]; channels: id to [name, type]; mine: the bot's role ids."""

    id: str
    name: str = ""
    owner: str = ""
    roles: dict[str, list[Any]] = field(default_factory=dict)
    channels: dict[str, list[Any]] = field(default_factory=dict)
    mine: list[str] = field(default_factory=list)

    @classmethod
    def created(cls, data: Mapping[str, Any], me: str) -> Guild:
        """Return the guild of a GUILD_CREATE. me: the bot's user id."""
        guild = cls(str(data["id"]), str(data.get("name", "")), str(data.get("owner_id", "")))
        for role in data.get("roles", ()):
            guild._role(role, me)
        for channel in (*data.get("channels", ()), *data.get("threads", ())):
            guild._channel(channel)
        for member in data.get("members", ()):
            if member.get("user", {}).get("id") == me:
                guild._member(member)
        return guild

    @classmethod
    def kept(cls, data: Mapping[str, Any]) -> Guild:
        """Return a guild of the store."""
        return cls(**data)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)

    def apply(self, type: str, data: Mapping[str, Any], me: str) -> bool:
        """Take in one of Discord's changes; False when it changes nothing that is kept here."""
        before = self.as_dict()
        if type == "GUILD_UPDATE":
            self.name = str(data.get("name", self.name))
            self.owner = str(data.get("owner_id", self.owner))
        elif type in ("GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE"):
            self._role(data.get("role", {}), me)
        elif type == "GUILD_ROLE_DELETE":
            self.roles.pop(str(data.get("role_id")), None)
        elif type in ("CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE"):
            self._channel(data)
        elif type in ("CHANNEL_DELETE", "THREAD_DELETE"):
            self.channels.pop(str(data.get("id")), None)
        elif type == "THREAD_LIST_SYNC":
            for thread in data.get("threads", ()):
                self._channel(thread)
        elif type == "GUILD_MEMBER_UPDATE" and data.get("user", {}).get("id") == me:
            self._member(data)
        return self.as_dict() != before

    def is_thread(self, channel: str) -> bool:
        """Tell whether a channel is known as a thread."""
        return channel in self.channels and self.channels[channel][1] in THREADS

    def channel_names(self) -> dict[str, str]:
        """Return the names of channels and threads by id."""
        return {id: name for id, (name, _) in self.channels.items()}

    def role_names(self) -> dict[str, str]:
        """Return the names of roles by id."""
        return {id: str(name).lstrip("@") for id, (name, _) in self.roles.items()}

    def rank(self, user: str, roles: list[str]) -> str:
        """Return what a member is here: owner, admin or member."""
        if self.owner and user == self.owner:
            return "owner"
        return "admin" if any(self.roles.get(id, ("", False))[1] for id in roles) else "member"

    def _role(self, role: Mapping[str, Any], me: str) -> None:
        id = str(role.get("id", ""))
        if not id:
            return
        self.roles[id] = [str(role.get("name", "")), bool(_number(role.get("permissions")) & _ADMINISTRATOR)]
        tags = role.get("tags") or {}
        if tags.get("bot_id") == me and id not in self.mine:  # the role Discord made for the bot
            self.mine.append(id)

    def _channel(self, channel: Mapping[str, Any]) -> None:
        if channel.get("id"):
            self.channels[str(channel["id"])] = [str(channel.get("name") or ""), int(channel.get("type", 0))]

    def _member(self, member: Mapping[str, Any]) -> None:
        self.mine = [str(id) for id in member.get("roles", ())]


def _number(text: object) -> int:
    return int(text) if isinstance(text, str | int) and str(text).isdecimal() else 0
