"""What every contender's load program shares: the payload, filling a queue, sending at a steady rate.

    python -m bench.peers.<app> fill COUNT
    python -m bench.peers.<app> rate PER_SECOND SECONDS FILE

`rate` sends by the clock, not by answers, and writes one line per message: its id, and when sending it began and ended
on the system's monotonic clock. Runs in every environment, so it needs the standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

PAYLOAD_BYTES = 200
URL = os.environ.get("BENCH_REDIS_URL", "")
DONE = "bench:done"
ENDED = "bench:ended"
"""The channel on which a peer's last stage tells the end of a message that has a number."""

Content = dict[str, str]
Send = Callable[[Content], str]


def payload(number: int | None = None) -> Content:
    """Return a message of exactly 200 bytes of JSON; with a number its last stage tells that it has ended."""
    content = {} if number is None else {"n": f"{number:06}"}
    text = "x" * (PAYLOAD_BYTES - len(json.dumps({**content, "text": ""}, separators=(",", ":"))))
    return {**content, "text": text}


def main(send: Send) -> None:
    """Run a load program; `send` accepts one message and returns the id its end is told under."""
    if sys.argv[1] == "fill":
        fill(send, int(sys.argv[2]))
    else:
        rate(send, float(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))


def fill(send: Send, count: int) -> None:
    """Send `count` messages as fast as this process can, and print how many a second that were."""
    content, began = payload(), time.monotonic()
    for _ in range(count):
        send(content)
    print(count / (time.monotonic() - began))


def rate(send: Send, per_second: float, seconds: float, file: Path) -> None:
    """Send at a steady rate."""
    send(payload())  # connections and caches are made before the clock starts
    lines = []
    start = time.monotonic() + 0.2
    for number in range(int(per_second * seconds)):
        time.sleep(max(0.0, start + number / per_second - time.monotonic()))
        content = payload(number)
        began = time.monotonic()
        id_ = send(content)
        lines.append(f"{id_} {began!r} {time.monotonic()!r}\n")
    file.write_text("".join(lines))
