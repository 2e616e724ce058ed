"""The files of a message that is sent: from the blob store, or from a public URL."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import lumia
from lumia import mediatypes
from lumia.errors import BlobError, MediaError, RejectedError, TransientMediaError, UnreachableError
from lumia.media.fetching import fetch
from lumia.media.links import is_sealed, opened

KINDS = ("image", "audio", "video", "file")
MAX_NAME = 120
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f/\\:*?\"<>|\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


@dataclass(frozen=True)
class File:
    """A file to be sent. kind: image, audio, video or file. name: safe as a file's name, with a suffix. size: bytes."""

    kind: str
    name: str
    media_type: str
    size: int
    blob: Mapping[str, Any]

    def read(self) -> bytes:
        """Return the bytes; raises `lumia.errors.RejectedError` when they are no longer in the blob store."""
        return read(dict(self.blob))


def read(blob: Mapping[str, Any]) -> bytes:
    """Return the bytes of a blob for sending; raises `lumia.errors.RejectedError` when they are gone or damaged."""
    try:
        return lumia.blobs.get(dict(blob))
    except BlobError as error:
        raise RejectedError(f"a file to be sent is gone: {error}") from error


def files(segments: Sequence[Mapping[str, Any]]) -> list[File]:
    """Return the files among the segments of a message to be sent, in their order; see `outgoing`."""
    return [outgoing(one, n) for n, one in enumerate(segments) if one.get("type") in KINDS]


def outgoing(segment: Mapping[str, Any], n: int = 0) -> File:
    """Return the file of a segment `{"type": "image", "data": {"blob": {…}} or {"url": "https://…"}}`.

    data["name"]: its name, if it has one. A URL, also a sealed one of a message that came in, is fetched through the
    same gate as files that come in, as effect `file <n>`: give each segment of a message a number of its own. Raises
    `lumia.errors.RejectedError` for a file that can't be had, `UnreachableError` where another try may help.
    """
    data = segment.get("data") or {}
    kind, name, blob = str(segment.get("type")), str(data.get("name") or ""), data.get("blob")
    if not isinstance(blob, Mapping):
        url = data.get("url")
        if not isinstance(url, str) or not url:
            raise RejectedError(f"a segment {kind!r} to be sent has data {{'blob': …}} or {{'url': 'https://…'}}")
        blob = _fetched(url, n, ("image/*",) if kind == "image" else None)
        if not name and not is_sealed(url):
            name = PurePosixPath(unquote(urlsplit(url).path)).name
    media_type = str(blob.get("media_type") or mediatypes.UNKNOWN)
    return File(kind, safe_name(name, kind, media_type), media_type, int(blob.get("size") or 0), dict(blob))


def _fetched(url: str, n: int, types: Sequence[str] | None) -> dict[str, Any]:
    try:
        found: dict[str, Any] = lumia.effect(f"file {n}", _as_dict, url, types, kind="http")
    except TransientMediaError as error:
        raise UnreachableError(f"a file to be sent can't be had now: {error}") from error
    except (MediaError, BlobError) as error:
        raise RejectedError(f"a file to be sent can't be had: {error}") from error
    return found


def _as_dict(url: str, types: Sequence[str] | None) -> dict[str, Any]:
    return fetch(opened(url), types=types, schemes=("https",)).as_dict()


def safe_name(name: str, kind: str, media_type: str) -> str:
    """Return a file name that is no path, hides nothing, and ends as its type does."""
    plain = _NOT_IN_NAMES.sub("_", lumia.payloads.clean_text(name)).strip(" ._") or kind
    essence = mediatypes.essence(media_type)
    suffix = PurePosixPath(plain).suffix
    fine = suffix and mimetypes.guess_type(plain)[0] is not None
    wanted = "" if fine or essence in ("", mediatypes.UNKNOWN) else mimetypes.guess_extension(essence) or ""
    end = suffix if fine else wanted
    stem = plain.removesuffix(end)
    return (stem[: MAX_NAME - len(end)].strip(" .") or kind) + end
