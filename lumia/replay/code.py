"""Today's code, loaded from a bot root's files and connected to nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from lumia.opening import open_bot
from lumia.ports import Limits, Transport
from lumia.replay.guard import alone
from lumia.replay.stage import StageTransport
from lumia.routes import RouteTable
from lumia.runtime import Runtime


@contextmanager
def todays_code(root: Path | None = None, *, on_load: bool = False) -> Iterator[tuple[Runtime, RouteTable]]:
    """Load every plugin of a bot root; yields the bot and its routes.

    Plugins that provide services are started, for others ask for them; with `on_load` all are. Nothing they do there
    reaches outside. A plugin that therefore fails keeps its handlers; the failure is in `plugins.failures`.
    """
    nobody = StageTransport(Limits(), RouteTable(0, (), (), {}))
    bot = open_bot(root, load="all", transport=cast(Transport, nobody), start=False)
    try:
        assert bot.plugins is not None
        table = bot.install(bot.plugins)
        _start(bot, on_load=on_load)
        yield bot, table
    finally:
        bot.close()


def _start(bot: Runtime, *, on_load: bool) -> None:
    plugins = bot.plugins
    assert plugins is not None
    idle = [name for name, plugin in plugins.plugins.items() if not (on_load or plugin.manifest.provides)]
    plugins.started.update(dict.fromkeys(idle, os.getpid()))
    with alone(), bot.activated():
        plugins.start()
    for name in idle:
        plugins.started.pop(name, None)
