"""What the tests of models share: the server, and a ledger like the one of a step."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lumia.models import bridge
from tests.peers.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server of its own for each test."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture(scope="package", autouse=True)
def _end_of_clients() -> Iterator[None]:
    yield
    bridge.close()


class Ledger:
    """Records effects as JSON text and gives them back on the next attempt, as `lumia.effect` does in a step."""

    def __init__(self) -> None:
        self.records: dict[str, str] = {}
        self.calls: list[tuple[str, str, str]] = []

    def __call__(
        self, key: str, call: Callable[..., Any], *args: Any, policy: str = "retry", kind: str = "call", **kwargs: Any
    ) -> Any:
        self.calls.append((key, policy, kind))
        if inspect.iscoroutinefunction(call):
            return self._later(key, call, *args, **kwargs)
        if key not in self.records:
            self.records[key] = json.dumps(call(*args, **kwargs))
        return json.loads(self.records[key])

    async def _later(self, key: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if key not in self.records:
            self.records[key] = json.dumps(await call(*args, **kwargs))
        await asyncio.sleep(0)
        return json.loads(self.records[key])


@pytest.fixture
def ledger() -> Ledger:
    """An empty ledger."""
    return Ledger()
