"""Workers of isolated plugins for tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from lumia.isolation import queue_of
from lumia.paths import ISOLATED_WORKER
from tests.support.workers import Celery, worker


@contextmanager
def isolated(root: Path, url: str, plugin: str) -> Iterator[Celery]:
    """Run the worker of an isolated plugin, as `lumia isolated PLUGIN` does, and wait until it is ready."""
    name = f"plugin-{plugin}"
    with (
        patch.dict(os.environ, {ISOLATED_WORKER: plugin}),
        worker(root, url, "-Q", queue_of(plugin), name=name) as running,
    ):
        yield running
