"""A version of a plugin that processes don't survive is left out, so that the bot starts (DESIGN §1.5)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lumia import loading, quarantine
from lumia.discovery import generation
from lumia.loader import Loader
from lumia.loading import IMPORT, ON_LOAD, Mark, amend, marks
from lumia.quarantine import HUNG, WITHIN, Guard, QuarantinedError, Suspect, release, suspects
from tests.support.plugins import PluginBot


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[PluginBot]:
    with PluginBot(tmp_path) as made:
        yield made


def lose(root: Path, count: int, plugin: str = "dice", version: str = "1", **more: Any) -> None:
    """Leave what so many processes leave that end while they load a plugin."""
    folder = root / loading.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(len(list(folder.iterdir())), len(list(folder.iterdir())) + count):
        values = {"doing": IMPORT, "process": 7, "since": time.time(), "boot": loading.boot(), **more}
        amend(Mark(plugin, version, file=folder / f"{plugin}.7-x-{number}.json", **values))


def stays_out(root: Path, version: str = "1") -> bool:
    try:
        Guard(root).check("dice", version)
    except QuarantinedError:
        return True
    return False


def test_a_version_stays_out_after_three_losses_until_it_is_released(tmp_path: Path) -> None:
    lose(tmp_path, 2)
    assert not stays_out(tmp_path)
    lose(tmp_path, 1)
    assert stays_out(tmp_path)
    assert not stays_out(tmp_path, "2")
    with pytest.raises(QuarantinedError, match=r"3 processes ended during its import.*lumia plugins release dice"):
        Guard(tmp_path).check("dice", "1")
    assert release(tmp_path, "dice") == 3
    assert not stays_out(tmp_path)


def test_it_is_told_that_processes_were_killed_maybe_for_want_of_memory(tmp_path: Path) -> None:
    lose(tmp_path, 1, doing=ON_LOAD, ended="ended with exit code 1")
    lose(tmp_path, 2, doing=ON_LOAD, ended="ended with SIGKILL")
    with pytest.raises(
        QuarantinedError,
        match=r"3 processes .* on_load.*\(2 killed by signal 9, SIGKILL: .*want of memory.*release dice",
    ):
        Guard(tmp_path).check("dice", "1")
    assert "signal 9" not in str(Suspect("dice", "1", tuple(marks(tmp_path)[:1])))


def test_where_nobody_saw_the_end_it_may_have_been_that_as_well(tmp_path: Path) -> None:
    lose(tmp_path, 3, doing=ON_LOAD)
    with pytest.raises(QuarantinedError, match=r"nobody saw how 3 ended, maybe by signal 9, SIGKILL.*release dice"):
        Guard(tmp_path).check("dice", "1")


def test_losses_of_different_days_are_no_pattern_and_are_forgotten(tmp_path: Path) -> None:
    for days in range(4):
        lose(tmp_path, 1, since=time.time() - days * 86400)
    assert not stays_out(tmp_path)
    assert len(marks(tmp_path)) == 1


def test_what_is_quarantined_stays_so_however_long_ago_that_was(tmp_path: Path) -> None:
    lose(tmp_path, 3, since=time.time() - 100 * WITHIN)
    assert stays_out(tmp_path)


def test_two_imports_that_took_too_long_are_enough(tmp_path: Path) -> None:
    lose(tmp_path, 1, hung=True)
    assert not stays_out(tmp_path)
    lose(tmp_path, 1, hung=True)
    assert stays_out(tmp_path)


def test_the_end_of_the_machine_is_nobodys_crime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(tmp_path, 3, boot="an earlier start")
    assert not stays_out(tmp_path)
    assert marks(tmp_path) == []
    lose(tmp_path, 3, boot="this start")
    monkeypatch.setattr(quarantine, "boot", lambda: "this start")
    assert stays_out(tmp_path)
    monkeypatch.setattr(quarantine, "boot", lambda: "the next start")
    assert stays_out(tmp_path), "it was known before the machine went down"


def loader(bot: PluginBot) -> Loader:
    return Loader(
        bot.base, bot.root, config=bot.config, services=bot.services, core_version="0.2.0", guard=Guard(bot.root)
    )


def test_a_quarantined_plugin_is_not_imported_and_its_dependents_say_why_they_are_missing(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/dice", "import os\nos._exit(9)\n")
    bot.plugin("plugins/game", dependencies={"dice": ""})
    bot.plugin("plugins/good")
    lose(bot.root, 3, version=generation("0.0.0", folder))
    loaded = loader(bot).load()
    assert sorted(loaded.plugins) == ["good"]
    stages = {failure.name: failure.stage for failure in loaded.failures}
    assert stages == {"dice": quarantine.STAGE, "game": "resolve"}
    assert all("3 processes ended during its import" in failure.message for failure in loaded.failures)
    assert [one.quarantined for one in suspects(bot.base, bot.root)] == [True]
    (folder / "plugin.py").write_text("ON = 1\n")
    assert suspects(bot.base, bot.root) == []
    assert sorted(loader(bot).load().plugins) == ["dice", "game", "good"]


def test_a_child_that_was_forked_before_does_not_run_on_load_of_what_ended_the_others(bot: PluginBot) -> None:
    bot.plugin("plugins/dice", "LOADS = []\ndef on_load():\n    LOADS.append(1)\n")
    loaded = loader(bot).load(on_load=False)
    dice = loaded.plugins["dice"]
    lose(bot.root, 3, version=dice.generation, doing=ON_LOAD)
    loaded.start()
    assert dice.module.LOADS == []
    assert [failure.stage for failure in loaded.failures] == [quarantine.STAGE]


HANGING = """
import sys, threading
from pathlib import Path
from lumia.quarantine import Guard
with Guard(Path(sys.argv[1]), 0.2).over("dice", "1", "import"):
    threading.Event().wait()
"""


def test_an_import_that_does_not_end_ends_its_process_and_says_which(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == HUNG
    assert "plugin dice: its import has taken more than 0.2 s" in done.stderr
    assert [(mark.hung, mark.alive) for mark in marks(tmp_path, "dice")] == [(True, False)]
