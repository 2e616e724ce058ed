"""The Redis in the test's own process."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from redis import Redis

from lumia.errors import LumiaError
from lumia.testing import fake_redis


def test_a_fake_redis_answers_on_its_url_and_runs_scripts() -> None:
    with fake_redis() as url, Redis.from_url(url, decode_responses=True) as redis:
        redis.set("k", "v")
        assert redis.get("k") == "v"
        assert redis.eval("return {KEYS[1], redis.call('GET', KEYS[1])}", 1, "k") == ["k", "v"]


def test_each_fake_redis_is_empty_and_gone_afterwards() -> None:
    with fake_redis() as first, Redis.from_url(first) as redis:
        redis.set("k", "v")
    with fake_redis() as second, Redis.from_url(second) as redis:
        assert redis.dbsize() == 0
    assert first != second or redis is not None


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "fakeredis":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(LumiaError, match=r"pip install 'fakeredis\[lua\]'"), fake_redis():
        raise AssertionError
