"""Files of messages: fetched from Slack with the bot's token, which goes nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from adapters.slack.accounts import Account
from adapters.slack.files import is_slacks
from tests.adapters.slack.common import SLACK, config, message
from tests.peers.slack import SlackPeer
from tests.peers.slack_events import EventsSender
from tests.support.gateway import served
from tests.support.wait import until

HOME = Account("main")
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 100
seen: list[dict[str, Any]] = []


@lumia.pipe.on("msg")
def note(content: lumia.Box[Any]) -> None:
    seen.append(content.into())


@pytest.mark.parametrize(
    "url, fine",
    [
        ("https://files.slack.com/files-pri/T1-F1/download/a.png", True),
        ("https://slack.com/x", True),
        ("https://files.slack.com./x", True),
        ("https://FILES.SLACK.COM/x", True),
        ("http://files.slack.com/x", False),
        ("https://files.slack.com.evil.example/x", False),
        ("https://evilslack.com/x", False),
        ("https://slack.com@evil.example/x", False),
        ("https://evil.example/slack.com", False),
        ("https://docs.google.com/document/d/1", False),
        ("https://[", False),
        ("//slack.com/x", False),
    ],
)
def test_only_slacks_own_addresses_get_the_token(url: str, fine: bool) -> None:
    assert is_slacks(url, HOME) is fine


def test_a_stand_in_for_slack_is_slack_at_its_port_only() -> None:
    account = Account("main", api_url="http://127.0.0.1:8000/api/")
    assert is_slacks("http://127.0.0.1:8000/files/a", account)
    assert not is_slacks("http://127.0.0.1:8001/files/a", account)


def test_files_are_in_the_blob_store_before_the_message_goes_on() -> None:
    seen.clear()
    with SlackPeer() as slack, served(SLACK, note, config=config(slack)) as site:
        slack.files["/files/cat.png"] = (PNG, "image/png")
        files = [
            {"id": "F1", "name": "cat.png", "mimetype": "image/png",
             "url_private_download": f"{slack.url}/files/cat.png"},
            {"id": "F2", "name": "gone.png", "mimetype": "image/png", "url_private": f"{slack.url}/files/gone.png"},
            {"id": "F3", "name": "doc", "mimetype": "text/html", "mode": "external",
             "url_private": "https://docs.example.com/d/1"},
            {"id": "F4", "mode": "tombstone"},
        ]  # fmt: skip
        sender = EventsSender(f"{site.url}/slack/main/events", client=site.client)
        assert sender.event(message("our cat", subtype="file_share", files=files)).statuses == [200]
        (msg,) = until(lambda: list(seen))
        cat, gone, outside, deleted = msg["media"]
        assert site.bot.runtime.blobs is not None
        assert site.bot.runtime.blobs.get(cat["blob"]) == PNG
        assert "a web page came instead" in gone["error"]
        assert "docs.example.com, which is not Slack's" in outside["error"]
        assert "no address" in deleted["error"]
        assert slack.bot_token not in str(msg)
