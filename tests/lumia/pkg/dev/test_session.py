"""The talk with a plugin that is being written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.pkg.dev.project import Project, find_project
from lumia.pkg.dev.sandbox import Bounds
from tests.lumia.pkg.dev.conftest import Talk, talking, write_plugin

CODE = """
import ctypes, os, re, sys, time
from typing import Any
import lumia

ANSWER = "pong"


@lumia.pipe.on("msg", retry=1)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    msg = content.into()
    text = msg["text"]
    if text == "ping":
        reply(msg, ANSWER)
    elif text == "who":
        reply(msg, f"{msg['sender']['id']} in {msg['chat']['kind']} {msg['mentions_bot']}")
    elif text == "count":
        reply(msg, str(lumia.store.incr("n")))
    elif text == "set":
        reply(msg, lumia.config.get("tried").word)
    elif text == "raise":
        1 / 0
    elif text == "hang":
        re.match("(a+)+$", "a" * 60 + "b")
    elif text == "die":
        ctypes.string_at(0)
    elif text == "eat":
        bytearray(8 << 30)
    elif text == "env":
        print(sorted(name for name in os.environ if name.startswith("LUMIA_")), sys.stdin.read() == "")
    elif text == "paint":
        print("\\x1b]0;owned\\x07\\x1b[31mred\\x1b[0m")
    else:
        lumia.utils.stop("not for me")


@lumia.event.consumer("tried.roll")
def roll(content: lumia.Box[dict[str, Any]]) -> None:
    print("rolled", content.into()["sides"])


@lumia.cron("0 8 * * *")
def morning(content: lumia.Box[dict[str, Any]]) -> None:
    lumia.event.start("msg.send, dest=1.console.group-all", lumia.Box.any({"text": "good morning"}))


def reply(msg: dict[str, Any], text: str) -> None:
    lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any({"text": text}, meta={"account": msg["account"]}))
"""
LINES = {code: number for number, code in enumerate(CODE.splitlines(), 1)}
HANGING = LINES['        re.match("(a+)+$", "a" * 60 + "b")']
RAISING = LINES["        1 / 0"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("author") / "a-clone-by-another-name"
    made = write_plugin(folder, CODE)
    (folder / "config-schema.toml").write_text('[word]\ntype = "str"\ndefault = "none"\n')
    (folder / "dev.toml").write_text('word = "mine"\n')
    return made


@pytest.fixture(scope="module")
def talk(project: Project) -> Iterator[Talk]:
    before = {name: os.environ.get(name) for name in ("LUMIA_REGISTRY_TOKEN", "LUMIA_ROOT")}
    os.environ |= {"LUMIA_REGISTRY_TOKEN": "secret", "LUMIA_ROOT": "/nowhere"}
    with talking(project, bounds=Bounds(seconds=2.5)) as made:
        yield made
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def test_what_is_said_is_answered_with_the_steps_it_went_through(talk: Talk) -> None:
    answer = talk.say("ping")
    assert talk.hear("reply").text == "pong"
    assert (answer.outcome, answer.replies) == ("done", 1)
    assert [(step["handler"], step["outcome"]) for step in answer.steps] == [("tried.answer", "stop")]


def test_silence_has_its_reason(talk: Talk) -> None:
    answer = talk.say("something else")
    assert (answer.outcome, answer.reason, answer.replies) == ("stopped", "not for me", 0)


def test_one_speaks_as_anybody_in_private_and_in_groups(talk: Talk) -> None:
    talk.say("who", sender="bob")
    assert talk.hear("reply").text == "bob in private True"
    talk.say("who", sender="ann", group="family")
    heard = talk.hear("reply")
    assert (heard.text, heard.detail["to"]) == ("ann in group False", "1.console.group-family")


def test_the_settings_beside_the_manifest_are_used(talk: Talk) -> None:
    talk.say("set")
    assert talk.hear("reply").text == "mine"


def test_what_raises_is_shown_where_it_stands(talk: Talk, project: Project) -> None:
    answer = talk.say("raise")
    failure = talk.hear("failed").failure
    assert failure is not None
    assert failure.place == f"{project.file('plugin.py')}:{RAISING}"
    assert failure.text == "ZeroDivisionError: division by zero"
    assert "lumia/executor.py" not in failure.trace
    assert (answer.outcome, answer.fine, answer.trouble) == ("failed", False, True)


def test_events_and_schedules_are_started_by_hand(talk: Talk) -> None:
    assert talk.session.start("event", "tried.roll", {"sides": 6}).over.wait(10)
    assert talk.hear("output").text == "rolled 6"
    assert talk.session.start("cron", "tried.morning").over.wait(10)
    heard = talk.hear("reply")
    assert (heard.text, heard.detail["to"]) == ("good morning", "1.console.group-all")


def test_what_can_not_be_started_is_refused_with_the_reason(talk: Talk) -> None:
    answer = talk.session.start("event", "")
    assert answer.over.wait(10)
    assert (answer.outcome, "id" in answer.reason) == ("refused", True), answer


def test_nothing_leads_from_the_sandbox_to_a_real_bot_or_the_terminal(talk: Talk) -> None:
    talk.say("env")
    assert talk.hear("output").text == "[] True"
    talk.say("paint")
    assert talk.hear("output").text == "red"


def test_a_hang_is_ended_with_its_place_and_the_talk_goes_on_with_the_store(talk: Talk, project: Project) -> None:
    talk.say("count")
    before = int(talk.hear("reply").text)
    answer = talk.say("hang")
    place = f"{project.file('plugin.py')}:{HANGING} in answer"
    assert (answer.outcome, place in answer.reason) == ("hung", True), answer
    talk.say("count")
    assert int(talk.hear("reply").text) == before + 1


def test_a_crash_is_told_and_the_talk_goes_on(talk: Talk) -> None:
    answer = talk.say("die")
    assert (answer.outcome, "Segmentation fault" in answer.reason) == ("crashed", True)
    talk.hear("crashed")
    assert talk.say("ping").replies == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process so")
def test_memory_has_a_bound_that_is_named(talk: Talk) -> None:
    talk.say("eat")
    assert "it may use 1024 MiB" in talk.hear("failed").text


def test_a_save_reloads_and_a_broken_one_leaves_the_old_version_answering(tmp_path: Path) -> None:
    project = write_plugin(tmp_path / "tried", CODE)
    file = project.folder / "plugin.py"
    with talking(project, watch=True, bounds=Bounds(loading=2.5)) as talk:
        talk.say("count")
        talk.hear("loaded")
        file.write_text(CODE.replace('ANSWER = "pong"', 'ANSWER = "new"'))
        assert talk.hear("reloaded").detail["seconds"] < 5
        talk.say("ping")
        assert talk.hear("reply").text == "new"
        talk.say("count")
        assert talk.hear("reply").text == "2"

        file.write_text(CODE.replace('ANSWER = "pong"', "ANSWER = ("))
        broken = talk.hear("broken")
        assert broken.failure is not None
        line = LINES['ANSWER = "pong"']
        assert broken.failure.place == f"{project.file('plugin.py')}:{line}"
        assert broken.detail["old"]
        talk.say("ping")
        assert talk.hear("reply").text == "new"

        file.write_text(CODE.replace('ANSWER = "pong"', "time.sleep(99)"))
        assert f"{project.file('plugin.py')}:{line}" in talk.hear("broken", "not loaded within").text
        file.write_text(CODE.replace('ANSWER = "pong"', "os._exit(7)"))
        assert "exit code 7, while it was loaded" in talk.hear("broken").text
        file.write_text(CODE)
        talk.hear("reloaded")
        talk.say("ping")
        assert talk.hear("reply").text == "pong"


def test_a_plugin_that_never_loads_is_explained_and_answers_nothing(tmp_path: Path) -> None:
    project = write_plugin(tmp_path / "tried", CODE, dependencies={"other": ">=1.0"})
    with talking(project) as talk:
        assert not talk.session.wait()
        broken = talk.hear("broken")
        assert "other" in broken.text
        assert not broken.detail["old"]
        assert talk.say("ping").outcome == "unanswerable"


def test_plugins_it_depends_on_are_loaded_from_their_folders(tmp_path: Path) -> None:
    write_plugin(tmp_path / "other", 'import lumia\nNAME = "other"\n', name="other")
    code = CODE.replace('ANSWER = "pong"', "from lumia_plugins.other.plugin import NAME as ANSWER")
    project = write_plugin(tmp_path / "tried", code, dependencies={"other": ""})
    with talking(find_project(project.folder / "."), str(tmp_path / "other")) as talk:
        talk.say("ping")
        assert talk.hear("reply").text == "other"
