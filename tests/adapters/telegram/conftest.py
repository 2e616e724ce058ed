"""The Bot API server of each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.telegram import TelegramServer


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as server:
        yield server
