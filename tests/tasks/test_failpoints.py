"""Failpoints: read from a text, and hit where they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError as RedisConnectionError

from lumia.errors import BackendUnavailableError, StaleClaimError
from lumia.paths import base
from tasks import failpoints
from tasks.failpoints import ACTIONS, Failing, Failpoint, FailpointError, around, parse
from tasks.scripts import NAMES
from tasks.transport import RedisTransport, connect
from tests.tasks.test_scripts import claimed, done, request


def counting(answers: list[Any]) -> Callable[..., Any]:
    """Return a call that gives these answers one after the other, and notes what it was asked for."""
    left = iter(answers)

    def call(*args: Any) -> Any:
        return next(left)

    return call


def test_a_text_names_script_moment_action_and_the_call_that_is_hit() -> None:
    assert parse("commit.before=kill@17, claim.after=pause(250)@*,start.after=error", NAMES) == (
        Failpoint("commit", "before", "kill", 17),
        Failpoint("claim", "after", "pause", 0, 250),
        Failpoint("start", "after", "error", 1),
    )


@given(st.sampled_from(NAMES), st.sampled_from(["kill", "error", "resend"]), st.integers(1, 10**6))
def test_every_script_has_both_boundaries(script: str, action: str, count: int) -> None:
    for moment in ("before", "after"):
        if action != "resend" or moment == "after":
            assert parse(f"{script}.{moment}={action}@{count}", NAMES) == (Failpoint(script, moment, action, count),)


@pytest.mark.parametrize(
    "text, said",
    [
        ("commit", "is no failpoint; write them as in commit.before=kill@17"),
        ("comit.before=kill", "script is one of start, claim"),
        ("commit.during=kill", "moment is one of before, after"),
        ("commit.after=explode", "action is one of kill"),
        ("commit.before=resend", "nothing to send again"),
        ("commit.before=pause", "pause(500)"),
        ("commit.before=kill(5)", "pause(500)"),
        ("commit.before=kill@0", "counted from 1"),
    ],
)
def test_a_malformed_text_is_refused_with_the_way_out(text: str, said: str) -> None:
    with pytest.raises(FailpointError) as caught:
        parse(f"claim.before=kill,{text}", NAMES)
    assert said in str(caught.value) and repr(text) in str(caught.value)


def test_without_the_variable_the_call_itself_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(failpoints.ENVIRONMENT, raising=False)
    call = counting([])
    assert around(call, NAMES) is call


def test_an_error_before_a_script_keeps_it_from_being_sent_and_one_after_loses_its_answer() -> None:
    calls: list[str] = []
    failing = Failing(calls.append, parse("claim.before=error@2,commit.after=error@1", NAMES))
    failing("claim")
    with pytest.raises(RedisConnectionError, match="before claim"):
        failing("claim")
    with pytest.raises(RedisConnectionError, match="after commit"):
        failing("commit")
    failing("commit")
    assert calls == ["claim", "commit", "commit"]


def test_a_pause_lasts_as_long_as_it_says() -> None:
    failing = Failing(counting(["a"]), parse("claim.before=pause(30)", NAMES))
    began = time.monotonic()
    assert failing("claim") == "a"
    assert time.monotonic() - began >= 0.03


def test_a_script_sent_again_must_answer_the_same_where_it_promises_to() -> None:
    same = Failing(counting([[b"ok"], [b"ok"]]), parse("commit.after=resend", NAMES))
    assert same("commit") == [b"ok"]
    with pytest.raises(FailpointError, match="commit sent again answered"):
        Failing(counting([[b"ok"], [b"stale"]]), parse("commit.after=resend", NAMES))("commit")
    assert Failing(counting([1, 2]), parse("move.after=resend", NAMES))("move") == 1


@pytest.mark.parametrize("moment, sent", [("before", "0"), ("after", "1")])
def test_a_kill_ends_the_process_at_the_boundary(moment: str, sent: str) -> None:
    code = (
        "from tasks.failpoints import around\n"
        "from tasks.scripts import NAMES\n"
        "call = around(lambda *args: print('sent', args[1], flush=True), NAMES)\n"
        "call('claim', 0); call('commit', 0); call('commit', 1); print('alive')\n"
    )
    env = {**os.environ, failpoints.ENVIRONMENT: f"commit.{moment}=kill@2"}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=env, cwd=base(), capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.splitlines() == ["sent 0", "sent 0", "sent 1"][: 2 + int(sent)]


def test_resent_scripts_of_a_real_transport_change_nothing(monkeypatch: pytest.MonkeyPatch, valkey_server: Any) -> None:
    text = ",".join(f"{script}.after=resend@*" for script in NAMES)
    monkeypatch.setenv(failpoints.ENVIRONMENT, text)
    redis: Any = connect(valkey_server.url)
    redis.flushdb()
    transport = RedisTransport(redis, worker="host:1:aa")
    transport.call("heartbeat", transport.worker, 2500)
    wanted = request(key="lane")
    transport.start([wanted])
    claim = claimed(transport)
    assert (claim.run_id, claim.attempt) == (wanted.run_id, 1)
    transport.commit(claim, done(claim))
    second = claimed(transport)
    assert second.step == 1
    transport.commit(second, done(second, "end"))
    with pytest.raises(StaleClaimError):
        transport.commit(claim, done(claim))
    record = transport.run(wanted.run_id)
    assert record is not None and record.outcome == "done" and len(record.steps) == 2
    transport.close()


def test_a_lost_reply_of_a_commit_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, valkey_server: Any) -> None:
    monkeypatch.setenv(failpoints.ENVIRONMENT, "claim.after=error,commit.after=error")
    redis: Any = connect(valkey_server.url)
    redis.flushdb()
    transport = RedisTransport(redis, worker="host:1:aa")
    wanted = request()
    transport.start([wanted])
    claim = claimed(transport)
    assert claim.attempt == 1
    transport.commit(claim, done(claim, "end"))
    record = transport.run(wanted.run_id)
    assert record is not None and record.outcome == "done" and len(record.steps) == 1
    transport.close()


def test_every_action_is_documented() -> None:
    page = (base() / "docs" / "chaos.md").read_text()
    assert all(f"`{action}" in page for action in ACTIONS)


def test_a_lost_reply_of_a_start_is_not_called_a_refusal_and_repeating_it_starts_nothing_new(
    monkeypatch: pytest.MonkeyPatch, valkey_server: Any
) -> None:
    monkeypatch.setenv(failpoints.ENVIRONMENT, "start.after=error@1")
    redis: Any = connect(valkey_server.url)
    redis.flushdb()
    transport = RedisTransport(redis, worker="host:1:aa")
    wanted = request(dedup="message 1")
    with pytest.raises(BackendUnavailableError, match="nobody knows whether this was accepted"):
        transport.start([wanted])
    assert transport.run(wanted.run_id) is not None
    again = transport.start([request(dedup="message 1")])[0]
    assert (again.run_id, again.duplicate) == (wanted.run_id, True)
    transport.close()
