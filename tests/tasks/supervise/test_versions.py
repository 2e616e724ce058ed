"""What the workers have loaded is compared with the files, so that a change that waits for a restart is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lumia.discovery import generation
from tasks.supervise.resp import connect
from tasks.supervise.versions import ROUTES, outdated, running
from tests.support import servers

BASE = Path(__file__).resolve().parents[3]


@pytest.fixture
def tea(bot_root: Path) -> Path:
    folder = bot_root / "plugins" / "tea"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"name": "tea"}')
    (folder / "plugin.py").write_text("import lumia\n")
    return folder


def test_changed_and_removed_files_are_told_with_the_version_that_runs(bot_root: Path, tea: Path) -> None:
    made = generation("0.0.0", tea)
    assert list(outdated(BASE, bot_root, {"tea": made})) == []
    assert list(outdated(BASE, bot_root, {"tea": f"{made}.a1c584e8"})) == [], "what it depends on has a digest, too"
    (tea / "plugin.py").write_text("import lumia  # changed\n")
    (changed,) = outdated(BASE, bot_root, {"tea": made})
    assert changed == f"tea: the running bot has {made}, and its files were changed since"
    (gone,) = outdated(BASE, bot_root, {"milk": "0.0.0+ab"})
    assert gone == "milk: the running bot still has 0.0.0+ab, and its files are gone"


@pytest.mark.services
def test_what_the_workers_published_is_read_and_anything_else_is_none(tmp_path: Path) -> None:
    with servers.valkey(tmp_path) as server, connect(server.url) as redis:
        assert running(server.url) == {}
        redis.ask("HSET", ROUTES, "table", json.dumps({"plugins": {"tea": "0.0.0+ab"}}))
        assert running(server.url) == {"tea": "0.0.0+ab"}
        for other in ("{", "{}", "[]", '{"plugins": []}'):
            redis.ask("HSET", ROUTES, "table", other)
            assert running(server.url) == {}


def test_a_server_that_does_not_answer_runs_nothing() -> None:
    assert running("redis://127.0.0.1:1/0") == running("") == {}
