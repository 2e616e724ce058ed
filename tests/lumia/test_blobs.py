"""The blob store: media by reference."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lumia
from lumia.blobs import BlobRef, Blobs
from lumia.errors import BackendUnavailableError, BlobError
from lumia.inmemory import InMemoryTransport
from lumia.runtime import Runtime
from lumia.testing import Bot

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
SAMPLES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBP",
    "application/pdf": b"%PDF-1.7",
    "audio/ogg": b"OggS",
    "audio/mpeg": b"\xff\xfb\x90\x00",
    "audio/flac": b"fLaC",
    "audio/wav": b"RIFF\x00\x00\x00\x00WAVE",
    "video/mp4": b"\x00\x00\x00\x20ftypisom",
    "video/webm": b"\x1aE\xdf\xa3",
    "application/zip": b"PK\x05\x06",
}


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


def files(blobs: Blobs) -> list[Path]:
    return [path for path in blobs._folder.rglob("*") if path.is_file()]


@given(data=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_come_back_as_they_were(blobs: Blobs, data: bytes) -> None:
    ref = blobs.put(data, "application/octet-stream")
    assert ref.size == len(data)
    assert blobs.get(ref) == blobs.get(ref.as_dict()) == blobs.get(ref.digest) == data
    with blobs.open(ref) as file:
        assert file.read() == data


def test_the_same_bytes_are_stored_once(blobs: Blobs) -> None:
    first, second = blobs.put(b"same", "text/plain"), blobs.put(b"same", "text/html")
    assert first.digest == second.digest and len(files(blobs)) == 1
    assert blobs.put(b"other", "text/plain").digest != first.digest


@pytest.mark.parametrize("media_type", sorted(SAMPLES))
def test_known_media_begin_as_they_should(blobs: Blobs, media_type: str) -> None:
    assert blobs.put(SAMPLES[media_type], media_type).media_type == media_type
    with pytest.raises(BlobError, match=f"say they are {media_type}, but don't begin like it"):
        blobs.put(b"<script>alert(1)</script>", media_type)


@pytest.mark.parametrize("disguise", ["IMAGE/PNG", "image/png; charset=binary", "Image/Png;q=1"])
def test_no_spelling_of_a_type_gets_around_the_check(blobs: Blobs, disguise: str) -> None:
    with pytest.raises(BlobError, match="image/png, but don't begin like it"):
        blobs.put(b"<script>", disguise)
    assert blobs.put(PNG, disguise).media_type.startswith("image/png")


@pytest.mark.parametrize(
    "wrong", ["", "png", "image/", "/png", "a b/c", "image/png\r\nX: 1", "image/png;\x00", None, 5]
)
def test_what_is_no_media_type_is_refused(blobs: Blobs, wrong: Any) -> None:
    with pytest.raises(BlobError, match="no media type such as image/png"):
        blobs.put(b"data", wrong)


@pytest.mark.parametrize("wrong", ["text", None, 5, bytearray(b"x")])
def test_a_blob_is_bytes(blobs: Blobs, wrong: Any) -> None:
    with pytest.raises(BlobError, match="a blob is bytes"):
        blobs.put(wrong, "text/plain")


def test_what_is_too_large_or_not_wanted_is_refused_with_the_setting_to_change(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs", max_bytes=100, allowed=("image/*", "text/plain"))
    assert blobs.put(b"x" * 100, "text/plain").size == 100
    with pytest.raises(BlobError, match=r"101 bytes is over the limit of 100; raise \[blobs\] max_bytes"):
        blobs.put(b"x" * 101, "text/plain")
    with pytest.raises(BlobError, match=r"'text/html' is refused; \[blobs\] allowed is image/\*, text/plain"):
        blobs.put(b"x", "text/html")
    assert blobs.put(PNG, "image/png").media_type == "image/png"
    assert len(files(blobs)) == 2


@pytest.mark.parametrize("wrong", ["", "abc", "../../etc/passwd", "G" * 64, "a" * 63 + "/", {"no": "digest"}, {}, None])
def test_what_is_no_digest_reaches_no_file(blobs: Blobs, wrong: Any) -> None:
    for read in (blobs.get, blobs.open):
        with pytest.raises(BlobError, match="no blob digest"):
            read(wrong)


def test_a_blob_that_is_gone_is_named(blobs: Blobs) -> None:
    with pytest.raises(BlobError, match="blob aaaaaaaaaaaa is not in"):
        blobs.get(BlobRef("a" * 64, 1, "text/plain"))


def test_damaged_bytes_are_not_handed_out_and_storing_them_again_heals_a_cut_off_file(blobs: Blobs) -> None:
    ref = blobs.put(b"whole", "text/plain")
    files(blobs)[0].write_bytes(b"who")
    with pytest.raises(BlobError, match="is damaged"):
        blobs.get(ref)
    blobs.put(b"whole", "text/plain")
    assert blobs.get(ref) == b"whole"


def test_what_nobody_uses_is_collected_and_what_is_read_or_stored_again_is_kept(blobs: Blobs) -> None:
    refs = [blobs.put(data, "text/plain") for data in (b"old", b"read", b"stored again", b"opened")]
    for path in files(blobs):
        os.utime(path, (1000, 1000))
    blobs.get(refs[1])
    blobs.put(b"stored again", "text/plain")
    blobs.open(refs[3]).close()
    assert blobs.collect(60, now=2000) == 1
    with pytest.raises(BlobError):
        blobs.get(refs[0])
    assert [blobs.get(ref) for ref in refs[1:]] == [b"read", b"stored again", b"opened"]


def test_collecting_with_a_clock_set_back_removes_nothing(blobs: Blobs) -> None:
    blobs.put(b"data", "text/plain")
    assert blobs.collect(60, now=1000) == 0
    assert blobs.collect() == 0
    assert Blobs(blobs._folder / "nowhere").collect() == 0


def test_a_file_that_another_process_removes_meanwhile_is_no_error(
    blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = blobs.put(b"data", "text/plain")
    path = files(blobs)[0]
    os.utime(path, (1000, 1000))
    unlink = Path.unlink

    def first_another(self: Path, missing_ok: bool = False) -> None:
        unlink(self)
        unlink(self, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", first_another)
        assert blobs.collect(60, now=2000) == 0
    blobs.put(b"data", "text/plain")
    assert blobs.get(ref) == b"data"


def test_a_folder_that_can_not_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file where the folder should be")
    with pytest.raises(BlobError, match="the blob can't be written to"):
        Blobs(tmp_path / "blobs").put(b"data", "text/plain")


def test_a_write_that_breaks_leaves_no_half_file(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BlobError, match="No space left on device"):
        blobs.put(b"data", "text/plain")
    assert files(blobs) == []


def test_a_handler_stores_and_reads_through_its_bot() -> None:
    @lumia.pipe.on("msg")
    def handler(content: lumia.Box[Any]) -> None:
        ref = lumia.blobs.put(PNG, "image/png")
        with lumia.blobs.open(ref) as file:
            assert file.read() == lumia.blobs.get(ref.as_dict()) == PNG
        lumia.utils.stop(ref.digest)

    with Bot(handler) as bot:
        digest = bot.start("msg", 1).reason
        assert (bot.runtime.root / "data" / "blobs" / digest[:2] / digest).is_file()


def test_a_bot_without_a_blob_store_says_so(tmp_path: Path) -> None:
    bare = Runtime(tmp_path, tmp_path, InMemoryTransport(), b"secret")
    with bare.activated(), pytest.raises(BlobError, match="without a blob store"):
        lumia.blobs.get("a" * 64)


def test_what_is_still_needed_is_kept_and_asked_about_only_when_something_would_go(blobs: Blobs) -> None:
    needed, other = blobs.put(b"needed", "text/plain"), blobs.put(b"other", "text/plain")
    asked: list[int] = []

    def held() -> set[str]:
        asked.append(1)
        return {needed.digest}

    assert blobs.collect(60, held=held) == 0 and asked == []
    for path in files(blobs):
        os.utime(path, (1000, 1000))
    assert blobs.collect(60, now=2000, held=held) == 1 and asked == [1]
    assert blobs.holds(needed) and not blobs.holds(other)
    assert blobs.collect(60, held=held) == 0, "what is needed counts as used"


def test_a_collection_that_can_not_ask_removes_nothing(blobs: Blobs) -> None:
    ref = blobs.put(b"data", "text/plain")
    os.utime(files(blobs)[0], (1000, 1000))

    def away() -> set[str]:
        raise BackendUnavailableError("away")

    with pytest.raises(BackendUnavailableError):
        blobs.collect(60, now=2000, held=away)
    assert blobs.holds(ref)


@given(st.lists(st.binary(max_size=700), max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_make_the_same_blob_as_the_whole(blobs: Blobs, pieces: list[bytes]) -> None:
    with blobs.incoming() as file:
        for piece in pieces:
            file.write(piece)
        assert (file.size, file.head) == (len(b"".join(pieces)), b"".join(pieces)[:512])
        ref = file.keep("application/octet-stream")
    assert ref == blobs.put(b"".join(pieces), "application/octet-stream")
    assert blobs.get(ref) == b"".join(pieces)


def test_bytes_that_are_not_kept_leave_nothing(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs", max_bytes=10)
    with blobs.incoming() as file:
        file.write(b"12345")
        with pytest.raises(BlobError, match="over the limit of 10 bytes"):
            file.write(b"678901")
    assert files(blobs) == []


def test_room_is_left_on_the_disk(tmp_path: Path) -> None:
    with pytest.raises(BlobError, match=r"MiB left, and \[blobs\] min_free leaves 1048576 MiB"):
        Blobs(tmp_path / "blobs", min_free=1 << 40).put(b"data", "text/plain")
    assert Blobs(tmp_path / "blobs", min_free=1).put(b"data", "text/plain").size == 4
