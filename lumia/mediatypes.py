"""Media types, told from how a file begins rather than from what its sender says (WHATWG MIME Sniffing, reduced)."""

from __future__ import annotations

import re

HEAD = 512
"""Bytes that `sniff` looks at."""
UNKNOWN = "application/octet-stream"

_MAGIC: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"II*\x00", 0, "image/tiff"),
    (b"MM\x00*", 0, "image/tiff"),
    (b"%PDF-", 0, "application/pdf"),
    (b"OggS", 0, "audio/ogg"),
    (b"ID3", 0, "audio/mpeg"),
    (b"fLaC", 0, "audio/flac"),
    (b"#!AMR", 0, "audio/amr"),
    (b"#!SILK_V3", 0, "audio/silk"),
    (b"\x02#!SILK_V3", 0, "audio/silk"),
    (b"\x1aE\xdf\xa3", 0, "video/webm"),
    (b"PK\x03\x04", 0, "application/zip"),
    (b"PK\x05\x06", 0, "application/zip"),
    (b"\x1f\x8b\x08", 0, "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", 0, "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", 0, "application/vnd.rar"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0, "application/x-cfb"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS = {
    b"avif": "image/avif", b"avis": "image/avif", b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif",
    b"M4A ": "audio/mp4", b"M4B ": "audio/mp4", b"qt  ": "video/quicktime",
}  # fmt: skip
_TYPE = re.compile(r"[\w!#$&^.+-]{1,63}/[\w!#$&^.+-]{1,63}", re.ASCII)
_HTML = re.compile(rb"<(!doctype html|html|head|body|script|iframe|title|meta|!--)[\s>/-]", re.IGNORECASE)
_ALIASES = {
    "image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png", "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "audio/vnd.wave": "audio/wav", "audio/x-flac": "audio/flac",
    "application/x-pdf": "application/pdf", "application/x-zip-compressed": "application/zip",
    "application/x-gzip": "application/gzip", "audio/x-m4a": "audio/mp4", "audio/m4a": "audio/mp4",
    "image/x-ms-bmp": "image/bmp",
}  # fmt: skip
# Formats that hold many others: their bytes tell the container, what is in it only its sender can say.
_HOLDS: dict[str, tuple[str, ...]] = {
    "application/zip": ("application/*", "model/*"),
    "application/x-cfb": ("application/*",),
    "application/gzip": ("application/*", "image/svg+xml"),
    "audio/ogg": ("audio/*", "video/ogg", "application/ogg"),
    "audio/mp4": ("audio/*", "video/mp4"),
    "video/mp4": ("video/*", "audio/mp4", "audio/3gpp", "audio/aac"),
    "video/quicktime": ("video/*",),
    "video/webm": ("video/*", "audio/webm", "audio/x-matroska"),
    "image/heif": ("image/heic", "image/avif"),
    "text/html": ("application/xhtml+xml",),
}
_SURE = {media for _, _, media in _MAGIC} | set(_RIFF.values()) | set(_BRANDS.values()) | {"image/bmp", "video/mp4"}


def essence(media_type: str) -> str:
    """Return a media type without its parameters, in lower case and by its usual name: `image/jpg` is `image/jpeg`.

    "" for what is none.
    """
    plain = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(plain, plain) if _TYPE.fullmatch(plain) else ""


def sniff(head: bytes) -> str:
    """Return what a file is that begins with `head` (`HEAD` bytes, or all there are), "" when that can't be told."""
    for magic, at, media_type in _MAGIC:
        if head.startswith(magic, at):
            return media_type
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12], "")
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return "image/bmp"
    if len(head) > 3 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return _framed(head[1], head[2])
    return "text/html" if _HTML.match(head.lstrip(b"\xef\xbb\xbf \t\r\n\x0c")) else ""


def _framed(second: int, third: int) -> str:
    """Return the type of an MPEG audio stream: its frames begin with eleven bits of ones and say their layer."""
    layer = second >> 1 & 3
    if layer == 0 and second & 0xF6 == 0xF0:
        return "audio/aac"
    return "audio/mpeg" if layer and second & 0x18 != 0x08 and third >> 4 != 15 else ""


def fits(media_type: str, pattern: str) -> bool:
    """Tell whether a type is among those that `pattern` means: `image/png`, `image/*` or `*/*`."""
    kind, _, rest = pattern.partition("/")
    mine, _, detail = media_type.partition("/")
    return bool(mine and detail) and kind in ("*", mine) and rest in ("*", detail)


def agrees(head: bytes, declared: str) -> bool:
    """Tell whether a file that begins with `head` may be what it is said to be; what can't be told apart may."""
    said, found = essence(declared), sniff(head)
    return said not in _SURE or said == found or any(fits(said, inner) for inner in _HOLDS.get(found, ()))


def settled(head: bytes, declared: str) -> str:
    """Return the type a file is to be kept under: what its bytes show, else what is declared.

    Of a container, such as a zip file, it is the declared one if that may be in it. What says it is a type that bytes
    always show, and isn't, is `application/octet-stream`.
    """
    said, found = essence(declared), sniff(head)
    if found:
        return said if any(fits(said, inner) for inner in _HOLDS.get(found, ())) and said != UNKNOWN else found
    return UNKNOWN if not said or said in _SURE else said
