"""Sending, editing and deleting: what runs inside the steps of `discord.send`, `.edit` and `.delete`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia
from lumia.errors import RejectedError

from . import interactions, outgoing, rest


def letter(call: Mapping[str, Any]) -> outgoing.Letter:
    """Return what a send says as Discord's messages."""
    said = call["send"]
    segments = said.get("segments") or [{"type": "text", "data": {"text": lumia.payloads.text_of(said)}}]
    return outgoing.write(segments, str(said.get("reply_to") or ""))


def policy(call: Mapping[str, Any], wanted: outgoing.Letter) -> str:
    """Return what follows an unknown outcome: with a nonce, or when it takes the place of "thinking …", it is repeated.

    A follow-up of an interaction has no nonce, so there the setting decides.
    """
    if not interactions.is_interaction(wanted.reply_to):
        return "retry"
    if len(wanted.drafts) == 1 and not interactions.is_answered(call["account"], wanted.reply_to):
        return "retry"
    return rest.account_of(call["account"]).on_unknown


def send(out: lumia.adapters.Outgoing, wanted: outgoing.Letter) -> None:
    """Send a letter, one effect per message."""
    if not wanted.drafts:
        raise RejectedError("there is nothing in this message that Discord could show")
    by_token = interactions.is_interaction(wanted.reply_to)
    for n, draft in enumerate(wanted.drafts):
        quoted = wanted.reply_to if n == 0 and wanted.reply_to.isdecimal() else ""
        files = [_file(at, segment) for at, segment in draft.media]
        names = [file["name"] for file in files]
        body = outgoing.body(draft, wanted.allowed, files=names, nonce=out.nonce(n), reply_to=quoted)
        if by_token:
            out.part(n, interactions.respond, out.account, wanted.reply_to, n, out.kind, out.chat, body, files)
        else:
            out.part(n, rest.post, out.account, out.kind, out.chat, body, files)


def _file(n: int, segment: Mapping[str, Any]) -> dict[str, Any]:
    file = lumia.media.outgoing(segment, n)
    return {"name": file.name, "media_type": file.media_type, "blob": dict(file.blob)}


def edit(out: lumia.adapters.Outgoing) -> None:
    """Give a message another content."""
    out.part(0, rest.edit, out.account, out.kind, out.chat, str(out.message_id), outgoing.edited(out.segments))


def delete(out: lumia.adapters.Outgoing) -> None:
    """Take a message back."""
    out.part(0, rest.delete, out.account, out.kind, out.chat, str(out.message_id))
