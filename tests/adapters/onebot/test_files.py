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
        qq.say(image("a.png", web.url()), group="12")
        qq.say("after", group="12")
        assert heard.wait(2) == ["look[image]", "after"]
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
