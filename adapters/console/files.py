"""Files of the console's chats: put into the blob store before their message is sent, and shown from there."""

from __future__ import annotations

from typing import Any

import lumia

MOST = 10
"""Files of one message."""
_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
_PLAYED = ("audio/", "video/")
_HEAD = 512


def keep(data: bytes, name: str, declared: str) -> dict[str, Any]:
    """Store a file that a page has put up and return what its message names it by; raises `BlobError`."""
    if not data:
        raise lumia.errors.BlobError("the file is empty")
    ref = lumia.blobs.put(data, lumia.media.settled(data, declared))
    return shown(kind(ref.media_type), name, ref.as_dict())


def attached(digest: str, name: str) -> dict[str, Any]:
    """Return the item of a `msg` payload for a file that was kept; raises `lumia.errors.PayloadError` for no such."""
    try:
        with lumia.blobs.open(digest) as file:
            media_type = lumia.media.settled(file.read(_HEAD), "")
            size = file.seek(0, 2)
    except lumia.errors.BlobError as error:
        raise lumia.errors.PayloadError(f"media: a file is no longer here, add it again: {error}") from None
    blob = {"digest": digest, "size": size, "media_type": media_type}
    named = {"name": name} if name else {}
    return {"kind": kind(media_type), "blob": blob, "size": size, "media_type": media_type, **named}


def kind(media_type: str) -> str:
    """Return how a page shows a file: a picture only where every browser draws it."""
    if media_type in _SHOWN:
        return "image"
    return media_type.partition("/")[0] if media_type.startswith(_PLAYED) else "file"


def of_question(msg: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the files of an accepted message as the chat's history keeps them."""
    return [shown(one["kind"], one.get("name", ""), one["blob"]) for one in msg.get("media") or () if one.get("blob")]


def of_reply(content: Any) -> tuple[list[dict[str, Any]], str]:
    """Return the files of what the bot says, and its text with a word about those that can't be had.

    Raises `lumia.errors.UnreachableError` where another try may help.
    """
    segments = content.get("segments") if isinstance(content, dict) else None
    if not segments:
        return [], lumia.payloads.text_of(content)
    found, said = [], []
    for n, segment in enumerate(segments):
        if segment.get("type") not in lumia.media.KINDS:
            said.append(segment)
            continue
        try:
            file = lumia.media.outgoing(segment, n)
            found.append(shown(file.kind, file.name, dict(file.blob)))
        except lumia.errors.RejectedError as error:
            said.append({"type": "text", "data": {"text": f"[{segment['type']}: {error}]"}})
    text = content.get("text") if isinstance(content.get("text"), str) else None
    return found, lumia.payloads.text_of({"segments": said} if text is None else text)


def shown(kind: str, name: str, blob: dict[str, Any]) -> dict[str, Any]:
    """Return a file as frames and the history have it."""
    safe = lumia.media.safe_name(name, kind, str(blob.get("media_type", "")))
    return {"kind": kind, "name": safe, **{key: blob[key] for key in ("digest", "size", "media_type")}}


def served(digest: str) -> tuple[bytes, str] | None:
    """Return bytes and the type a browser may draw or play them as; anything else is only saved. None: no such file."""
    try:
        data = lumia.blobs.get(digest)
    except lumia.errors.BlobError:
        return None
    media_type = lumia.media.settled(data[:_HEAD], "")
    fine = media_type in _SHOWN or media_type.startswith(_PLAYED)
    return data, media_type if fine else "application/octet-stream"
