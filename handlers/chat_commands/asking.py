"""Who asks, where, and what they may do: the view the commands have of a `msg` payload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lumia

from .parsing import MOST_CHARACTERS, Command, may_be_command, parse

MEMBER, ADMIN, OWNER, OFF = "member", "admin", "owner", "off"
_RANK = {MEMBER: 0, ADMIN: 1, OWNER: 2}
_MOST_MENTIONS = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """A command and who gave it where. role: member, admin or owner; pid: of a platform that has none of its own."""

    command: Command
    platform: str
    account: str
    kind: str
    chat_id: str
    sender_id: str
    sender_name: str
    role: str
    message_id: str = ""
    reply_to: str = ""
    thread: str = ""
    pid: int | None = None

    @property
    def private(self) -> bool:
        """Nobody but the sender hears the answer."""
        return self.kind == "private"

    @property
    def scope(self) -> str:
        """The chat's scope in heartflow's store, and in the memory."""
        return f"{self.platform}:{self.account}:{self.kind}:{self.chat_id}"

    @property
    def sender(self) -> str:
        """Who asks, as the settings name people."""
        return f"{self.platform}:{self.sender_id}"

    def may(self, needed: str) -> bool:
        """Tell whether the sender has the role `needed`; whoever is alone with the bot counts as an admin there."""
        own = max(_RANK[self.role], _RANK[ADMIN] if self.private else 0)
        return needed in _RANK and own >= _RANK[needed]


def read(payload: Any, meta: Mapping[str, Any], config: Any) -> Asked | None:
    """Return the command in a `msg` payload, None when it is none, is another bot's, or the bot's own echo."""
    text = payload.get("text") if isinstance(payload, Mapping) else None
    if not isinstance(text, str) or not may_be_command(text):
        return None
    account, text = _text(payload.get("account")), lumia.payloads.clean_text(text[: MOST_CHARACTERS + 1])
    names = [str(lumia.config.get("lumia").bot.name), account, *config.names, *_called(payload, account)]
    command = parse(text, config.prefix.strip() or "/", [name.lstrip("@") for name in names if name])
    chat, sender = payload.get("chat"), payload.get("sender")
    if command is None or not isinstance(chat, Mapping) or not isinstance(sender, Mapping):
        return None
    platform, kind = _text(payload.get("platform")), _text(chat.get("kind"))
    chat_id, sender_id = _text(chat.get("id")), _text(sender.get("id"))
    if not (platform and kind and chat_id and sender_id) or sender_id == account:
        return None
    pid = meta.get("pid")
    return Asked(
        command, platform, account, kind, chat_id, sender_id, _text(sender.get("card") or sender.get("name")),
        _role(platform, kind, sender_id, sender.get("role"), config), _text(payload.get("message_id")),
        _text(payload.get("reply_to")), _text(payload.get("thread")), pid if isinstance(pid, int) else None,
    )  # fmt: skip


def needed(command: str, config: Any) -> str:
    """Return the least role a command needs, `off` for one that is none here."""
    return str(getattr(config.roles, command))


def _role(platform: str, kind: str, sender_id: str, on_platform: Any, config: Any) -> str:
    named = f"{platform}:{sender_id}"
    if named in config.owners or any(named in one.owners() for one in lumia.services.all("response").values()):
        return OWNER
    return ADMIN if named in config.admins or (kind == "group" and on_platform in ("owner", "admin")) else MEMBER


def _called(payload: Mapping[str, Any], account: str) -> Iterator[str]:
    """Yield what the message's own mentions call the bot."""
    mentions = payload.get("mentions")
    for mention in mentions[:_MOST_MENTIONS] if isinstance(mentions, list) else ():
        if isinstance(mention, Mapping) and account and _text(mention.get("id")) == account:
            yield _text(mention.get("name"))


def _text(value: Any) -> str:
    return "" if value is None else lumia.payloads.clean_text(str(value))
