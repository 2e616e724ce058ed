"""What a file is, told from how it begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.mediatypes import UNKNOWN, agrees, essence, fits, settled, sniff

TYPES = st.sampled_from(["image/png", "audio/ogg", "text/plain", "application/zip", "text/html", "x", ""]) | st.text()


@pytest.mark.parametrize(
    "head, media_type",
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"), (b"BM\x36\x00\x00\x00\x00\x00\x00\x00", "image/bmp"),
        (b"\x00\x00\x00 ftypavif", "image/avif"), (b"\x00\x00\x00 ftypM4A ", "audio/mp4"),
        (b"\x00\x00\x00 ftypisom", "video/mp4"), (b"\x02#!SILK_V3", "audio/silk"), (b"#!AMR\n", "audio/amr"),
        (b"\xff\xf1\x50\x80", "audio/aac"), (b"\xff\xfb\x90\x00", "audio/mpeg"), (b"\xff\xfa\x90\x00", "audio/mpeg"),
        (b"\xff\xff\xff\xff", ""),
        (b"RIFF\x00\x00\x00\x00AVI ", "video/x-msvideo"), (b"\x1f\x8b\x08", "application/gzip"),
        (b"\xef\xbb\xbf\n <!DOCTYPE HTML>", "text/html"), (b"<script>", "text/html"), (b"<scripture>", ""),
        (b"plain", ""), (b"", ""),
    ],
)  # fmt: skip
def test_files_show_what_they_are(head: bytes, media_type: str) -> None:
    assert sniff(head) == media_type


def test_types_have_one_name() -> None:
    assert essence("IMAGE/JPG; q=1") == "image/jpeg" and essence(" audio/x-m4a ") == "audio/mp4"
    assert [essence(rubbish) for rubbish in ("png", "image/", "image/p ng", "image/png\r\nX: 1", "é/x")] == [""] * 5


@pytest.mark.parametrize(
    "head, declared, kept",
    [
        (b"PK\x03\x04", "application/epub+zip", "application/epub+zip"),
        (b"PK\x03\x04", "image/png", "application/zip"),
        (b"GIF89a", "image/png", "image/gif"), (b"text", "text/csv; header=yes", "text/csv"),
        (b"text", "image/png", UNKNOWN),
        (b"OggS", "audio/opus", "audio/opus"), (b"OggS", UNKNOWN, "audio/ogg"), (b"<html>", "text/plain", "text/html"),
    ],
)  # fmt: skip
def test_bytes_decide_and_a_container_s_content_is_believed(head: bytes, declared: str, kept: str) -> None:
    assert settled(head, declared) == kept


@given(st.binary(max_size=60), TYPES)
def test_what_is_settled_agrees_with_the_bytes(head: bytes, declared: str) -> None:
    found = settled(head, declared)
    assert essence(found) == found and agrees(head, found)
    assert settled(head, found) == found


@given(TYPES)
def test_patterns_mean_what_they_say(text: str) -> None:
    found = essence(text)
    assert fits(found, "*/*") is bool(found)
    assert not found or (fits(found, found) and fits(found, found.partition("/")[0] + "/*"))
