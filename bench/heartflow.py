"""`python -m bench.heartflow`: what the chain itself takes beside its models, and what the planner keeps in the broker.

    python -m bench.heartflow                       50 messages a second for 30 s, then 2,000 groups' state
    python -m bench.heartflow --seconds 10 --groups 200

Two workers with heartflow and offline models, which take little time, hear 50 groups: a fifth of the messages come
from a blacklisted sender (L0), a tenth mention the bot (the whole chain and a reply), the others go to perception. The
time of a message runs from its acceptance to the last commit of everything it caused; that of model and embedding
calls, taken from the same records, is told apart. It sends nothing anywhere.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

import lumia
from bench.session import settled_memory
from bench.stats import percentile
from lumia import trace
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import first_party, opened, worker

GROUPS = 50
TALK = (
    "lunch was good today", "the build is green again", "look at this cat", "I think the train is late", "明天见",
    "哈哈哈", "my charger is gone again", "that film was long", "see you at the station then", "ok",
)  # fmt: skip
ASKED = ("@Lumia what is 12 * 12?", "@Lumia who are you?", "@Lumia my name is Ann", "@Lumia 你好")
MODEL_KINDS = ("model", "embed")


@dataclass(frozen=True)
class Took:
    """One message: where it ended, and how long that took with and without its models, in ms."""

    layer: str
    whole: float
    chain: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50.0, help="messages per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--groups", type=int, default=2000, help="groups whose state is weighed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lumia-bench-") as name:
        folder = Path(name)
        root = made(folder / "bot")
        options = ("--concurrency", "8")
        with (
            servers.valkey(folder / "valkey") as server,
            worker(root, server.url, *options, name="one"),
            worker(root, server.url, *options, name="two"),
            opened(root, server.url),
        ):
            took = measured(given.rate, given.seconds)
            print(f"{len(took)} messages at {given.rate:g}/s over {GROUPS} groups")
            for layer in ("L0", "L1", "answered"):
                print(line(layer, [one for one in took if one.layer == layer]))
            size = weighed(server.url, given.groups)
            each = size / given.groups / 1024
            print(f"planner state of {given.groups} groups: {size / 1e6:.1f} MB, {each:.1f} KiB a group")


def made(root: Path) -> Path:
    """Make a bot that has heartflow and nothing else."""
    off = [name for name in first_party() if name not in ("heartflow", "persona-loader")]
    (root / "config").mkdir(parents=True)
    listed = ", ".join(f'"{name}"' for name in off)
    quick = '[models.embedding]\nmodel = "offline"\n'  # models elsewhere take no processor from the chain
    (root / "config" / "lumia.toml").write_text(f"[plugins]\ndisabled = [{listed}]\n{quick}")
    (root / "config" / "heartflow.toml").write_text('blacklist = ["troll"]\nwhile_thinking = "next"\nrate_limit = 0\n')
    return root


def measured(rate: float, seconds: float) -> list[Took]:
    """Send at a steady rate, wait for the end, and read what each message took."""
    runs = [started(-1 - number) for number in range(2 * GROUPS)]  # loads the models, fills the chats
    until(lambda: all(map(ended, runs)), timeout=120)
    began, runs = time.monotonic(), []
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        runs.append(started(number))
    until(lambda: all(map(ended, runs)), timeout=60)
    history = lumia.runtime.current().transport.history()
    return [took(trace.build(history.entries(run))) for run in runs]


def started(number: int) -> str:
    """Accept one message as an adapter would."""
    spam, asked = number % 5 == 0, number % 10 == 3
    text = ASKED[number // 10 % len(ASKED)] if asked else TALK[number % len(TALK)]
    payload = message(number % GROUPS, "troll" if spam else str(number % 7), text, mentions_bot=asked)
    chat = payload["chat"]
    key = lumia.payloads.lane("qq", "me", chat["kind"], chat["id"])
    return lumia.pipe.start("msg", lumia.Box.any(payload), key=key)


def message(group: int, sender: str, text: str, **fields: Any) -> dict[str, Any]:
    """Return a group's message."""
    chat, who = {"kind": "group", "id": str(group)}, {"id": sender, "name": f"P{sender}"}
    return lumia.payloads.message(platform="qq", account="me", chat=chat, sender=who, text=text, **fields)


def took(found: trace.Trace) -> Took:
    """Return what a message took, from its records."""
    runs = list(found.run.walk())
    models = sum(one.ms for run in runs for step in run.steps for one in step.effects if one.kind in MODEL_KINDS)
    whole = max(run.ended or 0.0 for run in runs) - found.run.at
    last = found.run.steps[-1].handler.removeprefix("heartflow.")
    layer = {"filter_message": "L0", "perceive": "L1"}.get(last, "answered")
    return Took(layer, whole, whole - models)


def line(layer: str, took: Sequence[Took]) -> str:
    """Return one line of the table."""
    if not took:
        return f"{layer:9} none"
    chain, whole = [one.chain for one in took], [one.whole for one in took]
    alone = f"chain p50 {percentile(chain, 50):6.1f}  p99 {percentile(chain, 99):6.1f} ms"
    both = f"with its models p50 {percentile(whole, 50):6.1f}  p99 {percentile(whole, 99):6.1f} ms"
    return f"{layer:9} {len(took):5} messages   {alone}   {both}"


def weighed(url: str, groups: int) -> int:
    """Return the bytes by which full chats of so many groups make the broker's memory grow."""
    redis: Any = Redis.from_url(url)
    before = settled_memory(redis, alone=False)
    store = lumia.store.of("heartflow")
    for number in range(groups):
        for key, values in state_of(number):
            for value in values:
                if key == "lines":
                    store.append(key, value, scope=f"qq:me:group:w{number}", keep=60)
                else:
                    store.set(key, value, scope=f"qq:me:group:w{number}")
    grown: int = settled_memory(redis, alone=False) - before
    redis.close()
    return grown


def state_of(number: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield what the store holds of a chat that has talked for long: 60 lines, summaries, the attention, windows."""
    texts = [TALK[(number + n) % len(TALK)] for n in range(60)]
    yield "lines", [
        {"by": "user", "id": str(n % 7), "name": f"P{n % 7}", "text": text * 2, "at": 1.7e9 + n, "n": n + 1,
         "message_id": f"w{number}-{n}"}
        for n, text in enumerate(texts)
    ]  # fmt: skip
    part = {"first": 1, "last": 20, "text": "Ann and Bob talked about lunch and the late train. " * 8, "at": 1.7e9}
    yield "summary", [{"to": 40, "paragraphs": [part, part], "topics": [part]}]
    yield "planner", [{"vector": "AbCd" * 256, "model": "embedded:multilingual-e5-small"}]
    for key, value in (("window_end", 1.7e9), ("last_send", 1.7e9), ("counted", 60), ("summarised", 40)):
        yield key, [value]


def ended(run: str) -> bool:
    """Tell whether a run has ended."""
    found = lumia.runs.result(run)
    return found is not None and found.outcome is not None


if __name__ == "__main__":
    main()
