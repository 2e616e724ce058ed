"""Files of posts and of replies: taken as URL or base64, given back as paths of this gateway."""

from __future__ import annotations

import binascii
import mimetypes
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

import lumia
from lumia.payloads import Text

from .source import NAME, Source

KEPT = 7 * 86400.0
MOST = 20
_KINDS = ("image", "audio", "video")


class Item(BaseModel):
    """A file of a post: where it can be fetched, or its bytes as base64 (a `data:` URL is fine, too)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    data: str | None = None
    name: Annotated[Text, Field(max_length=256)] | None = None
    media_type: Annotated[str, Field(max_length=128)] = ""
    kind: Literal["image", "audio", "video", "file"] | None = None

    @model_validator(mode="after")
    def _is_somewhere(self) -> Item:
        if (self.url is None) == (self.data is None):
            raise ValueError("a file has either a url or data (base64)")
        return self


def check(items: list[Item], source: Source) -> None:
    """Raise `lumia.errors.PayloadError` for a URL that is none, or leads where no file is fetched."""
    for n, item in enumerate(items):
        if item.url is not None:
            lumia.outside.check(item.url, lumia.outside.Places(allowed=source.media_hosts, what=f"media.{n}.url"))


def described(n: int, item: Item) -> dict[str, Any]:
    """Return the item of a `msg` payload; data is stored as a blob first.

    Raises `lumia.errors.PayloadError` for data that is no base64, and `BlobError` for a file that is not taken.
    """
    named = {"name": item.name} if item.name else {}
    if item.data is None:
        url = str(item.url)
        known = item.media_type or mimetypes.guess_type(item.name or urlsplit(url).path)[0] or ""
        typed = {"media_type": known} if known else {}
        return {"kind": item.kind or _kind(known), "url": url, "ref": url, **named, **typed}
    data, declared = _decoded(n, item)
    ref = lumia.blobs.put(data, lumia.media.settled(data, declared))
    return {"kind": item.kind or _kind(ref.media_type), "blob": ref.as_dict(), "size": ref.size,
            "media_type": ref.media_type, **named}  # fmt: skip


def _decoded(n: int, item: Item) -> tuple[bytes, str]:
    head, comma, rest = str(item.data).partition(",")
    coded, declared = str(item.data), item.media_type
    if comma and head.startswith("data:") and head.endswith(";base64"):
        coded, declared = rest, declared or head[5:-7]
    try:
        return binascii.a2b_base64("".join(coded.split()).encode("ascii"), strict_mode=True), declared
    except (binascii.Error, ValueError) as error:
        raise lumia.errors.PayloadError(f"body: media.{n}.data: no base64: {error}") from None


def _kind(media_type: str) -> str:
    found = media_type.partition("/")[0]
    return found if found in _KINDS else "file"


def place(item: dict[str, Any], source: Source | None) -> lumia.media.Place:
    """Return where a posted URL leads."""
    return lumia.media.Place(item["url"], allowed_hosts=source.media_hosts if source else ())


# --- replies


def given(source: Source, value: Any) -> list[dict[str, Any]]:
    """Return the files of a reply as its reader gets them; those in the blob store are opened to the source."""
    segments = value.get("segments") if isinstance(value, dict) else None
    found = []
    for segment in segments or ():
        data = segment.get("data") or {}
        if segment.get("type") not in lumia.media.KINDS:
            continue
        if isinstance(data.get("blob"), dict):
            file = lumia.media.outgoing(segment)
            digest = str(file.blob.get("digest"))
            kept = {"name": file.name, "media_type": file.media_type}
            lumia.store.set(_key(digest), kept, scope=source.name, ttl=KEPT)
            path = f"/{NAME}/{source.name}/media/{digest}"
            found.append({"kind": file.kind, **kept, "size": file.size, "path": path})
        elif isinstance(data.get("url"), str):
            found.append({"kind": segment["type"], "url": data["url"]})
    return found


def opened(source: Source, digest: str) -> tuple[bytes, dict[str, str]] | None:
    """Return a file that was sent to a source, with its name and type; None for any other."""
    kept = lumia.store.of(NAME).get(_key(digest), scope=source.name)
    if not isinstance(kept, dict):
        return None
    try:
        return lumia.blobs.get(digest), kept
    except lumia.errors.BlobError:
        return None


def note(source: Source, run_id: str, files: list[dict[str, Any]]) -> None:
    """Keep the files of a reply for who asks what became of a message."""
    for file in files:
        lumia.store.append(_replies(run_id), file, scope=source.name, keep=100, ttl=KEPT)


def of_run(source: Source, run_id: str) -> list[dict[str, Any]]:
    """Return the files of all replies to a message."""
    return lumia.store.of(NAME).items(_replies(run_id), scope=source.name)


def _key(digest: str) -> str:
    return f"media:{digest}"


def _replies(run_id: str) -> str:
    return f"replied:{run_id}"
