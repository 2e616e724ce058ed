"""Files of messages: each fetched once, none in its message's way, and all of it seen in the trace."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

import lumia
from lumia import adapters, revival
from lumia.blobs import Blobs
from lumia.errors import BackendUnavailableError, PayloadError, RejectedError, RetryAfterError, UnreachableError
from lumia.media import Place, receiving
from lumia.testing import Bot, ManualClock
from tests.lumia.replay.scripted import replayed, trees
from tests.support.outside import PNG, Behaviour, Peer, giving, head, peer

ITEM = {"kind": "image", "ref": "f1", "name": "cat.png"}
seen: list[tuple[dict[str, Any], dict[str, Any]]] = []
"""Messages that went on, with their meta."""
places: dict[str, Any] = {}
"""What `locate` says about a file's ref; an exception is raised."""
asked: list[str] = []


def locate(item: dict[str, Any], msg: dict[str, Any]) -> Any:
    asked.append(item["ref"])
    found = places[item["ref"]]
    if isinstance(found, list):
        found = found.pop(0)
    if isinstance(found, BaseException):
        raise found
    return found


@lumia.event.consumer("msg.media.toy", retry=lumia.media.RETRY)
def fetch_media(content: lumia.Box[Any]) -> None:
    lumia.media.receive(content, locate)


@lumia.pipe.on("msg")
def hear(content: lumia.Box[Any]) -> None:
    seen.append((content.into(), dict(content.meta)))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    seen.clear()
    places.clear()
    asked.clear()
    monkeypatch.setattr(receiving, "PAUSE", 0.0)


@contextmanager
def toy(**config: Any) -> Iterator[Bot]:
    values = {name.replace("__", "."): value for name, value in config.items()}
    with Bot(fetch_media, hear, clock=ManualClock(), config={"lumia": values}) as bot:
        yield bot


def msg(*media: dict[str, Any], number: int = 1, **fields: Any) -> dict[str, Any]:
    return lumia.payloads.message(
        platform="toy", account="main", chat={"kind": "group", "id": "7"}, sender={"id": "5"}, text="look",
        message_id=f"m{number}", media=list(media), **fields,
    )  # fmt: skip


def said(bot: Bot, *media: dict[str, Any], number: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """Accept a message and return what its files became."""
    adapters.accept("toy", msg(*media, number=number, **fields))
    bot.settle()
    return list(seen[-1][0]["media"])


def at(server: Peer, path: str = "/file", **more: Any) -> Place:
    return Place(server.url(path), allowed_hosts=(f"127.0.0.1:{server.port}",), **more)


def effects(run_id: str) -> list[tuple[str, str, str]]:
    entries = lumia.runtime.current().transport.history().entries(run_id)
    return [(one.detail["effect"], one.outcome, one.reason) for one in entries if one.kind == "effect"]


def test_a_file_is_there_before_its_message_goes_on() -> None:
    with toy() as bot, peer(giving(PNG, "application/octet-stream")) as server:
        places["f1"] = at(server, headers={"Authorization": "Bearer t"})
        run_id = adapters.accept("toy", msg(ITEM, thread="t1", number=3))
        bot.settle()
        content, meta = seen[0]
        (item,) = content["media"]
        assert lumia.blobs.get(item["blob"]) == PNG
        assert {name: item[name] for name in ("kind", "ref", "name", "size", "media_type")} == {
            **ITEM, "size": len(PNG), "media_type": "image/png",
        }  # fmt: skip
        assert lumia.payloads.validate("msg", content) == content
        assert meta == {"account": "main", "chat": {"kind": "group", "id": "7"}, "thread": "t1"}
        assert (content["text"], content["message_id"]) == ("look", "m3")
        assert effects(run_id) == [("media 0", "done", "")]
        assert b"Authorization: Bearer t\r\n" in server.seen[0]


def test_the_same_message_again_is_one_run_and_one_file() -> None:
    with toy() as bot, peer(giving(PNG)) as server:
        places["f1"] = at(server)
        first = adapters.accept("toy", msg(ITEM))
        bot.settle()
        assert adapters.accept("toy", msg(ITEM)) == first
        bot.settle()
        assert len(seen) == len(server.seen) == 1


def test_a_file_that_is_sent_again_is_not_fetched_again_while_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with toy() as bot, peer(giving(PNG)) as server:
        places["f1"] = at(server)
        first = said(bot, ITEM, dict(ITEM, name="again.png"))
        second = said(bot, ITEM, number=2)
        assert first[0]["blob"] == first[1]["blob"] == second[0]["blob"]
        assert asked == ["f1"] and len(server.seen) == 1
        blobs = bot.runtime.blobs
        assert blobs is not None
        os.unlink(blobs.path(first[0]["blob"]["digest"]))
        said(bot, ITEM, number=3)
        assert len(server.seen) == 2
        bot.clock.move(90_000) if isinstance(bot.clock, ManualClock) else None
        said(bot, ITEM, number=4)
        assert len(server.seen) == 3


def test_the_file_of_one_account_is_not_that_of_another() -> None:
    with toy() as bot, peer(giving(PNG)) as server:
        places["f1"] = at(server)
        said(bot, ITEM)
        other = {**msg(ITEM), "account": "second"}
        adapters.accept("toy", other)
        bot.settle()
        assert len(server.seen) == 2


def test_messages_of_a_group_keep_their_order_whatever_their_files_take() -> None:
    with toy() as bot, peer(giving(PNG)) as server:
        places["f1"] = at(server)
        for number, media in enumerate([(), (ITEM,), (), (dict(ITEM, ref="gone"),), ()]):
            adapters.accept("toy", msg(*media, number=number))
        bot.settle()
        assert [content["message_id"] for content, _ in seen] == ["m0", "m1", "m2", "m3", "m4"]
        assert seen[3][0]["media"][0]["error"] == "where it is can't be told: KeyError"


# --- what can't be had


def broken(status: str) -> Behaviour:
    return lambda _, line, request: line.sendall(head(status, Content_Length=0))


def test_a_file_whose_adapter_said_why_there_is_none_is_not_looked_for() -> None:
    with toy() as bot:
        places["f1"] = PNG
        adapters.accept("toy", msg(ITEM, {"kind": "file", "error": "it is on the server's own disk"}))
        bot.settle()
        one, two = seen[0][0]["media"]
        assert "blob" in one and two == {"kind": "file", "error": "it is on the server's own disk"}
        assert asked == ["f1"]


@pytest.mark.parametrize(
    "status, tries, error",
    [
        ("404 Not Found", 1, "127.0.0.1 answered 404 Not Found"),
        ("503 Service Unavailable", 2, "127.0.0.1 answered 503"),
    ],
)
def test_a_file_that_can_t_be_had_is_noted_and_the_message_goes_on(status: str, tries: int, error: str) -> None:
    with toy() as bot, peer(broken(status)) as server:
        places["f1"] = at(server)
        (item,) = said(bot, ITEM)
        assert item["error"].startswith(error) and "blob" not in item
        assert len(server.seen) == tries
        assert bot.dead == []
        assert lumia.payloads.validate("msg", seen[0][0])


def test_passing_trouble_gets_a_second_try_and_the_trace_shows_both() -> None:
    def first_bad(peer: Peer, line: Any, request: bytes) -> None:
        (broken("502 Bad Gateway") if len(peer.seen) == 1 else giving(PNG))(peer, line, request)

    with toy() as bot, peer(first_bad) as server:
        places["f1"] = at(server)
        run_id = adapters.accept("toy", msg(ITEM))
        bot.settle()
        assert "error" not in seen[0][0]["media"][0]
        assert effects(run_id) == [
            ("media 0", "failed", "TransientMediaError: 127.0.0.1 answered 502 Bad Gateway"),
            ("media 0, again", "done", ""),
        ]


@pytest.mark.parametrize(
    "raised, tries, error",
    [
        (RejectedError("the platform says: file is too big"), 1, "the platform says: file is too big"),
        (UnreachableError("the platform can't be reached"), 2, "the platform can't be reached"),
        (RetryAfterError("slower", 3.0), 2, "slower"),
        (httpx.ConnectError("https://api.example/botSECRET/getFile"), 2, "where it is can't be told: ConnectError"),
        (KeyError("https://api.example/botSECRET/getFile"), 1, "where it is can't be told: KeyError"),
        (None, 1, "where it is can't be told: locate returned a NoneType"),
    ],
)
def test_whatever_locating_comes_to_the_message_goes_on(
    raised: Any, tries: int, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with toy() as bot:
        places["f1"] = raised
        (item,) = said(bot, ITEM)
        assert item["error"] == error and len(asked) == tries
        journal = "".join(entry.dump() for entry in lumia.runs.tail("0"))
        assert "SECRET" not in journal + caplog.text


def test_a_store_that_is_away_fails_the_step_not_the_file() -> None:
    with toy() as bot:
        places["f1"] = [BackendUnavailableError("away"), PNG]
        adapters.accept("toy", msg(ITEM))
        bot.settle(30)
        assert lumia.blobs.get(seen[0][0]["media"][0]["blob"]) == PNG


def test_bytes_are_taken_by_the_same_rules() -> None:
    with toy(media__max_bytes=1024) as bot:
        places.update(f1=PNG, big=b"x" * 2000, page=b"<html>")
        one, two, three = said(bot, ITEM, dict(ITEM, ref="big"), dict(ITEM, ref="page"))
        assert one["media_type"] == "image/png"
        assert two["error"] == "it has more than 1024 bytes, and at most 1024 bytes are fetched ([media] max_bytes)"
        assert three["error"] == "it is text/html, and image/* was expected"


def test_a_file_that_says_it_is_too_large_is_not_asked_for() -> None:
    with toy() as bot:
        (item,) = said(bot, dict(ITEM, size=50_000_000))
        assert item["error"].startswith("it has 50.0 MB, and at most 21.0 MB are fetched")
        assert asked == []


def test_the_number_of_files_is_limited() -> None:
    with toy(media__max_files=2) as bot:
        places.update({f"f{n}": PNG for n in range(4)})
        items = said(bot, *({"kind": "image", "ref": f"f{n}"} for n in range(4)))
        assert ["blob" in item for item in items] == [True, True, False, False]
        assert items[3]["error"] == "not fetched: only 2 files of a message are ([media] max_files)"


@pytest.mark.parametrize("limit", [{"media__seconds": 1}, {"worker__step_timeout": 1.5}], ids=["setting", "step"])
def test_the_time_for_all_files_is_limited(limit: dict[str, Any]) -> None:
    def silent(peer: Peer, line: Any, request: bytes) -> None:
        peer.ended.wait(10)

    began = time.monotonic()
    with toy(**limit) as bot, peer(silent) as server:
        places.update(f1=at(server), f2=at(server), f3=PNG)
        items = said(bot, *({"kind": "image", "ref": f"f{n}"} for n in (1, 2, 3)))
        assert "has not sent everything within" in items[0]["error"]
        assert "error" in items[1] and "blob" in items[2], "the first file leaves time for the others"
        assert time.monotonic() - began < 3


def test_a_full_disk_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    with toy() as bot:
        places["f1"] = PNG
        bot.runtime.blobs = Blobs(bot.runtime.root / "blobs", min_free=1 << 60)
        (item,) = said(bot, ITEM)
        assert "make room" in item["error"]


# --- what is done twice, and replayed


def test_a_step_that_is_tried_again_fetches_nothing_again() -> None:
    failures = [ConnectionResetError("the worker was lost")]

    @lumia.event.consumer("msg.media.toy", retry=3)
    def fetch_then_fail(content: lumia.Box[Any]) -> None:
        lumia.media.receive(content, locate)
        if failures:
            raise failures.pop()

    with Bot(fetch_then_fail, hear, clock=ManualClock()) as bot, peer(giving(PNG)) as server:
        places["f1"] = at(server)
        adapters.accept("toy", msg(ITEM))
        bot.settle(30)
        assert len(seen) == len(server.seen) == 1


def test_a_replay_asks_nobody() -> None:
    with toy(media__max_files=3) as bot:
        with peer(giving(PNG)) as server:
            places.update(f1=at(server), f2=at(server, "/404"), f3=[UnreachableError("away"), at(server)], f4=PNG)
            adapters.accept("toy", msg(*({"kind": "image", "ref": f"f{n}"} for n in (1, 2, 3, 4))))
            adapters.accept("toy", msg({"kind": "image", "ref": "f1"}, number=2))
            bot.settle()
        asked.clear()
        found = replayed(trees(bot), bot)
        assert [(one.id, one.differences, one.skipped) for one in found] == [("msg.media.toy", [], "")] * 2
        assert sum(one.steps for one in found) == 4
        assert asked == []


def test_a_dead_letter_of_the_pipeline_is_retried_with_its_files() -> None:
    failures = [PayloadError("no")]

    @lumia.pipe.on("msg")
    def hear_late(content: lumia.Box[Any]) -> None:
        if failures:
            raise failures.pop()
        seen.append((content.into(), {}))

    with Bot(fetch_media, hear_late, clock=ManualClock()) as bot, peer(giving(PNG)) as server:
        places["f1"] = at(server)
        adapters.accept("toy", msg(ITEM))
        bot.settle(60)
        revival.retry(bot.runtime, bot.dead[0])
        bot.settle()
        assert len(server.seen) == 1 and seen[0][0]["media"][0]["blob"]


def test_what_has_its_blob_goes_straight_on() -> None:
    with toy() as bot:
        ref = lumia.blobs.put(PNG, "image/png").as_dict()
        run_id = adapters.accept("toy", msg({"kind": "image", "blob": ref}))
        bot.settle()
        record = bot.transport.run(run_id)
        assert record is not None and record.id == "msg" and asked == []
