"""Fetching one file into the blob store, from a URL that somebody else may have written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import lumia
from lumia import blobs, mediatypes
from lumia.blob_incoming import Incoming
from lumia.blobs import BlobRef
from lumia.errors import MediaError, OutsideError, PlaceError, TransientMediaError
from lumia.outside import Answer, Places, ask

SECONDS = 30.0
REDIRECTS = 5
_AGAIN = frozenset({408, 425, 429})
_WEB_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_SAYS_NOTHING = frozenset({"", mediatypes.UNKNOWN, "binary/octet-stream", "application/x-download", "text/plain"})


def fetch(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    allowed_hosts: Sequence[str] = (),
    max_bytes: int | None = None,
    types: Sequence[str] | None = None,
    media_type: str = "",
    schemes: Sequence[str] = ("https", "http"),
    seconds: float = SECONDS,
) -> BlobRef:
    """Fetch a file into the blob store and return its reference; wrap it in `lumia.effect` within a handler.

    Inner addresses are refused (`lumia.outside`) unless `allowed_hosts` names host, host:port, address or network; up
    to five redirects are judged anew, and `headers` go to no other host. max_bytes: `[media] max_bytes` of
    config/lumia.toml unless given. types: media types that are taken, as `image/*`; what a file is, its bytes tell,
    not its server. media_type: what is known of it beforehand. seconds: for everything together.

    Raises `lumia.errors.MediaError` in plain words without the URL, which may hold a token, `TransientMediaError` where
    another try may help, `BlobError` when it can't be stored.
    """
    places = Places(allowed=tuple(allowed_hosts), schemes=tuple(schemes), what="its URL")
    limit = size_limit(max_bytes)
    try:
        with ask("GET", url, places=places, headers=headers, seconds=seconds, redirects=REDIRECTS) as answer:
            _check_head(answer, limit)
            with blobs.incoming() as file:
                for chunk in answer.chunks():
                    take(file, chunk, limit)
                declared = mediatypes.essence(answer.headers.get("content-type", ""))
                return kept(file, media_type if declared in _SAYS_NOTHING and media_type else declared,
                            types=types, expected=media_type)  # fmt: skip
    except PlaceError as error:
        raise MediaError(f"refused: {error}") from None
    except OutsideError as error:
        raise (TransientMediaError if error.transient else MediaError)(str(error)) from None


def size_limit(max_bytes: int | None = None) -> int:
    """Return the size of the largest file that is taken: as given, else as configured, and no larger than a blob."""
    wanted = lumia.config.get("lumia").media.max_bytes if max_bytes is None else max_bytes
    return min(int(wanted), blobs.max_bytes())


def store(data: bytes, media_type: str, *, types: Sequence[str] | None = None, limit: int | None = None) -> BlobRef:
    """Keep bytes that are here already, by the same rules as fetched ones."""
    with blobs.incoming() as file:
        take(file, data, size_limit() if limit is None else limit)
        return kept(file, media_type, types=types, expected=media_type)


def take(file: Incoming, data: bytes, limit: int) -> None:
    """Add to a file on its way in; raises `MediaError` when it gets larger than `limit` bytes."""
    if file.size + len(data) > limit:
        raise too_large("more than " + shown(limit), limit)
    file.write(data)


def kept(file: Incoming, declared: str, *, types: Sequence[str] | None, expected: str) -> BlobRef:
    """Keep a file that is whole, under the type it is; raises `MediaError` for another one than is wanted."""
    if not file.size:
        raise MediaError("it is empty")
    found = mediatypes.settled(file.head, declared)
    if found in _WEB_PAGES and mediatypes.essence(expected) not in {"", *_WEB_PAGES}:
        raise MediaError("a web page came instead of the file; a link that has run out, or needs a login")
    if types and not any(mediatypes.fits(found, wanted) for wanted in types):
        raise MediaError(f"it is {found}, and {' or '.join(types)} was expected")
    return file.keep(found)


def too_large(size: str, limit: int) -> MediaError:
    """Return the error of a file over the limit."""
    return MediaError(f"it has {size}, and at most {shown(limit)} are fetched ([media] max_bytes)")


def shown(size: int) -> str:
    """Return a size as people write it: 900 bytes, 12 kB, 3.4 MB."""
    if size < 10_000:
        return f"{size} bytes"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _check_head(answer: Answer, limit: int) -> None:
    if answer.status != 200:
        again = answer.status in _AGAIN or answer.status >= 500
        raise (TransientMediaError if again else MediaError)(f"{answer.host} answered {answer.phrase}")
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise MediaError(f"{answer.host} sent it compressed, which was not asked for; a small file may hide a huge one")
    length = answer.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:19]) > limit:
        raise too_large(shown(int(length[:19])), limit)
