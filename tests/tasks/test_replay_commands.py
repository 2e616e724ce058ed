"""`lumia replay` as an operator types it: on what a worker left in Valkey, on a file elsewhere, and live."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.cli import main
from lumia.held import HELD
from lumia.ports import RunRecord
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import bot_root, opened, worker, write_plugin

CODE = """
import time
from pathlib import Path

import lumia

print("loading")


@lumia.pipe.on("msg", priv=20, retry=lumia.Retry(3, backoff=0.02))
def weigh(content: lumia.Box) -> None:
    number = lumia.effect("ask", ask, content.into()["text"], kind="http")
    lumia.store.append("numbers", [number, lumia.system.now(), lumia.system.random()])
    print("weighed")
    if number < 10:
        lumia.utils.stop("too light")
    else:
        lumia.utils.next()


@lumia.pipe.on("msg", priv=10)
async def answer(content: lumia.Box) -> None:
    lumia.event.start("msg.send, dest=1.console.group-7", lumia.Box.any("it is heavy\\nvery heavy"))


@lumia.event.consumer_re("msg.send, dest=*")
def deliver(src: str, content: lumia.Box) -> None:
    lumia.effect("post", post, content.into(), kind="send", policy="hold")


def ask(text: str) -> float:
    outside("asked")
    if text == "shaky" and outside("shaky") < 2:
        raise ConnectionError("no answer")
    return len(text) + 0.5


def post(text: str) -> None:
    outside("posted")


def outside(what: str) -> int:
    file = Path(__file__).parents[2] / what
    with file.open("a") as log:
        log.write("x")
    return file.stat().st_size
"""
GROUP = "console:console:group-7"
TEXTS = ("light", "heavy enough", "shaky")


@dataclass(frozen=True)
class Recorded:
    """A bot whose worker runs, the runs it has had by text, and a file with all of them."""

    root: Path
    url: str
    runs: dict[str, str]
    file: Path

    def replay(self, *words: str, root: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `lumia replay`; in another bot root there is no server to reach."""
        url = self.url if root is None else "redis://127.0.0.1:1/0"
        env = {**os.environ, "LUMIA_ROOT": str(root or self.root), "LUMIA_REDIS_URL": url, "COLUMNS": "200"}
        return subprocess.run([sys.executable, "-m", "lumia", "replay", *words], env=env, cwd=root or self.root,
                              capture_output=True, text=True, check=False, timeout=60)  # fmt: skip

    def outside(self, what: str) -> int:
        """Return how often something happened in the world outside."""
        file = self.root / what
        return file.stat().st_size if file.exists() else 0


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("replay")
    root = bot_root(folder / "bot")
    write_plugin(root, "scales", CODE)
    with servers.valkey(folder / "valkey") as server, worker(root, server.url), opened(root, server.url):
        runs = {}
        for text in TEXTS:
            runs[text] = lumia.pipe.start("msg", lumia.Box.any({"text": text}), key=GROUP)
            lumia.runs.wait(runs[text], 20)
        told = Recorded(root, server.url, runs, folder / "incident.jsonl.gz")
        env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": server.url}
        command = [sys.executable, "-m", "lumia", "journal", "export", str(told.file), "--group", "7"]
        subprocess.run(command, env=env, check=True, capture_output=True, timeout=60)
        yield told


@pytest.fixture
def elsewhere(bot: Recorded, tmp_path: Path) -> Path:
    """Another machine: the same plugins, and neither Redis nor the bot's data."""
    root = bot_root(tmp_path / "elsewhere")
    shutil.copytree(bot.root / "plugins", root / "plugins")
    return root


@pytest.fixture
def at_home(bot: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands within this process be those of the recorded bot."""
    monkeypatch.setenv("LUMIA_ROOT", str(bot.root))
    monkeypatch.setenv("LUMIA_REDIS_URL", bot.url)


def exit_code(*words: str) -> int:
    """Run a command that needs no plugin within this process: one of its own takes a second just to begin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["lumia", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def change(root: Path, old: str, new: str) -> None:
    file = root / "plugins" / "scales" / "plugin.py"
    code = file.read_text()
    assert old in code
    file.write_text(code.replace(old, new))


def run_of(run_id: str) -> RunRecord:
    record = lumia.runtime.current().transport.run(run_id)
    assert record is not None
    return record


def fields(done: subprocess.CompletedProcess[str]) -> list[Any]:
    told = json.loads(done.stdout)["different"]
    return [[one["handler"], one["field"]] for tree in told for one in tree["differences"]]


def test_unchanged_code_replays_a_file_elsewhere_without_a_difference(bot: Recorded, elsewhere: Path) -> None:
    asked = bot.outside("asked")

    done = bot.replay("--file", str(bot.file), "--strict", "--json", root=elsewhere)

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["summary"]["differences"] == {}
    assert (told["summary"]["trees"], told["summary"]["runs"], told["summary"]["steps"]) == (3, 4, 6)
    assert (told["different"], told["skipped"]) == ([], {})
    assert bot.outside("asked") == asked
    assert not (elsewhere / "asked").exists()


def test_several_processes_find_the_same(bot: Recorded, elsewhere: Path) -> None:
    change(elsewhere, "number < 10", "number < 100")
    one, two = (bot.replay("--file", str(bot.file), "--json", "--jobs", jobs, root=elsewhere) for jobs in "12")
    assert fields(one) == fields(two) != []


def test_a_change_is_shown_and_strict_exits_with_1(bot: Recorded, elsewhere: Path) -> None:
    change(elsewhere, "it is heavy\\nvery", "it is heavy\\nreally very")

    shown = bot.replay("--file", str(bot.file), root=elsewhere)
    strict = bot.replay("--file", str(bot.file), "--strict", "--json", root=elsewhere)

    assert shown.returncode == 0
    assert f"scales.answer (step 1) in run {bot.runs['heavy enough']} msg" in shown.stdout
    assert "-very heavy" in shown.stdout
    assert "+really very heavy" in shown.stdout
    assert "different  1 (2 output)" in shown.stderr
    assert strict.returncode == 1
    assert ["scales.answer", "start[0].content"] in fields(strict)


def test_runs_of_the_running_bot_are_named_or_chosen(bot: Recorded) -> None:
    named = json.loads(bot.replay(bot.runs["shaky"], "--json").stdout)
    chosen = json.loads(bot.replay("--group", "7", "--outcome", "stopped", "--json").stdout)
    assert (named["summary"]["trees"], named["summary"]["steps"]) == (1, 2)
    assert chosen["summary"]["trees"] == 2
    assert named["different"] == chosen["different"] == []


def test_live_starts_them_again_and_holds_what_they_would_send(bot: Recorded) -> None:
    posted = bot.outside("posted")

    done = bot.replay(bot.runs["heavy enough"], "--live", "--json", "--rate", "50/s")

    assert done.returncode == 0, done.stderr
    new_id = json.loads(done.stdout)["new_id"]
    assert lumia.runs.wait(new_id, 20).outcome == "done"
    (sent,) = run_of(new_id).children
    until(lambda: run_of(sent).outcome, what="the send has ended")
    assert (run_of(sent).outcome, run_of(sent).reason) == ("stopped", HELD)
    assert bot.outside("posted") == posted


@pytest.mark.parametrize(
    "words",
    [(), ("--send", "--since", "1h"), ("--live", "--strict", "x"), ("x", "--rate", "0/s"), ("x", "--since", "n")],
)
def test_a_question_that_makes_no_sense_is_a_usage_error(at_home: None, words: tuple[str, ...]) -> None:
    assert exit_code("replay", *words) == 2


def test_nothing_that_matches_is_an_error_that_says_where_to_look(
    at_home: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("replay", "--group", "nobody") == 1
    assert "lumia runs" in capsys.readouterr().err
