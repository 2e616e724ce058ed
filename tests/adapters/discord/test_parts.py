"""The small parts: settings, close codes, rate limits, the stream's frames."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.discord import accounts, asking, closing
from adapters.discord.limits import Limits, Route
from adapters.discord.wire import MOST_SENT, RESERVED, SENT_WINDOW, Wire
from lumia.adapters import ClosedError
from lumia.testing import Bot, ManualClock
from tests.adapters.discord.conftest import DISCORD
from tests.peers.discord import TOKEN


class TestSettings:
    @pytest.mark.parametrize(
        "entry, told",
        [
            ({}, "neither token nor public_key"),
            ({"token_env": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE"),
            ({"token": "with space"}, "paste the token again"),
            ({"token": TOKEN, "public_key": "abc"}, "64 hex digits"),
            ({"public_key": "0" * 64}, "application_id"),
            ({"token": TOKEN, "owner": "ada#1"}, "owner"),
            ({"token": TOKEN, "presence": "x" * 129}, "128"),
            ({"token": TOKEN, "api_url": "ftp://x"}, "api_url"),
            ({"token": TOKEN, "gateway_url": "https://x"}, "gateway_url"),
        ],
    )
    def test_what_is_wrong_is_named_with_its_place_and_the_others_go_on(self, entry: dict[str, Any], told: str) -> None:
        config = {"discord": {"accounts": {"bad": entry, "good": {"token": TOKEN}}}}
        with Bot(DISCORD, config=config):
            (problem,) = accounts.problems()
            assert problem.message.startswith("config/discord.toml: [accounts.bad]")
            assert told in f"{problem.message} {problem.fix}"
            assert [account.name for account in accounts.every()] == ["good"]
            assert asking.findings()[0].level == "fail"
            assert TOKEN not in repr(accounts.every())

    def test_a_token_may_be_in_the_environment_and_pasted_with_its_prefix(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BOT_TOKEN", f" Bot {TOKEN}\n")
        with Bot(DISCORD, config={"discord": {"accounts": {"main": {"token_env": "BOT_TOKEN"}}}}):
            account = accounts.find("main")
            assert account is not None
            assert (account.token, account.authorization) == (TOKEN, f"Bot {TOKEN}")
            assert accounts.find("other") is None
            assert accounts.default_name() == "main"


@pytest.mark.parametrize(
    "codes, step",
    [
        ((4004, 4010, 4011, 4012, 4013, 4014), closing.REFUSED),
        ((4007, 4009), closing.IDENTIFY),
        ((None, 1000, 1001, 1006, 4000, 4001, 4002, 4003, 4005, 4008, 4999), closing.RESUME),
    ],
)
def test_every_close_code_says_how_to_go_on(codes: tuple[int | None, ...], step: str) -> None:
    assert {closing.after(code, "why").step for code in codes} == {step}
    assert closing.OURS not in (1000, 1001)


class TestLimits:
    ROUTE = Route("POST /channels/{id}/messages", "channels/1")

    @staticmethod
    def headers(remaining: int, after: float, bucket: str = "b") -> dict[str, str]:
        return {
            "x-ratelimit-bucket": bucket, "x-ratelimit-remaining": str(remaining),
            "x-ratelimit-reset-after": str(after),
        }  # fmt: skip

    def test_a_bucket_is_shared_by_its_routes_and_apart_per_channel(self) -> None:
        clock = ManualClock()
        with Bot(clock=clock):
            limits, other = Limits(), Route("PATCH /channels/{id}/messages/{id}", "channels/1")
            assert limits.take(self.ROUTE) == 0
            limits.learn(other, 200, self.headers(1, 2.0))
            limits.learn(self.ROUTE, 200, self.headers(1, 2.0))
            assert limits.take(self.ROUTE) == 0
            assert limits.take(other) == pytest.approx(2.0)
            assert limits.take(Route(self.ROUTE.template, "channels/2")) == 0
            clock.move(2.0)
            assert limits.take(other) == 0

    def test_interactions_are_free_of_the_global_limit_and_shared_ones_are_no_offence(self) -> None:
        with Bot(clock=ManualClock()):
            limits = Limits()
            limits.hold(self.ROUTE, 3.0, everything=True)
            assert limits.take(Route("GET /users/@me")) == pytest.approx(3.0)
            assert limits.take(Route("PATCH /webhooks", free=True)) == 0
            limits.learn(self.ROUTE, 429, {"x-ratelimit-scope": "shared"})
            limits.learn(self.ROUTE, 429, {"x-ratelimit-scope": "user"})
            assert limits.invalid == 1

    @given(st.text(max_size=8), st.text(max_size=8))
    def test_headers_of_any_kind_break_nothing(self, remaining: str, after: str) -> None:
        with_nonsense = {"x-ratelimit-remaining": remaining, "x-ratelimit-reset-after": after}
        limits = Limits()
        limits.learn(self.ROUTE, 200, with_nonsense)
        assert limits.take(self.ROUTE) >= 0


class Frames:
    """A socket that gives what it was told to."""

    def __init__(self, *frames: str | bytes) -> None:
        self.frames = list(frames)

    async def recv(self) -> str | bytes:
        return self.frames.pop(0)


def read(*frames: str | bytes, compress: bool = True) -> dict[str, Any]:
    return asyncio.run(Wire(Frames(*frames), compress=compress).receive())  # type: ignore[arg-type]


class Sink:
    """A socket that takes everything."""

    def __init__(self) -> None:
        self.ops: list[int] = []

    async def send(self, text: str) -> None:
        self.ops.append(json.loads(text)["op"])


def test_no_more_is_sent_than_discord_takes_and_heartbeats_always_find_room() -> None:
    clock, socket = ManualClock(), Sink()

    async def scene() -> None:
        wire = Wire(socket, compress=False)  # type: ignore[arg-type]
        for _ in range(MOST_SENT - RESERVED):
            await wire.send(3, {})
        one_more = asyncio.create_task(wire.send(3, {}))
        for _ in range(RESERVED):
            await wire.send(1, None)
        assert not one_more.done()
        one_more.cancel()
        clock.move(SENT_WINDOW)
        await wire.send(3, {})

    with Bot(clock=clock):
        asyncio.run(scene())
    assert len(socket.ops) == MOST_SENT + 1


class TestFrames:
    @given(st.dictionaries(st.text(), st.text()), st.integers(1, 60))
    def test_a_compressed_payload_is_read_however_it_is_cut(self, data: dict[str, str], size: int) -> None:
        packer = zlib.compressobj()
        packed = packer.compress(json.dumps({"op": 0, "d": data}).encode()) + packer.flush(zlib.Z_SYNC_FLUSH)
        frames = [packed[at : at + size] for at in range(0, len(packed), size)]
        assert read(*frames) == {"op": 0, "d": data}

    @given(st.one_of(st.text(), st.binary().map(lambda data: data + b"\x00\x00\xff\xff")))
    def test_what_is_no_payload_ends_the_connection_and_nothing_else(self, frame: str | bytes) -> None:
        with pytest.raises(ClosedError):
            read(frame, frame, frame)

    def test_a_stream_that_grows_without_end_is_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("adapters.discord.wire.MOST_BYTES", 1000)
        packer = zlib.compressobj()
        bomb = packer.compress(b" " * 100_000) + packer.flush(zlib.Z_SYNC_FLUSH)
        with pytest.raises(ClosedError):
            read(bomb)
