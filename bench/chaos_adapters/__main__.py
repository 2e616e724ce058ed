"""`python -m bench.chaos_adapters`: every adapter under faults on the wire, and the account of each message.

    python -m bench.chaos_adapters                      about four minutes
    python -m bench.chaos_adapters --every              cut at every byte, however long it takes
    python -m bench.chaos_adapters --only "onebot reverse" --seed 7 --kills 30

One bot with a real gateway, worker and Valkey; on the other side the platforms of tests/peers behind a proxy that cuts
connections within a frame. Exits 1 when a message was lost, handled or answered twice, or out of order.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.chaos_adapters.campaign import Account, Campaign
from bench.chaos_adapters.platforms import WAYS


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos_adapters", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=120.0, help="of cutting, at most (default: 120)")
    parser.add_argument("--every", action="store_true", help="cut at every byte, however long it takes")
    parser.add_argument("--kills", type=int, default=15, help="of the gateway (default: 15)")
    parser.add_argument("--only", action="append", choices=[way.name for way in WAYS], help="this way in; may repeat")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", type=Path, help="where to leave logs and data (default: removed at the end)")
    return parser.parse_args(arguments)


def table(accounts: Sequence[Account]) -> str:
    """Return the account as a Markdown table."""
    columns = ("way in", "messages", "bytes", "cut at", "lost", "handled twice", "out of order", "answered",
               "answered twice", "unsure, and shown")  # fmt: skip
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    rows += [
        f"| {one.name} | {one.said} | {one.frame} | {one.offsets} | {len(one.lost)} | {len(one.doubled)} | "
        f"{len(one.disordered)} | {one.answered} | {len(one.answered_twice)} | {one.unsure} |"
        for one in accounts
    ]
    return "\n".join(rows)


def faults(accounts: Sequence[Account]) -> list[str]:
    """Return a sentence for each broken promise, with the first messages it was broken for."""
    found = []
    for one in accounts:
        broken = {
            "lost": one.lost, "handled twice": one.doubled, "answered twice": one.answered_twice,
            "out of order": one.disordered, "not answered, and nothing says why": one.unexplained,
        }  # fmt: skip
        found += [f"{one.name}: {what}: {', '.join(texts[:5])}" for what, texts in broken.items() if texts]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print the account; 1 when a promise was broken."""
    given = options(arguments)
    seed = random.randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="lumia-adapters-") as made:
        campaign = Campaign(
            given.folder or Path(made), seconds=given.seconds, kills=given.kills, every=given.every, seed=seed,
            ways=given.only or [], say=lambda text: print(text, file=sys.stderr, flush=True),
        )  # fmt: skip
        accounts = campaign.run()
    print(f"{campaign.killed} kills of the gateway\n\n{table(accounts)}\n")
    broken = faults(accounts)
    print("\n".join(broken) or "nothing lost, nothing twice")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
