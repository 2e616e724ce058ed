"""The ingress benchmark's load program, against a real gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bench.ingress.load import Job, play
from tests.support.gateway import WEBHOOK, Served, served

TOKEN, SECRET = "t0ken-of-the-bench", "s3cret-of-the-bench"


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    config = {"webhook": {"sources": {"bearer": {"token": TOKEN}, "hmac": {"secret": SECRET}}}}
    with served(WEBHOOK, config=config, workers=0) as running:
        yield running


@pytest.mark.parametrize("auth, key, rate", [("bearer", TOKEN, 0.0), ("hmac", SECRET, 0.0), ("bearer", TOKEN, 40.0)])
def test_every_post_is_accepted_and_counted(site: Served, auth: str, key: str, rate: float) -> None:
    job = Job([site.port], f"/webhook/{auth}", 4, 0.5, rate, auth, key, chats=1000 + int(rate))
    found = asyncio.run(play(job))
    assert found["answers"] == {"202": found["sent"]} and len(found["ms"]) == found["sent"] > 0
    if rate:
        assert found["sent"] == 20


def test_a_wrong_key_is_counted_as_refused(site: Served) -> None:
    job = Job([site.port], "/webhook/hmac", 2, 0.1, 0.0, "hmac", "wrong", chats=5)
    found = asyncio.run(play(job))
    assert set(found["answers"]) == {"401"}
