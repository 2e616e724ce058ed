"""Files that come in are here before their message goes on; one that can't be had does not hold it up."""

from __future__ import annotations

from typing import Any

import lumia
from tests.adapters.onebot.site import MAIN, TOKEN, Heard, site
from tests.peers.onebot import OneBot
from tests.support.outside import PNG, giving, peer


def image(file: str, url: str) -> list[dict[str, Any]]:
    return [{"type": "text", "data": {"text": "look"}}, {"type": "image", "data": {"file": file, "url": url}}]


def test_an_image_comes_with_its_message() -> None:
    heard, main = Heard(), {**MAIN, "media_hosts": ["127.0.0.1"]}
    with peer(giving(PNG)) as web, OneBot("10001", token=TOKEN) as qq, site(heard, main=main) as gateway:
        qq.connect(gateway.ws)
        qq.say(image("a.png", web.url("/a?rkey=CAISKAB6JWENi5LM")), group="12")
        qq.say("after", group="12")
        assert heard.wait(2) == ["look[image]", "after"]
        assert b"rkey=CAISKAB6JWENi5LM" in web.seen[0]
        journal = lumia.runs.tail("0", 0.1, 500)
        assert journal and "CAISKAB6JWENi5LM" not in str(journal), "whoever reads the journal gets no file with it"
        msg, meta = heard.messages[0]
        assert msg["segments"][1] == {"type": "image", "data": {"media": 0}}
        assert lumia.blobs.get(msg["media"][0]["blob"]) == PNG
        assert meta["account"] == "main"


def test_an_address_inside_our_network_is_not_asked() -> None:
    heard = Heard()
    with peer(giving(PNG)) as web, OneBot("10001", token=TOKEN) as qq, site(heard) as gateway:
        qq.connect(gateway.ws)
        qq.say(image("a.png", web.url()), group="12")
        heard.wait(1)
        assert "error" in heard.messages[0][0]["media"][0]
        assert not web.paths


def test_a_path_on_napcats_machine_stays_without_data() -> None:
    heard = Heard()
    with OneBot("10001", token=TOKEN) as qq, site(heard) as gateway:
        qq.connect(gateway.ws)
        qq.say([{"type": "record", "data": {"file": "a.amr", "url": "/app/a.amr", "path": "/app/a.amr"}}], user="30003")
        heard.wait(1)
        assert "no address" in heard.messages[0][0]["media"][0]["error"]


def test_base64_needs_no_address() -> None:
    heard = Heard()
    with OneBot("10001", token=TOKEN) as qq, site(heard) as gateway:
        qq.connect(gateway.ws)
        encoded = "base64://iVBORw0KGgoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
        qq.say([{"type": "image", "data": {"file": encoded}}], user="30003")
        heard.wait(1)
        assert "error" not in heard.messages[0][0]["media"][0]


def test_two_files_of_the_same_name_are_two_files() -> None:
    heard, main = Heard(), {**MAIN, "media_hosts": ["127.0.0.1"]}
    with (
        peer(giving(b"of Ann", "text/plain")) as ann, peer(giving(b"of Bob", "text/plain")) as bob,
        OneBot("10001", token=TOKEN) as qq, site(heard, main=main) as gateway,
    ):  # fmt: skip
        qq.connect(gateway.ws)
        for user, web in (("30003", ann), ("30004", bob)):
            qq.say([{"type": "file", "data": {"file": "report.txt", "url": web.url()}}], user=user)
        heard.wait(2)
        found = {msg["sender"]["id"]: lumia.blobs.get(msg["media"][0]["blob"]) for msg, _ in heard.messages}
        assert found == {"30003": b"of Ann", "30004": b"of Bob"}


def test_an_image_named_by_its_content_is_fetched_once() -> None:
    heard, main = Heard(), {**MAIN, "media_hosts": ["127.0.0.1"]}
    with peer(giving(PNG)) as web, OneBot("10001", token=TOKEN) as qq, site(heard, main=main) as gateway:
        qq.connect(gateway.ws)
        for count in (1, 2):
            qq.say(image("6A8F0C1D2E3B4A5968778695A4B3C2D1.png", web.url()), group="12")
            heard.wait(count)
        assert len(web.paths) == 1
        assert all(lumia.blobs.get(msg["media"][0]["blob"]) == PNG for msg, _ in heard.messages)
