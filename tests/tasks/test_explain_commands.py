"""`lumia trace`, `runs` and `journal` as an operator types them, on what a real worker has left in Valkey."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.cli import main
from lumia.ids import timed_id
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import bot_root, opened, worker, write_plugin

CODE = """
import time

import lumia


@lumia.pipe.on("msg", priv=20)
def greet(content: lumia.Box) -> None:
    if "secret word" not in content.into()["text"]:
        lumia.utils.stop("nobody asked")
    else:
        lumia.annotate(model="parrot-1", tokens_in=12, tokens_out=3, cost=0.25)
        lumia.utils.next()


@lumia.pipe.on("msg", priv=10)
def answer(content: lumia.Box) -> None:
    lumia.effect("look up", str.upper, "x")
    lumia.event.start("msg.send, dest=1.console.group-7", lumia.Box.any({"text": "hello"}))
    lumia.event.start("reminder", lumia.Box.any(1), detach=True)


@lumia.event.consumer_re("msg.send, dest=*")
def deliver(src: str, content: lumia.Box) -> None:
    lumia.store.set("last", content.into()["text"])


@lumia.event.consumer("reminder")
def remind(content: lumia.Box) -> None:
    pass


@lumia.pipe.on("shaky", retry=lumia.Retry(3, backoff=0.05))
def shaky(content: lumia.Box) -> None:
    if lumia.store.incr("tries") < 2:
        raise RuntimeError("not yet")


@lumia.pipe.on("flaky", retry=lumia.Retry(3, backoff=0.05))
def flaky(content: lumia.Box) -> None:
    if lumia.effect("count", lambda: 1) and content.meta.get("no"):
        raise RuntimeError("never")
    raise TimeoutError("no such host")


@lumia.pipe.on("long", timeout=120)
def long(content: lumia.Box) -> None:
    while lumia.store.get("go") != content.into():
        time.sleep(0.01)
"""
GROUP = "console:console:group-7"


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Told:
    """The bot, and the runs it has had by name."""

    root: Path
    url: str
    runs: dict[str, str]

    def lumia(self, *words: str) -> Done:
        """Run a command within this process: one of its own takes a second just to begin."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("LUMIA_ROOT", str(self.root))
            patch.setenv("LUMIA_REDIS_URL", self.url)
            patch.setattr(sys, "argv", ["lumia", *words])
            try:
                main()
                code = 0
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Done(code, out.getvalue(), err.getvalue())

    def process(self, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in a process of its own."""
        named = {"LUMIA_ROOT": str(self.root), "LUMIA_REDIS_URL": self.url, "PYTHONIOENCODING": "utf-8"}
        return subprocess.run(
            [sys.executable, "-m", "lumia", *words], env={**os.environ, **named, **(env or {})}, cwd=self.root,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        done = self.lumia(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("explained")
    root = bot_root(folder / "bot")
    write_plugin(root, "demo", CODE)
    runs: dict[str, str] = {}

    def start(name: str, id: str, content: Any, **options: Any) -> str:
        runs[name] = lumia.pipe.start(id, lumia.Box.any(content), **options)
        return runs[name]

    with servers.valkey(folder / "valkey") as server, opened(root, server.url) as bot, worker(root, server.url):
        start("answered", "msg", {"text": "the secret word", "message_id": "m-1"}, key=GROUP)
        start("stopped", "msg", {"text": "hm", "message_id": "m-2"}, key=GROUP)
        start("dead", "flaky", 1)
        start("nobody", "unheard", 1)
        start("long", "long", 1, key="qq:1:group-9")
        for name in ("answered", "stopped", "dead", "nobody"):
            lumia.runs.wait(runs[name], 20)
        state = bot.transport.run
        until(lambda: state(runs["long"]).state == "claimed", timeout=10)  # type: ignore[union-attr]
        start("waiting", "msg", {"text": "hm", "message_id": "m-3"}, key="qq:1:group-9")
        yield Told(root, server.url, runs)
        with bot.activated():
            lumia.store.of("demo").set("go", 1)


def test_an_answered_message_is_drawn_with_its_children_and_calls(told: Told) -> None:
    done = told.lumia("trace", told.runs["answered"], "--width", "140")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].startswith("answered: 1 message delivered at +")
    assert f"run {told.runs['answered']} · msg · {GROUP}" in lines[1]
    drawn = "\n".join(lines[3:])
    for part in ("demo.greet", "parrot-1 · 12→3 tokens, $0.25", "look up", "demo.deliver", "detached"):
        assert part in drawn
    assert "█" in drawn and all(len(line) <= 140 for line in lines)


@pytest.mark.parametrize(
    "name, why",
    [
        ("stopped", "not answered: stopped by demo.greet: nobody asked"),
        ("dead", "dead letter at demo.flaky after 3 tries: TimeoutError: no such host"),
        ("nobody", "nothing handles 'unheard'"),
        ("waiting", "not answered yet: msg has been waiting in lane qq:1:group-9 behind run {long} for"),
        ("long", "demo.long has been running for"),
    ],
)
def test_the_first_line_says_why(told: Told, name: str, why: str) -> None:
    done = told.lumia("trace", told.runs[name])
    assert done.stdout.startswith(why.format(**told.runs)), done.stdout + done.stderr


def test_a_message_is_found_by_its_own_id_also_while_it_waits(told: Told) -> None:
    assert told.json("trace", "m-2")["run"]["run_id"] == told.runs["stopped"]
    assert told.json("trace", "m-3")["run"]["run_id"] == told.runs["waiting"]


def test_a_child_shows_the_whole_tree_and_is_marked(told: Told) -> None:
    (send,) = (child for child in told.json("trace", "m-1")["run"]["children"] if child["relation"] == "child")
    whole = told.json("trace", send["run_id"])
    assert whole["run"]["run_id"] == told.runs["answered"] and not whole["run"]["marked"]
    assert [child["marked"] for child in whole["run"]["children"]] == [True, False]


def test_the_beginning_of_an_id_is_enough(told: Told) -> None:
    assert told.json("trace", told.runs["dead"][:14])["run"]["run_id"] == told.runs["dead"]


def test_the_newest_of_a_group_is_found(told: Told) -> None:
    assert told.json("trace", "--group", "7")["run"]["run_id"] == told.runs["stopped"]
    assert told.lumia("trace", "2", "--last").stdout.count("\nrun 0") == 2


@pytest.mark.parametrize("words", [("zzzz",), (timed_id(1_000_000_000.0, 1),), ("--group", "nowhere")])
def test_what_is_not_there_is_said_with_a_way_out(told: Told, words: tuple[str, ...]) -> None:
    done = told.lumia("trace", *words)
    assert done.returncode == 1 and done.stderr.startswith("error: ") and "`lumia runs`" in done.stderr


def test_a_beginning_that_is_too_short_or_fits_many_names_candidates(told: Told) -> None:
    for beginning in ("01", told.runs["answered"][:4]):
        done = told.lumia("trace", beginning)
        assert done.returncode == 1 and told.runs["waiting"][:8] in done.stderr, done.stderr
    none = told.lumia("trace", "zzzz")
    assert none.returncode == 1 and "the newest runs are" in none.stderr


def test_a_cursor_that_is_none_is_wrong_usage(told: Told) -> None:
    for cursor in ("yesterday", "9" * 20):
        done = told.lumia("journal", "tail", "--after", cursor, "--no-follow")
        assert done.returncode == 2 and "Invalid value for --after" in done.stderr


def test_runs_are_listed_and_chosen(told: Told) -> None:
    listed = told.json("runs", "--id", "msg*")
    assert {told.runs["answered"], told.runs["stopped"], told.runs["waiting"]} <= {run["run_id"] for run in listed}
    assert [run["run_id"] for run in told.json("runs", "--outcome", "dead")] == [told.runs["dead"]]
    (sum_of_tree,) = (run for run in told.json("runs", "--group", "7", "--outcome", "done") if not run["cause"])
    assert (sum_of_tree["tokens_in"], sum_of_tree["cost"], sum_of_tree["steps"]) == (12, 0.25, 3)
    table = told.lumia("runs", "--group", "7")
    assert "nobody asked" in table.stdout and table.stdout.startswith("time ") and not table.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--outcome", "good"),
        ("--since", "whenever"),
        ("--since", "1h", "--until", "2h"),
        ("--since", "2099-01-01"),
        ("--limit", "0"),
    ],
)
def test_a_filter_that_is_none_is_wrong_usage(told: Told, words: tuple[str, ...]) -> None:
    done = told.lumia("runs", *words)
    assert done.returncode == 2 and f"Invalid value for {words[0]}" in done.stderr.replace("'", "")


@pytest.fixture(scope="module")
def incident(told: Told, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("incident") / "incident.jsonl.gz"
    done = told.lumia("journal", "export", str(file), told.runs["answered"], "m-2", told.runs["dead"])
    assert done.returncode == 0 and "3 run trees" in done.stderr, done.stderr
    return file


def test_an_export_explains_the_same_without_any_server(told: Told, incident: Path, tmp_path: Path) -> None:
    nowhere = Told(tmp_path, "redis://127.0.0.1:1/0", {})
    for name in ("answered", "stopped", "dead"):
        here = told.json("trace", told.runs[name])
        here["run"]["children"] = [child for child in here["run"]["children"] if child["relation"] != "detached"]
        assert nowhere.json("trace", told.runs[name], "--file", str(incident)) == here
    assert len(nowhere.lumia("runs", "--file", str(incident)).stdout.splitlines()) == 1 + 3
    away = nowhere.process("trace", "m-2", "--file", str(incident), env={"LUMIA_ROOT": ""})
    assert away.stdout.startswith("not answered: stopped by demo.greet: nobody asked")


def test_an_export_holds_what_replay_needs(told: Told, incident: Path) -> None:
    with gzip.open(incident, "rt") as file:
        lines = [json.loads(line) for line in file]
    assert lines[0]["plugins"]["demo"] and lines[0]["lumia"] == lumia.__version__
    boxes = [line["e"]["d"]["box"] for line in lines if "box" in line.get("e", {}).get("d", {})]
    assert any("the secret word" in box for box in boxes)
    assert (incident.stat().st_mode & 0o777) == 0o600


def test_an_import_is_kept_under_a_name(told: Told, incident: Path, tmp_path: Path) -> None:
    root = bot_root(tmp_path / "other")
    other = Told(root, "redis://127.0.0.1:1/0", {})
    done = other.lumia("journal", "import", str(incident), "--name", "friday")
    assert (done.returncode, done.stdout) == (0, "friday\n")
    assert other.lumia("trace", "m-2", "--file", "friday").stdout.startswith("not answered: stopped by")


def test_a_damaged_file_is_refused_naming_the_line(told: Told, incident: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl.gz"
    damaged.write_bytes(incident.read_bytes()[:-40])
    done = told.lumia("journal", "import", str(damaged))
    assert done.returncode == 1 and f"{damaged}, line " in done.stderr


def test_nothing_is_left_of_an_export_that_found_nothing(told: Told, tmp_path: Path) -> None:
    done = told.lumia("journal", "export", str(tmp_path / "none.jsonl.gz"), "--group", "nowhere")
    assert done.returncode == 1 and list(tmp_path.iterdir()) == []


def test_the_journal_is_printed_as_json_lines(told: Told) -> None:
    done = told.lumia("journal", "tail", "--after", "0", "--no-follow")
    kinds = {json.loads(line)["kind"] for line in done.stdout.splitlines()}
    assert {"start", "step", "end", "effect", "dead"} <= kinds


def test_a_terminal_that_knows_ascii_only_gets_it(told: Told) -> None:
    done = told.process("trace", told.runs["answered"], "--width", "100", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and done.stdout.isascii() and "|- demo.greet" in done.stdout
