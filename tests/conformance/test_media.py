"""Messages with files, on every transport: fetched once, in their place in the lane, and seen in the trace."""

from __future__ import annotations

import socket
import threading
from typing import Any

import lumia
from lumia.lookup import Lookup
from tests.conformance.conftest import Probe
from tests.support.outside import PNG, Peer, giving, head, peer
from tests.support.wait import until


def msg(bot: Probe, number: int, *urls: str) -> dict[str, Any]:
    media = [{"kind": "image", "url": url, "ref": f"{bot.scope} {url}"} for url in urls]
    return lumia.payloads.message(
        platform="probe", account="main", chat={"kind": "group", "id": bot.scope}, sender={"id": "5"}, text="look",
        message_id=f"m{number}", media=media,
    )  # fmt: skip


def test_a_message_keeps_its_place_while_its_file_is_fetched_once(bot: Probe) -> None:
    fetched = threading.Event()

    def slow(peer: Peer, line: socket.socket, request: bytes) -> None:
        assert fetched.wait(10)
        giving(PNG)(peer, line, request)

    with peer(slow) as server:
        runs = [lumia.adapters.accept("probe", msg(bot, n, *[server.url()] * (n in (1, 3)))) for n in range(4)]
        assert lumia.adapters.accept("probe", msg(bot, 1, server.url())) == runs[1]
        until(lambda: server.seen)
        assert [row[0] for row in bot.seen] == ["m0"]
        fetched.set()
        bot.wait(runs[3])
    until(lambda: len(bot.seen) == 4)
    digests = [row[1] for row in bot.seen]
    assert [row[0] for row in bot.seen] == ["m0", "m1", "m2", "m3"]
    assert lumia.blobs.get(digests[1][0]) == PNG and digests[1] == digests[3]
    assert len(server.seen) == 1
    assert {row[2] for row in bot.seen} == {"main"}


def test_a_file_that_can_t_be_had_is_told_in_the_message_and_in_the_trace(bot: Probe) -> None:
    with peer(lambda _, line, request: line.sendall(head("404 Not Found", Content_Length=0))) as server:
        run = lumia.adapters.accept("probe", msg(bot, 1, server.url()))
        bot.wait(run)
        until(lambda: bot.seen)
    assert bot.seen == [["m1", ["127.0.0.1 answered 404 Not Found"], "main"]]
    effects = [entry for entry in bot.journal(run) if entry.kind == "effect"]
    assert [(entry.detail["effect"], entry.detail["kind"], entry.outcome, entry.reason) for entry in effects] == [
        ("media 0", "http", "failed", "MediaError: 127.0.0.1 answered 404 Not Found")
    ]
    lookup = Lookup(bot.runtime.transport.history(), bot.runtime.transport)
    assert lookup.trace(lookup.one(run)).run.id == "msg.media.probe"
