"""How fast recorded runs are replayed offline: `python -m bench.replay [MESSAGES]`.

Messages to a bot of `hello` and `heartflow` (offline model) are recorded on the in-memory transport, written to a file
as `lumia journal export` does, read back, and replayed on one core and on all of them. A message makes one or two runs:
the pipeline `msg` of one to three steps, and if it is answered `msg.send`; 6,500 make over 10,000 runs. The replays
must differ in nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lumia.exports import Header, Writer, read
from lumia.journal import JournalEntry
from lumia.paths import base
from lumia.replay import RecordedTree, Summary, recorded
from lumia.replay.parallel import replay_all
from lumia.testing import Bot

TEXTS = ("hello bot", "!roll 2d6", "what is new?", "!ping")
SENDERS = 50


def main(messages: int) -> int:
    """Print the figures; returns 1 when a replay differs."""
    plugins = (base() / "handlers" / "heartflow", base() / "plugins" / "hello")
    with Bot(*plugins) as bot, tempfile.TemporaryDirectory() as folder:
        bot.transport.limits = dataclasses.replace(bot.transport.limits, journal_bytes=10**10)
        file = Path(folder) / "recorded.jsonl.gz"
        _record(bot, messages)
        _write(bot, file)
        trees: list[RecordedTree] = _timed("read from a file", lambda: recorded(read(file).entries), messages)
        runs = sum(len(tree.runs) for tree in trees)
        print(f"{'':<24}{file.stat().st_size / runs:,.0f} bytes a run, compressed")
        found = [_replayed(bot, trees, jobs) for jobs in (1, 0)]
    return 1 if any(summary.differences or summary.skipped for summary in found) else 0


def _record(bot: Bot, messages: int) -> None:
    for number in range(messages):
        bot.send(TEXTS[number % len(TEXTS)], sender=f"someone-{number % SENDERS}")


def _write(bot: Bot, file: Path) -> None:
    writer = Writer(file, Header())
    for entry in _journal(bot):
        writer.entry(entry)
    writer.close()


def _journal(bot: Bot) -> Iterator[JournalEntry]:
    found = bot.transport.tail("0", 0, 10**8)
    yield from itertools.islice(found, None)


def _replayed(bot: Bot, trees: list[RecordedTree], jobs: int) -> Summary:
    summary = Summary()
    cores = "one core" if jobs == 1 else "all cores"

    def replay() -> None:
        for done in replay_all(bot.runtime, bot.table, trees, jobs):
            summary.add(done)

    _timed(f"replayed on {cores}", replay, sum(len(tree.runs) for tree in trees))
    print(f"{'':<24}{summary.trees:,} trees, {summary.runs:,} runs, {summary.steps:,} steps; "
          f"{summary.differences} differences, {sum(summary.skipped.values())} skipped")  # fmt: skip
    return summary


def _timed(what: str, call: Callable[[], Any], number: int) -> Any:
    unit = "runs" if what.startswith("replayed") else "messages"
    began, cpu = time.perf_counter(), time.process_time()
    found = call()
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"{what:<24}{seconds:8.2f} s  {number / seconds:8,.0f} {unit}/s  (CPU of this process {used:.2f} s)", flush=True
    )
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 6_500))
