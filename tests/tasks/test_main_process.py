"""The main process of a prefork pool while deployments come: it loads them for the children it will fork."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from lumia.deployment import Wanted
from lumia.errors import PluginLoadError
from lumia.inmemory import InMemoryTransport
from lumia.opening import open_bot
from lumia.pkg import sealing
from lumia.runtime import Runtime
from lumia.secrets import load_secret
from tasks.worker import LumiaWorker
from tests.support.workers import bot_root


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[Runtime]:
    opened = open_bot(bot_root(tmp_path / "bot"), transport=InMemoryTransport(), load="all")
    yield opened
    opened.close()


def test_a_deployment_that_could_not_be_loaded_is_not_claimed_and_tried_again(
    bot: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = LumiaWorker(cast("Any", None))
    worker._bot = bot
    monkeypatch.setattr(worker, "_switched", lambda changed: None)
    assert bot.transport.deployments().begin(sealing.sealed(Wanted({}), load_secret(bot.root)), 60) == 1

    def clash(root: Path) -> None:
        raise PluginLoadError("a library is imported in another version")

    with monkeypatch.context() as patched:
        patched.setattr("lumia.opening.use_layer", clash)
        worker._follow_in_main(cast("Any", bot.transport))
        worker._follow_in_main(cast("Any", bot.transport))
    assert worker._deployment == 0 and caplog.text.count("children of this process begin with the plugins before") == 1
    monkeypatch.setattr("tasks.worker.BEHIND_SECONDS", 0.0)
    worker._behind = (1, 0.0)
    worker._follow_in_main(cast("Any", bot.transport))
    assert worker._deployment == 1
