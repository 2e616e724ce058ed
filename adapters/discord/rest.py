"""The requests this adapter makes (resources/message.mdx, user.mdx, application.mdx, events/gateway.mdx)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import lumia
from lumia.errors import PayloadError, RejectedError

from . import accounts
from .accounts import NAME, Account
from .api import RefusedError, Upload, ask

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE = 10003, 10008
CONTENT_GRANTED = (1 << 18) | (1 << 19)
MEMBERS_GRANTED = (1 << 14) | (1 << 15)
PRESENCES_GRANTED = (1 << 12) | (1 << 13)
"""Flags of an application: the privileged intent is switched on in the portal, in full or for under 100 servers."""
_KEPT_CHANNEL = 30 * 86400.0


def account_of(name: str) -> Account:
    """Return an enabled bot; raises `lumia.errors.PayloadError` when the settings have none of this name."""
    found = accounts.find(name)
    if found is None:
        raise PayloadError(f"config/discord.toml has no enabled [accounts.{name}], so nobody can send this")
    return found


def post(
    name: str, kind: str, chat: str, body: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Send one message to a channel, or to a person when `chat` of a private one is a user's id."""
    account = account_of(name)
    uploads = [upload(file) for file in files]
    channel = _known_channel(account, chat) if kind == "private" else chat
    if kind == "private" and chat == account.owner and channel == chat:
        channel = open_dm(account, chat)
    try:
        made = ask(account, "POST", f"/channels/{_number(channel)}/messages", body, files=uploads)
    except RefusedError as error:
        if kind != "private" or error.code != UNKNOWN_CHANNEL:
            raise
        channel = open_dm(account, chat)
        made = ask(account, "POST", f"/channels/{_number(channel)}/messages", body, files=uploads)
    return sent(made, channel)


def sent(made: Any, channel: str) -> dict[str, str]:
    """Return the receipt of a message Discord made."""
    return {"message_id": str(made["id"]), "channel_id": str(made.get("channel_id") or channel)}


def edit(name: str, kind: str, chat: str, message_id: str, body: Mapping[str, Any]) -> dict[str, str]:
    """Give a message of the bot another content."""
    account = account_of(name)
    channel = _known_channel(account, chat) if kind == "private" else chat
    made = ask(account, "PATCH", f"/channels/{_number(channel)}/messages/{_number(message_id)}", body)
    return sent(made, channel)


def delete(name: str, kind: str, chat: str, message_id: str) -> dict[str, str]:
    """Delete a message; one that is gone already is as good."""
    account = account_of(name)
    channel = _known_channel(account, chat) if kind == "private" else chat
    try:
        ask(account, "DELETE", f"/channels/{_number(channel)}/messages/{_number(message_id)}")
    except RefusedError as error:
        if error.code != UNKNOWN_MESSAGE:
            raise
    return {}


def open_dm(account: Account, user: str) -> str:
    """Return the channel of direct messages with a user, and remember it."""
    made = ask(account, "POST", "/users/@me/channels", {"recipient_id": _number(user)})
    channel = str(made["id"])
    lumia.store.of(NAME).set(f"dm:{user}", channel, scope=account.name, ttl=_KEPT_CHANNEL)
    return channel


def _known_channel(account: Account, chat: str) -> str:
    return str(lumia.store.of(NAME).get(f"dm:{chat}", chat, scope=account.name))


def locate(item: Mapping[str, Any], msg: Mapping[str, Any]) -> lumia.media.Place:
    """Return where a file of a message is: Discord's own servers, or where the settings say its API is."""
    account = accounts.find(str(msg["account"]))
    own = [urlsplit(account.api_url).netloc] if account is not None and account.api_url != accounts.API else []
    return lumia.media.Place(str(item["url"]), allowed_hosts=own)


def upload(file: Mapping[str, Any]) -> Upload:
    """Return a file with its bytes; raises `lumia.errors.RejectedError` when they are gone."""
    return Upload(str(file["name"]), lumia.media.read(file["blob"]), str(file["media_type"]))


def myself(account: Account) -> dict[str, Any]:
    """Return the bot's own user."""
    return dict(ask(account, "GET", "/users/@me"))


def application(account: Account) -> dict[str, Any]:
    """Return the bot's application with its flags."""
    return dict(ask(account, "GET", "/applications/@me"))


def gateway(account: Account) -> dict[str, Any]:
    """Return where the Gateway is and how many sessions may be started."""
    return dict(ask(account, "GET", "/gateway/bot"))


def put_commands(account: Account, application_id: str, wanted: Sequence[Mapping[str, Any]]) -> None:
    """Make these the global slash commands of the application."""
    ask(account, "PUT", f"/applications/{_number(application_id)}/commands", list(wanted))


def _number(id: str) -> str:
    if not (id.isascii() and id.isdigit() and len(id) <= 20):
        raise RejectedError(f"{id[:40]!r} is no id of Discord; ids are numbers such as 80351110224678912")
    return id
