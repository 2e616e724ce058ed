"""What the operator is told of plugins that processes didn't survive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lumia import loading
from lumia.discovery import discover, generation
from lumia.loading import IMPORT, Mark, amend
from tasks.supervise.check_loading import check_loading

BASE = Path(__file__).resolve().parents[3]


def test_a_plugin_that_comes_with_lumia_is_turned_off_since_it_can_not_be_removed(tmp_path: Path) -> None:
    webhook = next(plugin for plugin in discover(BASE, tmp_path) if plugin.name == "webhook")
    folder = tmp_path / loading.FOLDER
    folder.mkdir(parents=True)
    ended: Any = {
        "doing": IMPORT,
        "process": 7,
        "since": time.time(),
        "boot": loading.boot(),
        "ended": "ended with SIGKILL",
    }
    amend(Mark("webhook", generation("0.2.0", webhook.folder), file=folder / "webhook.7-x-0.json", **ended))
    (finding,) = check_loading(BASE, tmp_path)
    assert "plugin webhook: 1 process ended during its import" in finding.message
    assert "`pkg disable webhook`" in str(finding.fix)
