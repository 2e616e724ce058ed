"""A step in a process of its own: what reaches the child, and what becomes of a child that does not survive."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.dead import DeadFilter, Failure
from lumia.executor import StepListener
from lumia.opening import load_plugins
from lumia.ports import Claim, Limits
from lumia.routes import Plan, PlanStep
from lumia.runtime import open_bot
from tasks import alone
from tasks.alone import Alone, dump, load
from tasks.transport import RedisTransport, connect
from tests.support.workers import bot_root, write_plugin
from tests.tasks.test_scripts import PLAN, STEPS, popped

CODE = """
import ctypes
import os
import sys
import time

import lumia

if os.environ.get("RISKY") == "does not load":
    os._exit(3)


@lumia.pipe.on("good", priv=2)
def good(content: lumia.Box) -> None:
    print("a handler may print")
    lumia.store.set("pid", os.getpid())
    lumia.utils.next(lumia.Box.any(content.into() + 1))


@lumia.pipe.on("good", priv=1)
def after(content: lumia.Box) -> None:
    pass


@lumia.pipe.on("raises", retry=1)
def raises(content: lumia.Box) -> None:
    raise RuntimeError("no luck")


@lumia.pipe.on("exits", retry=1)
def exits(content: lumia.Box) -> None:
    os._exit(7)


@lumia.pipe.on("crashes", retry=1)
def crashes(content: lumia.Box) -> None:
    ctypes.string_at(0)


@lumia.pipe.on("hangs", retry=1, timeout=0.1)
def hangs(content: lumia.Box) -> None:
    time.sleep(600)
"""
Run = Callable[..., tuple[RedisTransport, str, "Heard"]]


FAILURES = st.builds(Failure, st.integers(), st.just(1.5), st.text(), st.text(), st.booleans())


class Heard(StepListener):
    outcome = error = ""

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        self.outcome, self.error = outcome, error


@pytest.fixture
def run(tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    root = bot_root(tmp_path / "bot")
    write_plugin(root, "risky", CODE)
    monkeypatch.setenv("LUMIA_REDIS_URL", valkey_url)
    transport = RedisTransport(connect(valkey_url), worker="host:1:aa")
    transport.redis.flushdb()
    bot = open_bot(root, transport=transport)
    transport.limits = bot.limits
    bot.use_routes(transport.publish(bot.install(load_plugins(bot, "all"))))

    def executed(id: str, **fields: Any) -> tuple[RedisTransport, str, Heard]:
        run_id, heard = lumia.pipe.start(id, lumia.Box.any(1)), Heard()
        claim = transport.claim(*popped(transport))
        assert claim is not None
        Alone().execute(bot, replace(claim, **fields), heard)
        return transport, run_id, heard

    yield executed
    bot.close()


def test_the_child_commits_one_step_and_the_next_one_goes_its_usual_way(run: Run) -> None:
    transport, run_id, heard = run("good")
    record = transport.run(run_id)
    assert record is not None and [step.outcome for step in record.steps] == ["next"]
    assert (record.state, record.box, heard.outcome, heard.error) == ("queued", '{"j":2}', "done", "")
    assert transport.read("risky//pid")[0] == "value"


def test_a_handler_that_raises_is_told_to_the_parent(run: Run) -> None:
    transport, run_id, heard = run("raises")
    assert heard.outcome == "failed" and heard.error.strip().endswith("RuntimeError: no luck")
    assert transport.dead(DeadFilter(letters=(run_id,)))[0].error == "RuntimeError: no luck"


@pytest.mark.parametrize(
    "id, why",
    [("exits", "ended its process with exit code 7"), ("crashes", "killed its process (SIGSEGV)"), ("hangs", "hung")],
)
def test_how_a_child_ended_is_the_error_of_its_step(
    run: Run, id: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "CLOSE_SECONDS", 0.2)
    transport, run_id, heard = run(id)
    letter = transport.dead(DeadFilter(letters=(run_id,)))[0]
    assert letter.error.startswith(f"risky.{id} {why}, executed alone") and heard.outcome == "failed"
    assert [(one.attempt, one.lost) for one in letter.history] == [(1, False)]


def no_python(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "executable", "/no/python/here")


def no_plugins(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("RISKY", "does not load")


def no_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alone, "ALONE_START_SECONDS", 0.01)
    patch.setattr(alone, "CLOSE_SECONDS", 0.01)


UNBEGUN = [
    (no_python, "could not be made ([Errno 2]"),
    (no_plugins, "ended its process with exit code 3 before it began"),
    (no_time, "did not begin within 0.01 s"),
]


@pytest.mark.parametrize("obstacle, why", UNBEGUN)
def test_a_step_whose_process_did_not_begin_is_handed_back_without_a_try(
    run: Run, obstacle: Any, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    obstacle(monkeypatch)
    transport, run_id, heard = run("raises")
    record = transport.run(run_id)
    assert record is not None and (record.state, record.attempt, record.steps) == ("delayed", 0, ())
    assert (heard.outcome, heard.error) == ("handback", "")
    assert f"handed back, the process that was to execute risky.raises alone {why}" in caplog.text


def test_a_process_that_never_begins_becomes_a_dead_letter_with_the_cause_in_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_python(monkeypatch)
    transport, run_id, heard = run("raises", handbacks=Limits().handbacks)
    letter = transport.dead(DeadFilter(letters=(run_id,)))[0]
    assert "could not be made" in letter.error and "handed back 30 times" in letter.error
    assert heard.outcome == "failed"


def claim(queue: str = "default", **more: Any) -> Claim:
    steps = [PlanStep("p.s0", "pipe", "g1", queue, None, False, STEPS[0].retry)]
    return Claim("run", 0, 7, 3, "pipe", "msg", "", "run", "", 3, Plan.of(steps), "{}", **more)


def test_only_what_was_lost_twice_and_can_go_elsewhere_is_executed_so() -> None:
    wants, limits = Alone().wants, Limits(max_losses=4)
    assert [wants(claim(losses=n), limits) for n in range(5)] == [False, False, True, True, False]
    assert not wants(claim("adapter.qq", losses=2), limits) and not wants(claim(losses=2, arc=True), limits)


@given(
    st.text(), st.text(), st.lists(st.builds(Failure, st.integers(), st.just(1.5), st.text(), st.text(), st.booleans()))
)
def test_a_claim_arrives_as_it_was_sent(box: str, key: str, failures: list[Failure]) -> None:
    sent = Claim("run", 1, 7, 3, "pipe", "msg", key, "root", "a/0", 3, PLAN, box, losses=2, failures=tuple(failures))
    assert load(dump(sent)) == sent
