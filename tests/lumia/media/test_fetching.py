"""Fetching files from servers that mean well, badly, or nothing at all."""

from __future__ import annotations

import gzip
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumia
from lumia.blobs import Blobs
from lumia.errors import BlobError, MediaError, TransientMediaError
from lumia.media import fetch
from lumia.testing import Bot
from tests.support.outside import PNG, Behaviour, Peer, giving, head, moving, peer, resolving, secured

HERE = ("127.0.0.1",)


@lumia.event.consumer("nothing")
def nothing(content: lumia.Box[Any]) -> None:
    """Make a bot of nothing."""


@pytest.fixture(autouse=True)
def bot() -> Iterator[Bot]:
    with Bot(nothing, config={"lumia": {"media.max_bytes": 100_000}}) as bot:
        yield bot


def stored(bot: Bot) -> list[Path]:
    return [path for path in (bot.runtime.root / "data" / "blobs").rglob("*") if path.is_file()]


def test_a_file_is_kept_under_the_type_its_bytes_show() -> None:
    with peer(giving(PNG, "image/jpeg")) as server:
        ref = fetch(server.url(), allowed_hosts=HERE)
    assert (ref.media_type, ref.size) == ("image/png", len(PNG))
    assert lumia.media.read(ref.as_dict()) == PNG
    assert b"Accept-Encoding: identity\r\n" in server.seen[0] and b"Cookie" not in server.seen[0]


@pytest.mark.parametrize(
    "declared, known, body, kept",
    [
        ("application/octet-stream", "application/epub+zip", b"PK\x03\x04zip", "application/epub+zip"),
        ("audio/ogg; codecs=opus", "", b"OggS\x00", "audio/ogg"),
        ("text/csv", "", b"a,b\n1,2\n", "text/csv"),
        ("image/png", "", b"no picture", "application/octet-stream"),
        ("rubbish", "", b"\x00\x01", "application/octet-stream"),
        ("", "audio/x-m4a", b"\x00\x00\x00\x1cftypM4A ", "audio/mp4"),
        ("application/x-tgsticker", "", b"\x1f\x8b\x08\x00", "application/x-tgsticker"),
    ],
)  # fmt: skip
def test_what_bytes_do_not_tell_is_taken_from_who_sends_them(declared: str, known: str, body: bytes, kept: str) -> None:
    with peer(giving(body, declared)) as server:
        assert fetch(server.url(), allowed_hosts=HERE, media_type=known).media_type == kept


@pytest.mark.parametrize(
    "body, said, why",
    [
        (b"<!DOCTYPE html><p>log in", "image/png", "text/html, and image/.* was expected"),
        (b"<svg xmlns='x' onload='alert(1)'/>", "image/png", "application/octet-stream, and image"),
        (b"%PDF-1.7", "image/png", "application/pdf, and image"),
        (b"", "image/png", "it is empty"),
    ],
)
def test_a_wrong_type_is_refused(bot: Bot, body: bytes, said: str, why: str) -> None:
    with peer(giving(body, said)) as server, pytest.raises(MediaError, match=why):
        fetch(server.url(), allowed_hosts=HERE, types=["image/*"])
    assert stored(bot) == []


def test_a_web_page_is_no_document() -> None:
    with (
        peer(giving(b"\n <html><title>Sign in", "text/html")) as server,
        pytest.raises(MediaError, match="a web page came instead of the file"),
    ):
        fetch(server.url(), allowed_hosts=HERE, media_type="application/pdf")


def test_what_the_bot_does_not_allow_is_not_stored(bot: Bot) -> None:
    bot.runtime.blobs = Blobs(bot.runtime.root / "few", allowed=("audio/*",))
    with peer(giving(PNG)) as server, pytest.raises(BlobError, match=r"\[blobs\] allowed is"):
        fetch(server.url(), allowed_hosts=HERE)


# --- size and time


def endless(peer: Peer, line: socket.socket, request: bytes) -> None:
    line.sendall(head(Content_Type="image/png", Transfer_Encoding="chunked"))
    while not peer.ended.is_set():
        line.sendall(b"4000\r\n" + b"\x00" * 0x4000 + b"\r\n")


def understated(peer: Peer, line: socket.socket, request: bytes) -> None:
    line.sendall(head(Content_Type="image/png", Content_Length=len(PNG)) + PNG + b"x" * 200_000)


def overstated(peer: Peer, line: socket.socket, request: bytes) -> None:
    line.sendall(head(Content_Type="image/png", Content_Length=len(PNG) + 10) + PNG)


def test_a_file_without_an_end_is_left_at_the_limit(bot: Bot) -> None:
    with peer(endless) as server, pytest.raises(MediaError, match="more than 100 kB, and at most 100 kB are fetched"):
        fetch(server.url(), allowed_hosts=HERE)
    assert stored(bot) == []


def test_a_size_over_the_limit_is_refused_before_the_first_byte() -> None:
    for length in ("2000000000", "9" * 5000):
        with (
            peer(giving(b"", Content_Length=length)) as server,
            pytest.raises(MediaError, match=r"at most 100 kB are fetched|does not speak HTTP"),
        ):
            fetch(server.url(), allowed_hosts=HERE)


def test_a_server_that_understates_its_file_is_cut_there() -> None:
    with peer(understated) as server:
        assert fetch(server.url(), allowed_hosts=HERE).size == len(PNG)


def test_a_file_that_breaks_off_is_no_file(bot: Bot) -> None:
    with peer(overstated) as server, pytest.raises(TransientMediaError, match=r"127\.0\.0\.1 broke off"):
        fetch(server.url(), allowed_hosts=HERE)
    assert stored(bot) == []


def test_a_compressed_body_is_refused_unopened() -> None:
    bomb = gzip.compress(b"\x00" * 50_000_000)
    with (
        peer(giving(bomb, "image/png", Content_Encoding="gzip")) as server,
        pytest.raises(MediaError, match="compressed, which was not asked for"),
    ):
        fetch(server.url(), allowed_hosts=HERE)


def dripping(start: bytes) -> Behaviour:
    def drip(peer: Peer, line: socket.socket, request: bytes) -> None:
        line.sendall(start)
        while not peer.ended.wait(0.02):
            line.sendall(b"a")

    return drip


@pytest.mark.parametrize(
    "start",
    [b"", b"HTTP/1.1 200 OK\r\nX-Long: ", head(Content_Length=90_000), b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["status", "header", "body", "continue"],
)
def test_a_server_that_drips_is_left_at_the_deadline(start: bytes) -> None:
    began = time.monotonic()
    with peer(dripping(start)) as server, pytest.raises(TransientMediaError, match=r"within 0\.3 s|speak HTTP"):
        fetch(server.url(), allowed_hosts=HERE, seconds=0.3)
    assert time.monotonic() - began < 2


def test_a_handshake_that_never_ends_is_left_at_the_deadline() -> None:
    with peer(dripping(b"")) as server, pytest.raises(TransientMediaError, match="can't be reached"):
        fetch(server.url().replace("http:", "https:"), allowed_hosts=HERE, seconds=0.3)


def test_nobody_there_may_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    with pytest.raises(TransientMediaError, match="can't be reached: 127"):
        fetch(f"http://127.0.0.1:{port}/", allowed_hosts=HERE)


@pytest.mark.parametrize(
    "status, transient",
    [("404 Not Found", False), ("403 Forbidden", False), ("206 Partial Content", False), ("204 No Content", False),
     ("429 Too Many Requests", True), ("500 Internal Server Error", True), ("503 Service Unavailable", True)],
)  # fmt: skip
def test_what_the_status_says_decides_whether_another_try_helps(status: str, transient: bool) -> None:
    with peer(giving(PNG, status=status)) as server, pytest.raises(MediaError, match=f"answered {status}") as told:
        fetch(server.url(), allowed_hosts=HERE)
    assert isinstance(told.value, TransientMediaError) is transient


# --- where it may go


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/", "http://[::ffff:169.254.169.254]/",
     "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://0/", "http://100.64.0.1/", "file:///etc/passwd",
     "ftp://files.example/x", "http://user:secret-1@files.example/", "http://files.example:6379/", "", "//x",
     "data:,x"],
)  # fmt: skip
def test_inner_places_and_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(MediaError, match=r"refused: its URL: |can't be reached|has no address") as told:
        fetch(url, seconds=1)
    assert "secret-1" not in str(told.value)


@pytest.mark.parametrize(
    "location",
    ["http://169.254.169.254/latest/meta-data/", "http://[::1]:{port}/file", "//10.0.0.1/", "file:///etc/passwd",
     "http://user:pass@a.example/", "http://a.example:25/", "gopher://a.example/", "http://[bad"],
)  # fmt: skip
def test_a_redirect_is_judged_anew(location: str) -> None:
    with (
        peer({"/file": moving(location), "/other": giving(PNG)}) as server,
        pytest.raises(MediaError, match=r"refused: the redirect of 127\.0\.0\.1: "),
    ):
        fetch(server.url(), allowed_hosts=HERE)
    assert server.paths == ["/file"]


def test_redirects_are_followed_a_few_times() -> None:
    chain = {f"/{n}": moving(f"/{n + 1}", "307 Temporary Redirect") for n in range(9)} | {"/9": giving(PNG)}
    with peer(chain) as server:
        assert fetch(server.url("/4"), allowed_hosts=HERE).size == len(PNG)
        with pytest.raises(MediaError, match="more than 5 redirects"):
            fetch(server.url("/3"), allowed_hosts=HERE)


def test_a_redirect_that_leads_in_a_circle_ends() -> None:
    with peer({"/file": moving("/file")}) as server, pytest.raises(MediaError, match="more than 5 redirects"):
        fetch(server.url(), allowed_hosts=HERE)
    assert len(server.seen) == 6


def test_headers_go_to_no_other_host_and_inner_places_of_one_host_are_not_those_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolving(monkeypatch, "127.0.0.1")
    with peer({"/file": moving("http://b.example:{port}/other"), "/other": giving(PNG)}) as server:
        with pytest.raises(MediaError, match=r"redirect of a\.example: b\.example is at 127"):
            fetch(server.url(host="a.example"), allowed_hosts=["a.example", "b.example"])
        monkeypatch.setattr("lumia.outside.places.is_public", lambda address: True)
        fetch(server.url(host="a.example"), headers={"Authorization": "Bearer x", "X-Key": "y"})
    first, second = server.seen[-2:]
    assert b"Authorization: Bearer x" in first and b"X-Key" in first
    assert b"Authorization" not in second and b"X-Key" not in second
    assert f"Host: b.example:{server.port}".encode() in second


def test_https_never_becomes_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = secured(tmp_path, "a.example", monkeypatch)
    resolving(monkeypatch, "127.0.0.1")
    with (
        peer({"/file": moving("http://a.example:{port}/other")}, tls) as server,
        pytest.raises(MediaError, match="leads from https to http"),
    ):
        fetch(server.url(host="a.example"), allowed_hosts=["a.example"])


def test_a_name_that_changes_its_answer_is_connected_where_it_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolving(monkeypatch, ("127.0.0.1",), ("169.254.169.254",))
    with peer({"/file": moving("/file2"), "/file2": giving(PNG)}) as server:
        with pytest.raises(MediaError, match=r"a\.example is at 169"):
            fetch(server.url(host="a.example"), allowed_hosts=["127.0.0.0/8"])
        assert asked == ["a.example", "a.example"]
        del asked[:]
        assert fetch(server.url("/file2", host="a.example"), allowed_hosts=["127.0.0.0/8"]).size == len(PNG)
        assert asked == ["a.example"]


def test_the_environment_s_proxy_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with peer(giving(PNG)) as proxy, peer(giving(PNG)) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url("/"))
        fetch(server.url(), allowed_hosts=HERE)
        assert proxy.seen == [] and len(server.seen) == 1


@pytest.mark.parametrize(
    "behave",
    [giving(PNG), giving(b"", status="404 Not Found"), endless, overstated, moving("http://10.0.0.1/bot123:SECRET")],
    ids=["fine", "missing", "endless", "cut", "moved"],
)
def test_no_error_and_no_log_holds_the_url_or_a_header(behave: Behaviour, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told, secret = "", {"Authorization": "SECRET"}
    with peer(behave) as server:
        try:
            fetch(server.url("/file/bot123:SECRET/a?key=SECRET"), allowed_hosts=HERE, headers=secret)
        except MediaError as error:
            told = f"{error!r} {error.__cause__!r}"
    assert "SECRET" not in told and "SECRET" not in caplog.text


def test_a_header_that_can_t_be_sent_is_not_quoted() -> None:
    for value in ("SECRET\r\nX: 1", "SECRETé€"):
        with peer(giving(PNG)) as server, pytest.raises(MediaError, match="a header that can't be sent") as told:
            fetch(server.url(), allowed_hosts=HERE, headers={"Authorization": value})
        assert "SECRET" not in str(told.value)


def test_whatever_a_server_answers_is_a_file_or_a_plain_error() -> None:
    answers: list[bytes] = []
    with peer(lambda _, line, request: line.sendall(answers[-1])) as server:

        @given(st.binary(max_size=300) | st.binary(max_size=50).map(lambda end: b"HTTP/1.1 200 OK\r\n" + end))
        @settings(max_examples=60, deadline=None)
        def asked(answer: bytes) -> None:
            answers.append(answer)
            with suppress(MediaError, BlobError):
                assert fetch(server.url(), allowed_hosts=HERE, seconds=2).size

        asked()


def test_a_full_disk_is_told(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with peer(giving(PNG)) as server:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(BlobError, match="No space left on device"):
                fetch(server.url(), allowed_hosts=HERE)
        assert stored(bot) == []
        assert fetch(server.url(), allowed_hosts=HERE).size == len(PNG)
