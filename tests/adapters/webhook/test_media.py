"""Files of posts and of replies: by URL or as base64, and given back to their source only."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import lumia
from lumia.blobs import Blobs
from lumia.gateway.settings import Settings
from tests.support.gateway import WEBHOOK, Served, served
from tests.support.outside import PNG, giving, head, peer
from tests.support.wait import until

TOKEN, SECRET = "t0ken-of-the-shop", "s3cret-of-the-mill"
SOURCES: dict[str, dict[str, Any]] = {
    "shop": {"token": TOKEN, "media_hosts": ["127.0.0.1"], "callback_hosts": ["127.0.0.1"]},
    "mill": {"secret": SECRET},
}
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PICTURE = base64.b64encode(PNG).decode()
heard: list[dict[str, Any]] = []


@lumia.pipe.on("msg", priv=10)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    msg = content.into()
    heard.append(msg)
    ref = lumia.blobs.put(b"%PDF-1.7 the menu", "application/pdf").as_dict()
    segments = [
        {"type": "text", "data": {"text": "the menu"}},
        {"type": "file", "data": {"blob": ref, "name": "menu"}},
        {"type": "image", "data": {"url": "https://example.org/cat.png"}},
    ]
    to = lumia.payloads.reply_to(msg)
    lumia.event.start(to, lumia.Box.any({"segments": segments, "reply_to": msg["message_id"]}))
    lumia.utils.next()


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    config = {"webhook": {"sources": SOURCES}}
    with served(WEBHOOK, answer, config=config, settings=Settings(max_body=65536)) as running:
        bot = running.bot.runtime
        bot.blobs = Blobs(bot.root / "data" / "blobs", max_bytes=32_000)
        yield running


def post(site: Served, *media: dict[str, Any], **body: Any) -> httpx.Response:
    return site.client.post("/webhook/shop", json={"sender_id": "ada", "media": list(media), **body}, headers=BEARER)


def said(site: Served, *media: dict[str, Any], **body: Any) -> tuple[str, dict[str, Any]]:
    """Post a message and return its run and what handlers saw."""
    accepted = post(site, *media, **body)
    assert accepted.status_code == 202, accepted.text
    run_id = accepted.json()["run_id"]
    lumia.runs.wait(run_id, 10)
    return run_id, heard[-1]


@pytest.mark.parametrize("data", [PICTURE, f"data:image/png;base64,{PICTURE}", f"{PICTURE[:20]}\n{PICTURE[20:]}"])
def test_bytes_are_there_when_the_message_is(site: Served, data: str) -> None:
    _, msg = said(site, {"data": data, "name": "cat.png"}, text="look")
    (item,) = msg["media"]
    assert lumia.blobs.get(item["blob"]) == PNG
    assert (item["kind"], item["media_type"], item["name"]) == ("image", "image/png", "cat.png")
    assert [segment["type"] for segment in msg["segments"]] == ["text", "image"]


def test_a_url_is_fetched_before_the_message_goes_on(site: Served) -> None:
    with peer(giving(PNG)) as server:
        run_id, msg = said(site, {"url": server.url("/cat.png")})
    assert (msg["text"], msg["media"][0]["kind"]) == ("", "image")
    assert lumia.blobs.get(msg["media"][0]["blob"]) == PNG
    record = site.bot.transport.run(run_id)
    assert record is not None and record.id == "msg.media.webhook"


def test_a_url_that_fails_holds_up_nothing(site: Served) -> None:
    with peer(lambda _, line, request: line.sendall(head("404 Not Found", Content_Length=0))) as server:
        _, msg = said(site, {"url": server.url(), "kind": "image"}, text="look")
    assert msg["media"][0]["error"] == "127.0.0.1 answered 404 Not Found"


@pytest.mark.parametrize(
    "item, why",
    [
        ({}, "either a url or data"),
        ({"url": "https://a.example/", "data": PICTURE}, "either a url or data"),
        ({"data": "not base64!"}, "media.0.data: no base64"),
        ({"data": base64.b64encode(b"x" * 33_000).decode()}, "over the limit of 32000"),
        ({"url": "http://10.0.0.1/x"}, "media.0.url: 10.0.0.1 is at 10.0.0.1, which is no public address"),
        ({"url": "file:///etc/passwd"}, "media.0.url: must be http"),
        ({"url": "https://a.example/", "kind": "virus"}, "media.0.kind"),
        ({"data": PICTURE, "size": 3}, "media.0.size"),
    ],
)
def test_a_wrong_file_is_told_and_nothing_is_accepted(site: Served, item: dict[str, Any], why: str) -> None:
    answer = post(site, item, text="look")
    assert answer.status_code == 400
    assert why in answer.json()["error"]


def test_a_full_disk_asks_to_come_again(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.bot.runtime.blobs, "_min_free", 1 << 60)
    answer = post(site, {"data": base64.b64encode(b"something new").decode()}, text="look")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")


def test_the_files_of_a_reply_are_given_to_its_source_and_to_nobody_else(site: Served) -> None:
    run_id, _ = said(site, text="the menu, please", media=[])
    found = site.client.get(f"/webhook/shop/runs/{run_id}", headers=BEARER).json()
    file, link = found["media"]
    assert link == {"kind": "image", "url": "https://example.org/cat.png"}
    assert {name: file[name] for name in ("kind", "name", "media_type", "size")} == {
        "kind": "file", "name": "menu.pdf", "media_type": "application/pdf", "size": 17,
    }  # fmt: skip
    given = site.client.get(file["path"], headers=BEARER)
    assert (given.content, given.headers["content-type"]) == (b"%PDF-1.7 the menu", "application/pdf")
    assert given.headers["content-disposition"] == "attachment; filename*=UTF-8''menu.pdf"
    assert site.client.get(file["path"]).status_code == 401
    path = file["path"].replace("/shop/", "/mill/")
    signed = "sha256=" + hmac.new(SECRET.encode(), path.encode(), hashlib.sha256).hexdigest()
    assert site.client.get(path, headers={"X-Lumia-Signature": signed}).status_code == 404
    for other in ("0" * 64, "..%2F..%2Fsecret", "x"):
        assert site.client.get(f"/webhook/shop/media/{other}", headers=BEARER).status_code == 404


def test_a_callback_names_the_files(site: Served) -> None:
    with peer(lambda _, line, request: line.sendall(head("204 No Content"))) as server:
        said(site, text="the menu, please", media=[], callback_url=server.url("/hook"), message_id="cb-1")
        until(lambda: server.seen)
    letter = server.seen[0]
    assert b'"media": [{"kind": "file", "name": "menu.pdf"' in letter and b'"path": "/webhook/shop/media/' in letter
