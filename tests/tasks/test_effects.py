"""Effects when workers are killed: what was recorded is not called again, and what is unknown follows its policy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lumia
from lumia.journal import JournalEntry
from lumia.paths import base
from lumia.runtime import Runtime
from tests.peers.openai_server import Fault, OpenAIServer
from tests.support.wait import until
from tests.support.workers import bot_root, worker, write_plugin

CODE = """
import os
import time

import lumia


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@lumia.pipe.on("asking", timeout=60)
def asks(content: lumia.Box) -> None:
    folder = content.into()["folder"]
    reply = lumia.models.chat("main", [{"role": "user", "content": "hello"}])
    open(os.path.join(folder, f"answered.{os.getpid()}"), "w").close()
    wait_for(os.path.join(folder, "go"))
    lumia.store.append("replies", reply.text, scope=folder)


@lumia.pipe.on("paying", timeout=60, retry=3)
def pays(content: lumia.Box) -> None:
    folder = content.into()["folder"]
    paid = lumia.effect("charge", charge, folder, policy="hold")
    lumia.store.set("paid", paid, scope=folder)


def charge(folder: str) -> int:
    open(os.path.join(folder, f"charging.{os.getpid()}"), "w").close()
    wait_for(os.path.join(folder, "go"))
    return 1
"""


@pytest.fixture
def peer() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def root(tmp_path: Path, peer: OpenAIServer) -> Path:
    folder = bot_root(tmp_path / "bot", settings="max_losses = 3")
    file = folder / "config" / "lumia.toml"
    file.write_text(file.read_text() + f'[models.main]\nmodel = "openai-chat:any"\nbase_url = "{peer.url}"\n')
    write_plugin(folder, "work", CODE)
    return folder


def effects(run: str) -> list[JournalEntry]:
    entries = lumia.runs.tail("0", timeout=0, limit=10_000)
    return [entry for entry in entries if entry.kind == "effect" and entry.run_id == run]


def ended(run: str) -> JournalEntry:
    entries = lumia.runs.tail("0", timeout=0, limit=10_000)
    return [entry for entry in entries if entry.kind == "step" and entry.run_id == run][-1]


def test_a_model_that_has_answered_is_not_asked_again_when_its_worker_is_killed(
    bot: Runtime, root: Path, url: str, tmp_path: Path, peer: OpenAIServer
) -> None:
    with worker(root, url, name="first") as first:
        run = lumia.pipe.start("asking", lumia.Box.any({"folder": str(tmp_path)}))
        until(lambda: list(tmp_path.glob("answered.*")), timeout=20)
        first.kill()
        with worker(root, url, name="second"):
            until(lambda: len(list(tmp_path.glob("answered.*"))) == 2, timeout=20)
            (tmp_path / "go").touch()
            assert lumia.runs.wait(run, 20).outcome == "done"
    assert len(peer.requests) == 1
    assert len(lumia.store.of("work").items("replies", scope=str(tmp_path))) == 1
    made, again = effects(run)
    assert (made.outcome, made.attempt, again.outcome, again.attempt) == ("done", 1, "replayed", 2)
    assert made.detail["model"] == "openai-chat:any" and made.detail["tokens_out"] > 0 and "cost" not in made.detail
    assert "tokens_out" not in ended(run).detail  # this try was free; the killed one is in the effect's entry


def test_a_model_that_was_asked_and_not_heard_is_asked_again(
    bot: Runtime, root: Path, url: str, tmp_path: Path, peer: OpenAIServer
) -> None:
    peer.script(Fault(delay=60.0), "here I am")
    (tmp_path / "go").touch()
    with worker(root, url, name="first") as first:
        run = lumia.pipe.start("asking", lumia.Box.any({"folder": str(tmp_path)}))
        until(lambda: peer.requests, timeout=20)
        first.kill()
        with worker(root, url, name="second"):
            assert lumia.runs.wait(run, 20).outcome == "done"
    assert len(peer.requests) == 2
    lost, made = effects(run)
    assert (lost.outcome, made.outcome) == ("unknown", "done") and "without a result" in lost.reason
    assert ended(run).detail["tokens_out"] == made.detail["tokens_out"] and ended(run).detail["unpriced"] == 1


def lumia_command(root: Path, url: str, *words: str) -> subprocess.CompletedProcess[str]:
    import os

    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url, "PYTHONPATH": str(base())}
    command = [sys.executable, "-m", "lumia", *words]
    return subprocess.run(command, check=False, env=env, cwd=root, capture_output=True, text=True, timeout=60)


def test_a_call_at_most_once_is_held_after_a_kill_until_it_is_settled(
    bot: Runtime, root: Path, url: str, tmp_path: Path
) -> None:
    with worker(root, url, name="first") as first:
        run = lumia.pipe.start("paying", lumia.Box.any({"folder": str(tmp_path)}))
        until(lambda: list(tmp_path.glob("charging.*")), timeout=20)
        first.kill()
        with worker(root, url, name="second"):
            result = lumia.runs.wait(run, 20)
    assert result.outcome == "failed" and f"lumia effects settle {run} '0:charge'" in result.reason
    assert len(list(tmp_path.glob("charging.*"))) == 1
    assert [entry.outcome for entry in effects(run)] == ["unknown", "held"]
    (held,) = json.loads(lumia_command(root, url, "effects", "list", "--json").stdout)
    assert (held["run"], held["effect"], held["state"]) == (run, "0:charge", "unknown")
    unsaid = lumia_command(root, url, "effects", "settle", run, "0:charge")
    assert unsaid.returncode == 2 and "--done JSON" in unsaid.stderr
    settled = lumia_command(root, url, "effects", "settle", run, "0:charge", "--done", '{"receipt": 17}')
    assert settled.returncode == 0 and f"`lumia dead retry {run}.0` goes on" in settled.stderr
    assert lumia_command(root, url, "effects", "list").stdout == ""
    again = lumia_command(root, url, "effects", "settle", run, "0:charge", "--failed")
    assert again.returncode == 1 and "has its result" in again.stderr
    shown = lumia_command(root, url, "effects", "list", run)
    assert '{"receipt": 17}' in shown.stdout
