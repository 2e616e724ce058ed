"""What is sent: segments as Discord's messages of at most 2000 characters and 10 files (resources/message.mdx)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lumia

from . import markup

MOST_CHARACTERS = 2000
MOST_FILES = 10
_MEDIA = ("image", "audio", "video", "file")


@dataclass
class Draft:
    """One message to Discord. files: blobs, each {digest, size, media_type, name}; pictures: addresses of images."""

    content: str = ""
    files: list[dict[str, Any]] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    stickers: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Tell whether Discord would refuse it: there must be something in it."""
        return not (self.content.strip() or self.files or self.pictures or self.stickers)


@dataclass(frozen=True)
class Letter:
    """A send as Discord takes it: its messages in order, who may be pinged, and which message it answers."""

    drafts: tuple[Draft, ...]
    allowed: Mapping[str, Any]
    reply_to: str = ""


def utf16(text: str) -> int:
    """Return the length in UTF-16 units, the strictest way in which Discord could count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def write(segments: Iterable[Mapping[str, Any]], reply_to: str = "") -> Letter:
    """Return the letter that segments make. A file after text goes with it; text after a file begins a new message."""
    allowed = markup.Allowed()
    blocks: list[Draft] = []
    block = Draft()
    for segment in segments:
        text = markup.content(segment, allowed)
        if segment.get("type") == "reply":
            reply_to = reply_to or str((segment.get("data") or {}).get("id", ""))
            continue
        if text is not None:
            if block.files or block.pictures or block.stickers:
                blocks.append(block)
                block = Draft()
            block.content += text
        elif not _attach(block, segment):
            block.content += lumia.payloads.text_of({"segments": [segment]})
    blocks.append(block)
    drafts = [draft for block in blocks for draft in _split(block) if not draft.empty]
    return Letter(tuple(drafts), allowed.as_dict(), reply_to)


def _attach(block: Draft, segment: Mapping[str, Any]) -> bool:
    kind, data = str(segment.get("type", "")), segment.get("data") or {}
    if kind == "discord.sticker" and data.get("id"):
        block.stickers.append(str(data["id"]))
        return True
    blob, url = data.get("blob"), data.get("url")
    if kind in _MEDIA and isinstance(blob, Mapping):
        block.files.append({**blob, "name": str(data.get("name") or _named(kind, str(blob.get("media_type", ""))))})
        return True
    if kind == "image" and isinstance(url, str):
        block.pictures.append(url)
        return True
    if kind in _MEDIA and isinstance(url, str):
        block.content = f"{block.content}\n{url}".strip()
        return True
    return False


def _named(kind: str, media_type: str) -> str:
    ending = media_type.partition(";")[0].rpartition("/")[2].replace("jpeg", "jpg").replace("mpeg", "mp3")
    return f"{kind}.{ending}" if ending.isalnum() else kind


def _split(block: Draft) -> list[Draft]:
    texts = lumia.adapters.parts(block.content, MOST_CHARACTERS, utf16) if block.content.strip() else [""]
    drafts = [Draft(text) for text in texts]
    drafts[-1].files, drafts[-1].pictures = block.files[:MOST_FILES], block.pictures[:MOST_FILES]
    drafts[-1].stickers = block.stickers[:3]
    for at in range(MOST_FILES, max(len(block.files), len(block.pictures)), MOST_FILES):
        end = at + MOST_FILES
        drafts.append(Draft(files=block.files[at:end], pictures=block.pictures[at:end]))
    return drafts


def body(draft: Draft, allowed: Mapping[str, Any], *, nonce: str = "", reply_to: str = "") -> dict[str, Any]:
    """Return the JSON of one message. nonce: Discord takes a message with it once; reply_to: the message it quotes."""
    made: dict[str, Any] = {"allowed_mentions": dict(allowed)}
    if draft.content.strip():
        made["content"] = draft.content
    if draft.pictures:
        made["embeds"] = [{"image": {"url": url}} for url in draft.pictures]
    if draft.stickers:
        made["sticker_ids"] = list(draft.stickers)
    if draft.files:
        made["attachments"] = [{"id": n, "filename": file["name"]} for n, file in enumerate(draft.files)]
    if nonce:
        made |= {"nonce": nonce, "enforce_nonce": True}
    if reply_to:
        made["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
    return made


def edited(segments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON of an edit; raises `lumia.errors.RejectedError` for what one message can't hold."""
    letter = write(segments)
    if len(letter.drafts) != 1 or letter.drafts[0].files:
        raise lumia.errors.RejectedError(
            f"an edited message of Discord has 1 to {MOST_CHARACTERS} characters and no new files; send a new message"
        )
    return {"content": "", **body(letter.drafts[0], letter.allowed)}
