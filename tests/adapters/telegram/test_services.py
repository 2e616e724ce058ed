"""Telegram with a real broker, worker and gateway processes: what a killed one leaves, another one finishes."""

from __future__ import annotations

from pathlib import Path

import pytest

import lumia
from tests.peers.telegram import Fault, TelegramServer
from tests.peers.telegram_chats import GROUP
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import first_party, gateway, opened, worker, write_plugin

pytestmark = [pytest.mark.services, pytest.mark.slow]

ECHO = """
import lumia


@lumia.pipe.on("msg")
def answer(content):
    msg = content.into()
    reply = {"text": "re " + msg["text"], "reply_to": msg["message_id"]}
    lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any(reply, meta=content.meta))
"""


def root(folder: Path, telegram: TelegramServer, mode: str, more: str = "") -> Path:
    """Make a bot root with this adapter and a plugin that answers everything."""
    (folder / "config").mkdir(parents=True)
    off = str([name for name in first_party() if name != "telegram"]).replace("'", '"')
    limits = "[worker]\nconcurrency = 4\nstep_timeout = 20.0\ndrain = 3.0\n"
    (folder / "config" / "lumia.toml").write_text(f"{limits}\n[plugins]\ndisabled = {off}\n")
    account = f'token = "{telegram.token}"\napi_url = "{telegram.url}"\nmode = "{mode}"\npoll_seconds = 1\n{more}'
    file = folder / "config" / "telegram.toml"
    file.touch(mode=0o600)
    file.write_text(f"[accounts.main]\n{account}\n")
    write_plugin(folder, "echo", ECHO)
    return folder


def test_a_killed_gateways_bot_is_polled_on_by_another_one_and_nothing_is_answered_twice(
    tmp_path: Path, valkey_url: str, telegram: TelegramServer
) -> None:
    here = root(tmp_path / "bot", telegram, "polling")
    with worker(here, valkey_url), gateway(here, valkey_url, "first") as first:
        until(lambda: telegram.of("getUpdates"), timeout=20)
        telegram.script("getUpdates", *[Fault(cut="before")] * 100)  # so none of these is confirmed
        for number in range(5):
            telegram.say(f"a{number}", chat=GROUP)
        until(lambda: telegram.sent, timeout=20)
        first.kill()
        with opened(here, valkey_url):
            lumia.store.of("telegram").delete("offset", scope="main")  # as if killed before it was kept
        assert telegram.updates.waiting[0]["message"]["text"] == "a0"
        telegram.script("getUpdates")
        for number in range(5):
            telegram.say(f"b{number}", chat=GROUP)
        with gateway(here, valkey_url, "second") as second:
            until(lambda: len(telegram.sent) >= 10, timeout=30)
            last = telegram.say("end", chat=GROUP)
            until(lambda: telegram.updates.confirmed > last["update_id"])
            until(lambda: telegram.texts[-1:] == ["re end"])
            logs = first.text + second.text
    expected = [f"re {letter}{number}" for letter in "ab" for number in range(5)]
    assert telegram.texts == [*expected, "re end"]
    assert telegram.token.partition(":")[2] not in logs


def test_while_the_broker_is_away_a_webhook_is_not_answered_with_200_and_afterwards_each_update_once(
    tmp_path: Path, telegram: TelegramServer
) -> None:
    here = root(tmp_path / "bot", telegram, "webhook", 'secret_token = "s3cret"')
    with servers.valkey(tmp_path / "valkey") as broker:
        url, port = broker.url, broker.port
        running = gateway(here, url)
        with worker(here, url):
            site = running.__enter__()
            telegram.updates.setwebhook({"url": f"{site.url}/telegram/main", "secret_token": "s3cret"}, None)
            telegram.say("before", chat=GROUP)
            until(lambda: telegram.texts == ["re before"], timeout=20)
    try:
        hook = telegram.updates.webhook
        assert hook is not None
        telegram.say("during", chat=GROUP)
        until(lambda: 503 in hook.statuses, timeout=20)
        with servers.valkey(tmp_path / "valkey", port=port), worker(here, url):
            until(lambda: len(telegram.sent) == 2, timeout=30)
            telegram.say("after", chat=GROUP)
            until(lambda: len(telegram.sent) == 3, timeout=20)
            assert telegram.texts == ["re before", "re during", "re after"]
            assert hook.statuses.count(200) == 3
    finally:
        running.__exit__(None, None, None)
