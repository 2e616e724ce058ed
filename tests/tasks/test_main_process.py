"""The main process of a prefork pool while deployments come: it loads them for the children it will fork."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from lumia import loading, quarantine
from lumia.deployment import Wanted
from lumia.errors import PluginLoadError
from lumia.inmemory import InMemoryTransport
from lumia.loading import Mark
from lumia.opening import open_bot
from lumia.pkg import sealing
from lumia.plugin import PluginFailure
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


def test_a_worker_is_replaced_once_the_plugin_it_had_to_leave_out_is_released(
    bot: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bot.root / loading.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    loading.amend(Mark("dice", "1", "import", 7, time.time(), file=folder / "dice.7-x-1.json"))
    assert bot.plugins is not None
    bot.plugins.failures.append(PluginFailure("dice", quarantine.STAGE, "plugins/dice", None, "quarantined"))
    worker = LumiaWorker(cast("Any", None))
    worker._bot, worker._consumer = bot, object()
    worker._note_ailing()
    ended: list[int] = []
    monkeypatch.setattr("tasks.worker.os.kill", lambda pid, number: ended.append(number))
    worker._leave_if_repaired()
    assert ended == []
    quarantine.release(bot.root, "dice")
    worker._leave_if_repaired()
    worker._leave_if_repaired()
    assert ended == [signal.SIGTERM]
