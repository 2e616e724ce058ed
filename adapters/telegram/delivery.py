"""Sending, editing and taking back: one call of the Bot API each, and what its answer means for the send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia
from lumia.adapters import Outgoing, receipts

from . import accounts, api, migration, outgoing
from .accounts import NAME, Account
from .rich import Rich, split

_UNPARSABLE = ("can't parse entities", "entity_", "entities_")
_UNCHANGED = "message is not modified"
_GONE = "message to delete not found"
_NO_TEXT = "there is no text in the message to edit"


def send(out: Outgoing) -> None:
    """Send a message, part by part."""
    account = accounts.required(out.account)
    found = outgoing.posts(outgoing.fetched(out.segments), marked=account.markdown)
    preview = account.link_preview
    posts = outgoing.addressed(found, out.chat, out.thread or "", out.reply_to or "", preview=preview)
    for number, post in enumerate(posts):
        out.part(number, make, out.account, post.method, dict(post.params), post.file)


def edit(out: Outgoing) -> None:
    """Give a message another text."""
    _check_still_there(out)
    account = accounts.required(out.account)
    params = {"chat_id": outgoing.chat_id(out.chat), "message_id": _number(out.message_id)}
    out.part(
        0, make, out.account, "editMessageText", params | outgoing.edit(out.segments, marked=account.markdown), None
    )


def delete(out: Outgoing) -> None:
    """Take a message back."""
    _check_still_there(out)
    params = {"chat_id": outgoing.chat_id(out.chat), "message_id": _number(out.message_id)}
    out.part(0, make, out.account, "deleteMessage", params, None)


def _check_still_there(out: Outgoing) -> None:
    """Refuse a message of a group that has become a supergroup since: its id is another message's there."""
    moved = migration.since(out.account, out.chat)
    if moved is None:
        return
    sent = receipts.sent(NAME, out.account, {"kind": out.kind, "id": out.chat}, out.message_id or "")
    if sent is None or sent.time < moved:
        raise lumia.errors.RejectedError(
            f"message {out.message_id} is from before group {out.chat} became a supergroup, where its id means another"
        )


def _number(message_id: str | None) -> int:
    if message_id and message_id.isascii() and message_id.isdecimal():
        return int(message_id)
    raise lumia.errors.PayloadError(f"Telegram's messages have whole numbers as ids, got {message_id!r}")


def make(name: str, method: str, params: dict[str, Any], file: Mapping[str, Any] | None) -> dict[str, str]:
    """Make one call as account `name` and return {"message_id", "chat"}.

    file: {"field", "blob", "name"} of what is uploaded. A group that became a supergroup is sent to under its new id.
    Raises `RetryAfterError`, `RejectedError` and `UnreachableError` where surely nothing was done; any other error
    leaves open whether it was.
    """
    account = accounts.required(name)
    try:
        current = migration.current(name, params["chat_id"])
    except lumia.errors.BackendUnavailableError as error:
        raise lumia.errors.UnreachableError(f"nothing was sent, since the store is away: {error}") from error
    try:
        return _made(account, method, _moved(params, current), file)
    except api.ApiError as error:
        if not error.migrated_to:
            raise _meaning(account, error) from None
        migration.note(account.name, str(params["chat_id"]), error.migrated_to)
        moved = outgoing.chat_id(error.migrated_to)
    try:
        return _made(account, method, _moved(params, moved), file)
    except api.ApiError as error:
        raise _meaning(account, error) from None


def _moved(params: Mapping[str, Any], chat_id: int | str) -> dict[str, Any]:
    """Return the parameters for where the chat is now. There its messages have other ids, so none is quoted."""
    if chat_id == params["chat_id"]:
        return dict(params)
    return {**{key: value for key, value in params.items() if key != "reply_parameters"}, "chat_id": chat_id}


def _made(account: Account, method: str, params: dict[str, Any], file: Mapping[str, Any] | None) -> dict[str, str]:
    try:
        result = _called(account, method, params, file)
    except api.ApiError as error:
        why = error.description.lower()
        if _UNCHANGED in why or _GONE in why:
            result = True
        elif method == "editMessageText" and _NO_TEXT in why:
            result = _called(account, "editMessageCaption", _as_caption(params), None)
        elif error.code == 400 and any(text in why for text in _UNPARSABLE):
            plain = {key: value for key, value in params.items() if key not in ("entities", "caption_entities")}
            if plain == params:
                raise
            result = _called(account, method, plain, file)
        else:
            raise
    chat = result.get("chat") if isinstance(result, dict) else None
    sent_to = chat.get("id") if isinstance(chat, dict) else params["chat_id"]
    message_id = result.get("message_id") if isinstance(result, dict) else params.get("message_id")
    return {"message_id": str(message_id), "chat": str(sent_to)}


def _as_caption(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of editMessageText as those of editMessageCaption; what no caption holds is cut."""
    said = split(Rich(params["text"], tuple(params.get("entities", ()))), outgoing.CAPTION)[0]
    rest = {key: value for key, value in params.items() if key not in ("text", "entities")}
    return {**rest, "caption": said.text, **outgoing.entities(said, "caption_")}


def _called(account: Account, method: str, params: dict[str, Any], file: Mapping[str, Any] | None) -> Any:
    if file is None:
        return _reached(account, method, params, None)
    blob = file["blob"]
    data = lumia.media.read(blob)
    media_type = str(blob.get("media_type") or "application/octet-stream")
    return _reached(account, method, params, {file["field"]: (str(file["name"]), data, media_type)})


def _reached(
    account: Account, method: str, params: dict[str, Any], files: Mapping[str, tuple[str, bytes, str]] | None
) -> Any:
    try:
        return api.call(account, method, params, files)
    except api.NoAnswerError as error:
        raise lumia.errors.UnreachableError(str(error)) from None


def _meaning(account: Account, error: api.ApiError) -> lumia.errors.LumiaError:
    """Return the error of the port that says what a refusal means for the send."""
    if error.code == 429:
        return lumia.errors.RetryAfterError(str(error), wait=max(1.0, error.retry_after))
    if error.code == 401:
        way_out = f"put a valid token into config/telegram.toml: [accounts.{account.name}]"
        return lumia.errors.RejectedError(f"{error}; {way_out}, then retry the dead letter")
    return lumia.errors.RejectedError(str(error)) if 400 <= error.code < 500 else error


def answered(name: str, query_id: str) -> bool:
    """Answer a callback query; False where Telegram no longer wants to hear it."""
    account = accounts.required(name)
    try:
        return bool(api.call(account, "answerCallbackQuery", {"callback_query_id": query_id}))
    except api.ApiError as error:
        if error.code == 400:
            return False
        raise _meaning(account, error) from None
    except api.NoAnswerError as error:
        raise lumia.errors.UnreachableError(str(error)) from None
