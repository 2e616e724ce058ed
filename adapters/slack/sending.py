"""Delivering a send to Slack: each message is one recorded call; edits and deletions may be repeated without harm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import lumia
from lumia.adapters import Outgoing
from lumia.errors import RejectedError, UnreachableError

from . import accounts, api, doubt, outgoing
from .accounts import NAME, Account
from .pace import pace

ANSWERS_KEPT = 1800.0
"""Seconds for which Slack takes answers at a response_url."""
_OUTSIDE = frozenset({"channel_not_found", "not_in_channel"})
_NOT_THERE = frozenset({"message_not_found", "file_not_found", "file_deleted"})


def answer_key(message_id: str) -> str:
    """Return the store key, in the account's scope, under which a response_url is kept."""
    return f"answer:{message_id}"


def deliver(account: Account, out: Outgoing) -> None:
    """Send what `out` holds, one message after the other."""
    reply_to = out.reply_to or outgoing.quoted(out.segments)
    thread = outgoing.thread_of(out.thread, reply_to, account.reply_in_thread)
    pieces = outgoing.compose(out.segments, markdown=account.markdown)
    if not pieces:
        raise RejectedError("nothing in this message has a form in Slack; send a text or a file of the blob store")
    for number, piece in enumerate(pieces):
        if isinstance(piece, outgoing.Text):
            out.part(number, post, account.name, out.chat, thread, piece.text, reply_to, out.nonce(number))
        else:
            file = lumia.media.outgoing(piece.segment, piece.n)
            out.part(number, share, account.name, out.chat, thread, dict(file.blob), file.name)


def edit(account: Account, out: Outgoing) -> None:
    """Give one of the bot's messages another text."""
    text = outgoing.only_text(outgoing.compose(out.segments, markdown=account.markdown))
    out.part(0, update, account.name, out.chat, out.message_id, text)


def delete(account: Account, out: Outgoing) -> None:
    """Take one of the bot's messages or files back."""
    out.part(0, remove, account.name, out.chat, out.message_id)


def post(account: str, chat: str, thread: str | None, text: str, reply_to: str | None, nonce: str) -> Mapping[str, Any]:
    """Post one message, or answer a command or a click where the bot is no member."""
    known = accounts.required(account)
    try:
        channel = channel_of(known, chat)
        pace.take(known, channel)
        return {"message_id": _posted(known, channel, thread, text, nonce), "channel": channel}
    except api.SlackError as error:
        url = lumia.store.of(NAME).get(answer_key(reply_to), scope=account) if reply_to else None
        if error.code not in _OUTSIDE or not url:
            raise
        api.respond(str(url), {"response_type": "ephemeral", "text": text})
        return {}


def _posted(account: Account, channel: str, thread: str | None, text: str, nonce: str) -> str:
    """Post a message and return its id; when the answer is lost, that of the message which is there all the same."""
    told = {"channel": channel, "text": text, "thread_ts": thread, "metadata": doubt.mark(nonce)}
    try:
        done = api.call(account, "chat.postMessage", {**told, "unfurl_links": False, "unfurl_media": False})
    except api.OutcomeError:
        found = doubt.find_message(account, channel, thread, nonce)
        if found is None:
            raise
        return found
    return str(done.get("ts", ""))


def share(account: str, chat: str, thread: str | None, blob: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Upload a file of the blob store and share it; the message's id is the file's, since Slack names no other."""
    known = accounts.required(account)
    data = lumia.media.read(blob)
    channel = channel_of(known, chat)
    pace.take(known, channel)
    file_id = _uploaded(known, name, data)
    told = {"files": json.dumps([{"id": file_id, "title": name}]), "channel_id": channel, "thread_ts": thread}
    try:
        api.form(known, "files.completeUploadExternal", told)
    except api.OutcomeError:
        if not doubt.is_shared(known, channel, file_id):
            raise
    return {"message_id": file_id, "channel": channel}


def _uploaded(account: Account, name: str, data: bytes) -> str:
    """Upload bytes that nobody sees yet, so that whatever fails has surely had no effect."""
    try:
        ticket = api.form(account, "files.getUploadURLExternal", {"filename": name, "length": len(data)})
    except api.OutcomeError as error:
        raise UnreachableError(str(error)) from error
    api.upload(str(ticket.get("upload_url", "")), data)
    return str(ticket.get("file_id", ""))


def update(account: str, chat: str, message_id: str, text: str) -> Mapping[str, Any]:
    """Change a message of the bot."""
    known = accounts.required(account)
    api.call(known, "chat.update", {"channel": channel_of(known, chat), "ts": message_id, "text": text})
    return {}


def remove(account: str, chat: str, message_id: str) -> Mapping[str, Any]:
    """Delete a message of the bot, or a file it has shared; one that is gone already is fine."""
    known = accounts.required(account)
    try:
        if message_id.startswith("F"):
            api.call(known, "files.delete", {"file": message_id})
        else:
            api.call(known, "chat.delete", {"channel": channel_of(known, chat), "ts": message_id})
    except api.SlackError as error:
        if error.code not in _NOT_THERE:
            raise
    return {}


def channel_of(account: Account, chat: str) -> str:
    """Return the channel of a chat; for a user's id that is the direct conversation, opened if there is none."""
    return _conversation(account, chat) if chat[:1] in ("U", "W") else chat


@lru_cache(maxsize=1024)
def _conversation(account: Account, user: str) -> str:
    try:
        opened = api.call(account, "conversations.open", {"users": user})
    except api.OutcomeError as error:
        raise UnreachableError(str(error)) from error
    found = opened.get("channel")
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise api.OutcomeError("Slack opened a conversation without naming it")
    return str(found["id"])
