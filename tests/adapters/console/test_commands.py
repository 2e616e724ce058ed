"""`lumia send` and `lumia chat`: what they print, what they return, and that they never hang."""

from __future__ import annotations

import builtins
import io
import json
from collections.abc import Iterator

import pytest

import lumia
from adapters.console import commands, terminal
from adapters.console.chat import Chat, history, submit
from lumia.testing import Bot
from tests.adapters.console import responder
from tests.support.gateway import CONSOLE


@pytest.fixture(autouse=True)
def bot() -> Iterator[Bot]:
    with Bot(CONSOLE, responder) as running:
        running.transport.serve(running.runtime)
        yield running


class TestSend:
    def test_it_prints_the_run_and_goes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.send("hello", group="lab") == 0
        run_id = capsys.readouterr().out.strip()
        assert lumia.runs.wait(run_id, 10).replies == ["you said: hello"]

    def test_waiting_with_json_prints_the_fixed_shape(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.send("hello", group="lab", wait=True, json_=True) == 0
        found = json.loads(capsys.readouterr().out)
        assert set(found) == {"run_id", "outcome", "replies", "steps", "ms"}
        assert (found["outcome"], found["replies"]) == ("done", ["you said: hello"])
        assert set(found["steps"][0]) == {"handler", "outcome", "reason", "ms"}

    def test_waiting_prints_the_replies(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.send("hello", wait=True) == 0
        assert capsys.readouterr().out == "you said: hello\n"

    def test_a_silence_is_explained_beside_the_output(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.send("be quiet", wait=True) == 0
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err == "no reply: stopped at test.listen (asked to be quiet)\n"

    def test_a_failure_ends_with_1(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.send("break", wait=True) == 1
        assert "broken on purpose" in capsys.readouterr().err

    def test_too_little_time_ends_with_1_and_what_is_known(self, capsys: pytest.CaptureFixture[str]) -> None:
        responder.hold.clear()
        try:
            assert commands.send("hello", wait=True, timeout=0.05, json_=True) == 1
        finally:
            responder.hold.set()
        printed = capsys.readouterr()
        assert json.loads(printed.out)["outcome"] is None
        assert "it goes on" in printed.err

    def test_the_text_can_come_from_stdin(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines"))
        assert commands.send("-", wait=True) == 0
        assert capsys.readouterr().out == "you said: two\nlines\n"

    @pytest.mark.parametrize("text, sender", [("  ", "you"), ("hi", " ")])
    def test_saying_nothing_or_as_nobody_is_wrong_usage(self, text: str, sender: str) -> None:
        assert commands.send(text, sender=sender) == 2

    @pytest.mark.parametrize("group", ["", "  "])
    def test_a_group_without_a_name_is_wrong_usage(self, group: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.send("hi", group=group) == 2
        assert "--group" in capsys.readouterr().err

    @pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_time_that_is_no_time_is_wrong_usage(self, timeout: float) -> None:
        assert commands.send("hi", wait=True, timeout=timeout) == 2

    def test_the_same_message_id_is_the_same_message(self, capsys: pytest.CaptureFixture[str]) -> None:
        for _ in range(2):
            commands.send("hello", group="lab", message_id="m1")
        first, second = capsys.readouterr().out.split()
        assert first == second

    def test_what_it_sends_is_in_the_pages_history(self, bot: Bot) -> None:
        commands.send("hello", group="lab", sender="ada", wait=True)
        bot.settle()
        told = [(item["sender"], item["text"]) for item in history(Chat("group", "lab"))]
        assert told == [("ada", "hello"), ("Lumia", "you said: hello")]


class TestChat:
    def test_piped_lines_are_answered_in_turn(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("one\n\ntwo"))
        assert commands.chat(group="lab") == 0
        assert capsys.readouterr().out == "you said: one\nyou said: two\n"

    def test_a_piped_line_that_fails_ends_with_1_after_the_rest(self, capsys: pytest.CaptureFixture[str]) -> None:
        talk = terminal.Talk(Chat("group", "lab"), "ada", 10)
        assert talk.piped(["break", "two"]) == 1
        printed = capsys.readouterr()
        assert printed.out == "you said: two\n"
        assert "broken on purpose" in printed.err

    def test_by_hand_it_shows_the_past_answers_and_ends_with_ctrl_d(
        self, bot: Bot, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commands.send("earlier", group="lab", sender="ada", wait=True)
        bot.settle()
        lines = iter(["", "hello [bold]", "be quiet"])

        def typed(prompt: str = "") -> str:
            line = next(lines, None)
            if line is None:
                raise EOFError
            return line

        monkeypatch.setattr(builtins, "input", typed)
        assert terminal.Talk(Chat("group", "lab"), "ada", 10).by_hand(10) == 0
        shown = capsys.readouterr().out
        assert "ada earlier" in shown
        assert "Lumia you said: earlier" in shown
        assert "Lumia you said: hello [bold]" in shown
        assert "no reply: stopped at test.listen (asked to be quiet)" in shown

    def test_waiting_ends_after_the_given_time(self) -> None:
        stages: list[str] = []
        responder.hold.clear()
        try:
            assert terminal.follow(submit(Chat("group", "lab"), "ada", "hi", "m1"), 0.05, stages.append) is None
        finally:
            responder.hold.set()

    def test_a_reply_can_not_command_the_terminal(self) -> None:
        assert terminal.printable("a\x1b[2Jb\x07c\x9b1m\nd\te") == "a[2Jbc1m\nd\te"

    def test_wrong_usage_is_2(self) -> None:
        assert commands.chat(history=-1) == 2
