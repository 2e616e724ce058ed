"""Lumia's load program: messages over 50 lanes, as a bot in 50 groups has them (BENCH_LANES; 0 for none)."""

from __future__ import annotations

import os
from itertools import count

from bench import bot as bots
from bench.peers import load
from lumia.box import Box
from lumia.bus import pipe
from lumia.paths import find_root


def main() -> None:
    """Run the load program on the bot root that LUMIA_ROOT names."""
    lanes = int(os.environ.get("BENCH_LANES", bots.LANES))
    numbers = count()

    def send(content: load.Content) -> str:
        return pipe.start("bench", Box.any(content), key=f"group {next(numbers) % lanes}" if lanes else None)

    with bots.opened(find_root(), load.URL):
        load.main(send)


if __name__ == "__main__":
    main()
