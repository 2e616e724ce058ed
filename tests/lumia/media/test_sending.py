"""Files of messages that are sent: from blobs, and from public URLs through the gate of those that come in."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.errors import RejectedError, UnreachableError
from lumia.media import File, files, guarded, outgoing
from lumia.media.sending import MAX_NAME, safe_name
from lumia.testing import Bot, ManualClock
from tests.support.outside import PNG, Behaviour, giving, head, peer, resolving, secured

sent: list[File] = []


@lumia.event.consumer("send", retry=3)
def send(content: lumia.Box[Any]) -> None:
    sent.extend(files(content.into()))


@pytest.fixture(autouse=True)
def bot() -> Iterator[Bot]:
    sent.clear()
    with Bot(send, clock=ManualClock()) as bot:
        yield bot


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return how to run a public HTTPS server, files.example."""
    tls = secured(tmp_path, "files.example", monkeypatch)
    resolving(monkeypatch, "127.0.0.1")
    monkeypatch.setattr("lumia.outside.places.is_public", lambda address: True)
    return lambda behave: peer(behave, tls)


def test_blobs_are_sent_with_a_name_that_fits_their_type() -> None:
    ref = lumia.blobs.put(PNG, "image/png").as_dict()
    segments = [
        {"type": "text", "data": {"text": "look"}},
        {"type": "image", "data": {"blob": ref}},
        {"type": "file", "data": {"blob": ref, "name": "../../etc/cat"}},
    ]
    first, second = files(segments)
    assert (first.kind, first.name, first.media_type, first.size, first.read()) == (
        "image", "image.png", "image/png", len(PNG), PNG,
    )  # fmt: skip
    assert (second.kind, second.name) == ("file", "etc_cat.png")


def test_a_url_is_fetched_once_for_all_tries(bot: Bot, public: Any) -> None:
    with public(giving(PNG)) as server:
        segment = {"type": "image", "data": {"url": server.url("/a/cat%20one.png?size=2", host="files.example")}}
        bot.event("send", [segment])
    assert [(one.name, one.read()) for one in sent] == [("cat one.png", PNG)]
    assert len(server.seen) == 1


def test_a_sealed_link_of_a_message_is_sent_on(bot: Bot, public: Any) -> None:
    with public(giving(PNG)) as server:
        link = server.url("/a/cat.png?sig=0f3a9c1de2b4", host="files.example")
        (sealed,) = guarded({"media": [{"kind": "image", "url": link}]})[0]["media"]
        bot.event("send", [{"type": "image", "data": {"url": sealed["url"]}}])
        with pytest.raises(RejectedError, match="another bot"):
            outgoing({"type": "image", "data": {"url": "sealed:AAAA"}})
    assert [(one.name, one.read()) for one in sent] == [("image.png", PNG)] and sealed["url"] != link


@pytest.mark.parametrize(
    "behave, error, why",
    [
        (giving(b"<html>"), RejectedError, "it is text/html, and image"),
        (giving(PNG, status="404 Not Found"), RejectedError, "files.example answered 404"),
        (giving(PNG, status="503 Busy"), UnreachableError, "can't be had now: files.example answered 503"),
        (lambda _, line, request: line.sendall(head(Content_Length=9)), UnreachableError, "broke off"),
    ],
)
def test_what_can_t_be_had_is_not_sent(public: Any, behave: Behaviour, error: type[Exception], why: str) -> None:
    with public(behave) as server, pytest.raises(error, match=why):
        outgoing({"type": "image", "data": {"url": server.url("/x?key=SECRET", host="files.example")}})


@pytest.mark.parametrize(
    "data",
    [{}, {"url": ""}, {"url": 5}, {"media": 0}, {"url": "http://files.example/"}, {"url": "https://127.0.0.1/"},
     {"url": "https://[::1]/"}, {"url": "file:///etc/passwd"}, {"blob": "abc"}],
)  # fmt: skip
def test_only_blobs_and_public_https_urls_are_sent(data: Any) -> None:
    with pytest.raises(RejectedError, match=r"a file to be sent can't be had: refused|to be sent has data"):
        outgoing({"type": "image", "data": data})


def test_a_blob_that_is_gone_is_told() -> None:
    file = outgoing({"type": "file", "data": {"blob": {"digest": "a" * 64, "size": 1, "media_type": "text/plain"}}})
    with pytest.raises(RejectedError, match="a file to be sent is gone: blob aaaaaaaaaaaa"):
        file.read()


@given(st.text(max_size=300), st.sampled_from(["image/png", "", "application/octet-stream", "x/y", "text/plain"]))
def test_a_name_is_no_path_and_hides_nothing(name: str, media_type: str) -> None:
    safe = safe_name(name, "file", media_type)
    assert 0 < len(safe) <= MAX_NAME and safe not in (".", "..") and not set(safe) & set('/\\:"<>|?*')
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in safe)
    assert safe_name(safe, "file", media_type) == safe
