"""Starting recorded runs again; what becomes of their sends is in tests/conformance/test_replay.py."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from lumia import revival
from lumia.errors import PayloadError
from lumia.held import HELD
from lumia.marks import MAX_NAME
from lumia.replay import recorded
from lumia.replay.live import lane, restart
from tests.lumia.replay import scripted
from tests.lumia.replay.scripted import trees


def test_new_runs_have_the_recorded_box_a_lane_of_their_own_and_their_cause() -> None:
    with scripted.bot() as bot:
        old = bot.start("said", {"tag": "x", "first": [["next"]]}, key="qq:1:group-7")
        (again,) = restart(bot.runtime, trees(bot), send=False, rate=1000)
        bot.settle()
        new = bot.transport.run(again.new_id)
        before = bot.transport.run(old.run_id)
        assert new is not None and before is not None
        assert (new.cause, new.key, new.box) == (f"replay/{old.run_id}", "replay/qq:1:group-7", before.box)
        assert [step.handler for step in new.steps] == [step.handler for step in before.steps]


def test_they_are_started_no_faster_than_asked() -> None:
    waits: list[float] = []
    with scripted.bot() as bot:
        for _ in range(3):
            bot.start("said", {"tag": "x"})
        assert len(list(restart(bot.runtime, trees(bot), send=False, rate=2, sleep=waits.append))) == 3
    assert waits[0] == 0
    assert 0.4 < waits[1] <= 0.5
    assert 0.8 < waits[2] <= 1.0


def test_what_can_not_be_started_again_is_told_and_the_others_are() -> None:
    with scripted.bot() as bot:
        bot.start("said", {"tag": "x"})
        bot.start("said", {"tag": "y"})
        entries = scripted.journal(bot)
        gone = recorded([entry for entry in entries if entry is not entries[0]])
        done = list(restart(bot.runtime, gone, send=False, rate=1000))
    assert sorted(bool(one.new_id) for one in done) == [False, True]
    assert {one.why for one in done} == {"", "its beginning is not in the journal"}


def test_a_run_that_nothing_handles_any_more_is_refused() -> None:
    with scripted.bot() as bot:
        bot.start("said", {"tag": "x"})
        found = trees(bot)

    @lumia.pipe.on("other")
    def other(box: lumia.Box[Any]) -> None: ...

    with scripted.bot(other) as today, pytest.raises(PayloadError, match="nothing handles 'said' any more"):
        list(restart(today.runtime, found, send=False, rate=1000))


def test_a_lane_keeps_its_end_and_fits() -> None:
    assert lane("") == ""
    assert lane("qq:1:group-7") == "replay/qq:1:group-7"
    long = "x" * MAX_NAME + ":group-7"
    assert len(lane(long)) == MAX_NAME
    assert lane(long).endswith(":group-7")


def test_a_dead_letter_of_a_run_with_held_sends_holds_them_when_it_is_retried() -> None:
    working: list[bool] = []

    @lumia.pipe.on("said", retry=1)
    def said(box: lumia.Box[Any]) -> None:
        if not working:
            raise RuntimeError("not yet")
        lumia.event.start("msg.send, dest=1.console.private-ann", lumia.Box.any("hi"))

    with scripted.bot(said, scripted.delivers) as bot:
        bot.start("said", {})
        list(restart(bot.runtime, trees(bot), send=False, rate=1000))
        bot.settle()
        working.append(True)
        letter = next(letter for letter in bot.dead if letter.hold)
        again = revival.retry(bot.runtime, letter)
        bot.settle()
        run = bot.transport.run(again)
        assert run is not None
        (sent,) = run.children
        send = bot.transport.run(sent)
        assert send is not None
        assert (send.outcome, send.reason) == ("stopped", HELD)
