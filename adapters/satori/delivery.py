"""Sending, editing and deleting: what runs inside the steps of `satori.send`, `.edit` and `.delete`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import lumia
from lumia.errors import RejectedError, UnreachableError

from . import accounts, api, outgoing
from .accounts import NAME, Login, Server
from .api import RefusedError, SatoriError

T = TypeVar("T")
_KEPT_CHANNEL = 30 * 86400.0
_KEPT_REFERRER = 3600.0
File = Mapping[str, Any]


def policy(account: str) -> str:
    """Return what follows an unknown outcome, as the settings say."""
    server = accounts.find(account.partition("/")[0])
    return server.on_unknown if server is not None else "hold"


def send(out: lumia.adapters.Outgoing) -> None:
    """Send a message, one effect per message of the platform."""
    server, _ = accounts.required(out.account)
    made = outgoing.drafts(out.segments, str(out.reply_to or ""), server.split_at)
    if not made:
        raise RejectedError("there is nothing in this message that could be shown")
    for n, draft in enumerate(made):
        held = {str(at): _file(at, segment) for at, segment in outgoing.files(draft)}
        out.part(n, _create, out.account, out.kind, out.chat, outgoing.packed(draft), held)


def _file(n: int, segment: Mapping[str, Any]) -> File:
    """Return a file with its blob: the server is sent to no address that a chat came up with."""
    file = lumia.media.outgoing(segment, n)
    return {"name": file.name, "media_type": file.media_type, "blob": dict(file.blob)}


def _create(account: str, kind: str, chat: str, pieces: list[Any], held: Mapping[str, File]) -> dict[str, Any]:
    server, login, channel = _addressed(account, kind, chat)
    given = _looked(referrer, server, login, chat)
    sources = {int(n): _uploaded(server, login, file) for n, file in held.items()}
    named = {int(n): str(file["name"]) for n, file in held.items()}
    content = outgoing.content(outgoing.unpacked(pieces, named), sources)
    ids = api.create(server, login, channel, content, given)
    return {"message_id": ids[0], "message_ids": ids} if ids else {}


def _addressed(account: str, kind: str, chat: str) -> tuple[Server, Login, str]:
    server, login = _looked(accounts.required, account)
    return server, login, _looked(channel_of, server, login, kind, chat)


def _looked(look: Callable[..., T], *args: Any) -> T:
    """Look into the store before anything is asked for: where that fails, surely nothing was done."""
    try:
        return look(*args)
    except lumia.errors.BackendUnavailableError as error:
        raise UnreachableError(f"nothing was asked for, since the store is away: {error}") from error


def _uploaded(server: Server, login: Login, file: File) -> str:
    """Hand a file over; a server without `upload.create` gets it inside of the message. Nothing is said yet."""
    data, media_type = lumia.media.read(dict(file["blob"])), str(file["media_type"])
    try:
        source = api.upload(server, login, str(file["name"]), data, media_type)
    except SatoriError as error:
        raise UnreachableError(f"a file could not be handed over, so nothing was sent: {error}") from error
    except RefusedError as error:
        if error.status not in (404, 405, 501):
            raise
        source = ""
    return source or f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def channel_of(server: Server, login: Login, kind: str, chat: str) -> str:
    """Return the channel of a chat: its id, but for the owner, whom the settings name by the user's id."""
    if kind != "private" or chat != server.owner:
        return chat
    store, key = lumia.store.of(NAME), f"direct:{chat}"
    known = str(store.get(key, "", scope=server.account(login)))
    if known:
        return known
    try:
        found = api.direct(server, login, chat)
    except SatoriError as error:
        raise UnreachableError(f"no private channel could be opened, so nothing was sent: {error}") from error
    except RefusedError:
        return chat  # where the server can't open one, the channel may be called like the user
    if found:
        store.set(key, found, scope=server.account(login), ttl=_KEPT_CHANNEL)
    return found or chat


def edit(out: lumia.adapters.Outgoing) -> None:
    """Give a message another content."""
    server, _ = accounts.required(out.account)
    draft = outgoing.edited(out.segments, server.split_at)
    out.part(0, _update, out.account, out.kind, out.chat, str(out.message_id), outgoing.content(draft, {}))


def _update(account: str, kind: str, chat: str, message_id: str, content: str) -> dict[str, Any]:
    server, login, channel = _addressed(account, kind, chat)
    api.update(server, login, channel, message_id, content)
    return {"message_id": message_id}


def delete(out: lumia.adapters.Outgoing) -> None:
    """Take a message back."""
    out.part(0, _delete, out.account, out.kind, out.chat, str(out.message_id))


def _delete(account: str, kind: str, chat: str, message_id: str) -> dict[str, Any]:
    server, login, channel = _addressed(account, kind, chat)
    api.delete(server, login, channel, message_id)
    return {}


# --- what a platform wants back with an answer


def keep_referrer(account: str, chat: str, given: Any) -> None:
    """Keep the `referrer` of a chat's newest message: some platforms take nothing but answers that carry it."""
    lumia.store.of(NAME).set(f"referrer:{chat}", given, scope=account, ttl=_KEPT_REFERRER)


def referrer(server: Server, login: Login, chat: str) -> Any:
    """Return the `referrer` of a chat's newest message, None where there was none within an hour."""
    return lumia.store.of(NAME).get(f"referrer:{chat}", None, scope=server.account(login))
