"""What one no-op step costs in the executor: CPU time on the in-memory transport, nothing read and nothing sent.

python -m bench.step_cost            # best of 60 short rounds, in microseconds of CPU per step
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lumia
from lumia.testing import Bot

RUNS, STAGES, ROUNDS = 200, 4, 60


def stages() -> list[Callable[..., Any]]:
    """Return handlers of a pipeline that does nothing but go on."""

    def stage(priv: int) -> Callable[..., Any]:
        def nothing(content: lumia.Box[Any]) -> None:
            lumia.utils.next()

        nothing.__name__ = f"stage_{priv}"
        return lumia.pipe.on("noop", priv=priv)(nothing)

    return [stage(priv) for priv in range(STAGES)]


def measured(bot: Bot) -> float:
    """Return the CPU microseconds per step of one round."""
    for number in range(RUNS):
        lumia.pipe.start("noop", lumia.Box.any(number))
    began = time.process_time()
    bot.settle()
    return (time.process_time() - began) / (RUNS * STAGES) * 1e6


def main() -> None:
    """Print the best round and the median."""
    with Bot(*stages()) as bot:
        rounds = sorted(measured(bot) for _ in range(ROUNDS))
    print(f"{rounds[0]:.2f} us per step (best of {ROUNDS}; median {rounds[ROUNDS // 2]:.2f})")


if __name__ == "__main__":
    main()
