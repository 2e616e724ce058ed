"""Any order of arrivals, retries, kills and duplicate deliveries: one reply at most for each message, and the same
planner state as if everything had come one by one."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

import lumia
from lumia.testing import Bot, ManualClock
from tests.handlers.heartflow.talk import PLUGINS, lane, msg
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import Celery, first_party, opened, worker, write_plugin

TEXTS = ("my cat is called Momo", "what is my cat called?", "2 + 2", "hello", "the bridge is closed", "谢谢你")
BREAKABLE = (
    ("remembering", "recall"), ("thinking", "shift"), ("thinking", "remember"), ("polishing", "words"),
    ("sending", "send"), ("state", "opened"), ("state", "shift"), ("lines", "push"), ("decisions", "note"),
)  # fmt: skip
"""What plugin.py calls in its steps: a step that breaks there has asked its models and has not committed."""

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from("12"), st.sampled_from(TEXTS), st.booleans(), st.integers(1, 2), st.sampled_from([0, 0.2, 3])
    ),
    min_size=1, max_size=7,
)  # fmt: skip
"""(sender, text, whether it mentions the bot, deliveries, seconds before it)."""
FAILURES = st.lists(st.tuples(st.sampled_from(BREAKABLE), st.integers(1, 6)), max_size=5, unique=True)
"""(what breaks, at which call)."""


def payloads(said: Sequence[tuple[str, str, bool, int, float]], group: str = "g") -> list[dict[str, Any]]:
    chat = {"kind": "group", "id": group}
    return [
        msg(text, sender=sender, name=f"P{sender}", chat=chat, platform="qq", message_id=f"{group}-{n}",
            mentions_bot=to)
        for n, (sender, text, to, _, _) in enumerate(said)
    ]  # fmt: skip


@contextmanager
def failing(failures: Sequence[tuple[tuple[str, str], int]]) -> Iterator[None]:
    """Let calls fail as if the worker had been lost there."""
    plugin, calls = sys.modules["handlers.heartflow.plugin"], Counter[tuple[str, str]]()

    def broken(at: tuple[str, str], real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            done = real(*args, **kwargs)
            calls[at] += 1
            if (at, calls[at]) in failures:
                raise ConnectionResetError("the worker was lost")
            return done

        return call

    with ExitStack() as stack:
        for at in {at for at, _ in failures}:
            module = getattr(plugin, at[0])
            stack.enter_context(patch.object(module, at[1], broken(at, getattr(module, at[1]))))
        yield


def deliver(sent: list[tuple[str, str]]) -> Any:
    @lumia.event.consumer_re("msg.send, dest=*")
    def take(src: str, content: lumia.Box[Any]) -> None:
        sent.append((content.into()["reply_to"], content.into()["text"]))

    return take


def talked(
    said: Sequence[tuple[str, str, bool, int, float]], failures: Sequence[Any] = (), *, one_by_one: bool = False
) -> tuple[list[tuple[str, str]], Any]:
    """Let the bot hear everything; returns what it sent, in order, and what it knows of the chat."""
    sent: list[tuple[str, str]] = []
    config = {"heartflow": {"reply_in_groups": "mention", "while_thinking": "next", "rate_limit": 0}}
    with Bot(*PLUGINS, deliver(sent), config=config, clock=ManualClock()) as bot, failing(failures):
        for payload, (_, _, _, times, gap) in zip(payloads(said), said, strict=True):
            bot.settle(600 if one_by_one else gap)
            for _ in range(1 if one_by_one else times):
                key = lane(payload)
                dedup = lumia.payloads.dedup_key(key, payload["message_id"])
                bot.start("msg", payload, key=key, dedup=dedup)
        bot.settle(3600)
        assert bot.dead == []
        return sent, known("qq:me:group:g")


def known(scope: str) -> Any:
    """Return what the planner knows of a chat, without times."""
    store = lumia.store.of("heartflow")
    said = [(one["by"], one["id"], one["n"], one["text"]) for one in store.items("lines", scope=scope)]
    return {"planner": store.get("planner", scope=scope), "counted": store.get("counted", scope=scope), "lines": said}


@settings(deadline=None, max_examples=25)
@given(MESSAGES, FAILURES)
def test_retries_and_duplicates_change_neither_replies_nor_state(said: Any, failures: Any) -> None:
    whole, state = talked(said, one_by_one=True)
    assert Counter(to for to, _ in whole) == {f"g-{n}": 1 for n, one in enumerate(said) if one[2]}
    assert talked(said, failures) == (whole, state)


SLOW = """
import time

import lumia


@lumia.pipe.on("msg", priv=30)
def slow(content: lumia.Box) -> None:
    time.sleep(0.03)  # a stage that takes its time, so that the kill comes in the middle of something
    lumia.utils.next()


@lumia.event.consumer_re("msg.send, dest=*")
def take(src: str, content: lumia.Box) -> None:
    lumia.store.append("sent", content.into()["reply_to"], scope=src, keep=1000)
"""


def test_workers_that_are_killed_answer_each_message_once_and_know_as_much_as_undisturbed_ones(
    tmp_path: Path,
) -> None:
    groups = {
        group: [(str(n % 2 + 1), TEXTS[n % len(TEXTS)], n % 3 != 1, 2, 0.0) for n in range(12)] for group in "abc"
    }
    root, expected = tmp_path / "bot", {group: talked_in(said, group) for group, said in groups.items()}
    off = [name for name in first_party() if name not in ("heartflow", "persona-loader")]
    (root / "config").mkdir(parents=True)
    (root / "config" / "lumia.toml").write_text(
        f'[plugins]\ndisabled = {str(off).replace(chr(39), chr(34))}\n[models.embedding]\nmodel = "offline"\n'
    )
    (root / "config" / "heartflow.toml").write_text(
        'reply_in_groups = "mention"\nwhile_thinking = "next"\nrate_limit = 0\n'
    )
    write_plugin(root, "slow", SLOW)
    with (
        servers.valkey(tmp_path / "valkey") as server,
        opened(root, server.url),
        worker(root, server.url, name="w1") as first,
    ):
        runs = [run for group, said in groups.items() for run in started(payloads(said, group))]
        killed(first, lambda: replies(groups) >= 4)
        with worker(root, server.url, name="w2") as second:
            killed(second, lambda: replies(groups) >= 10)
            with worker(root, server.url, name="w3"):
                until(lambda: all(ended(run) for run in runs), timeout=90)
                for group, said in groups.items():
                    answered = Counter(sent_in(group))
                    assert answered == {f"{group}-{n}": 1 for n, one in enumerate(said) if one[2]}
                    assert known(f"qq:me:group:{group}") == expected[group]


def talked_in(said: Any, group: str) -> Any:
    config: dict[str, dict[str, Any]] = {
        "heartflow": {"reply_in_groups": "mention", "while_thinking": "next", "rate_limit": 0},
        "lumia": {"models.embedding.model": "offline"},
    }
    with Bot(*PLUGINS, config=config, clock=ManualClock()) as bot:
        for payload in payloads(said, group):
            bot.start("msg", payload, key=lane(payload))
            bot.settle(60)
        return known(f"qq:me:group:{group}")


def started(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Deliver each message twice, as platforms do; returns the runs."""
    runs: list[str] = []
    for payload in found:
        key = lane(dict(payload))
        dedup = lumia.payloads.dedup_key(key, payload["message_id"])
        ids = {lumia.pipe.start("msg", lumia.Box.any(dict(payload)), key=key, dedup=dedup) for _ in range(2)}
        assert len(ids) == 1
        runs.extend(ids)
    return runs


def sent_in(group: str) -> list[str]:
    return list(lumia.store.of("slow").items("sent", scope=f"msg.send, dest=3.qq.group-{group}"))


def replies(groups: Mapping[str, Any]) -> int:
    return sum(len(sent_in(group)) for group in groups)


def killed(running: Celery, when: Callable[[], bool]) -> None:
    until(when, timeout=60)
    running.kill()


def ended(run: str) -> bool:
    found = lumia.runs.result(run)
    return found is not None and found.outcome is not None
