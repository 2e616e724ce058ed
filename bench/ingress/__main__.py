"""`python -m bench.ingress`: posts per second that the webhook accepts, commit before the 2xx, beside a bare handler.

    python -m bench.ingress                     3 rounds, about two minutes
    python -m bench.ingress --quick             one short round, for `make bench`
    python -m bench.ingress --gateways 2 --auth hmac

Everything listens on loopback: a Valkey with an append-only file, the gateway, the load program with kept connections,
and in turns with the gateway the peer, a bare ASGI handler on the same uvicorn that does one XADD per post. Every post
has a message id of its own, is signed or carries a token, and is counted in Redis afterwards. No worker runs: what is
accepted waits; so under load all of it is in the inbox at the end.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.ingress.site import KEYS, Broker, Load, Result, Site, bare_app, broker, gateways, made_root, measured
from bench.stats import percentile
from tests.support import servers

GOAL_RATE, GOAL_RATIO, GOAL_P99 = 2500.0, 0.6, 50.0


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.ingress", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    parser.add_argument(
        "--gateways", type=int, default=1, help="gateway processes, which share the port, and as many of the peer"
    )
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--auth", choices=tuple(KEYS), help="one way only")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rounds, given.seconds = 1, 2.0
    return given


class Bench:
    """The servers, and what was measured: per way of proving, and for the peer, a list of results."""

    def __init__(self, given: argparse.Namespace, broker: Broker, sites: dict[str, Site]) -> None:
        self._given, self._broker, self._sites = given, broker, sites
        self.full: dict[str, list[Result]] = {}
        self.half: dict[str, list[Result]] = {}

    def run(self, ways: Sequence[str]) -> None:
        """Measure every way in each round, in turns with the peer."""
        for round_ in range(self._given.rounds + 1):
            for way in ways:
                self._measure(way, self._sites["gateway"], way, warm=not round_)
                self._measure("bare", self._sites["bare"], way, warm=not round_)
            print(f"round {round_} of {self._given.rounds}", file=sys.stderr)

    def _measure(self, name: str, site: Site, auth: str, *, warm: bool) -> None:
        seconds = 1.0 if warm else self._given.seconds
        full = measured(site, self._broker, Load(auth, seconds, connections=self._given.connections))
        if warm:
            return
        self.full.setdefault(name, []).append(full)
        half = measured(site, self._broker, Load(auth, seconds, full.rate / 2, self._given.connections))
        self.half.setdefault(name, []).append(half)


def ratio(bench: Bench, way: str) -> float:
    """Return the median of a way's rates against those of the peer in the same turns: a machine is quicker at times."""
    ways = [name for name in bench.full if name != "bare"]
    peers = bench.full["bare"][ways.index(way) :: len(ways)]
    return median(one.rate / peer.rate for one, peer in zip(bench.full[way], peers, strict=True))


def table(bench: Bench) -> str:
    """Return what was measured as a Markdown table."""
    rows = [
        "| | posts/s | of the bare handler | p50, ms, at half | p99 | CPU, µs per post: server | broker | load |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, results in bench.full.items():
        rate = median(one.rate for one in results)
        times = [[percentile(one.ms, part) for one in bench.half[name]] for part in (50, 99)]
        cpu = [median(one.cpu[part] for one in results) for part in ("server", "broker", "load")]
        low, high = min(one.rate for one in results), max(one.rate for one in results)
        rows.append(
            f"| {name} | {rate:,.0f} ({low:,.0f}–{high:,.0f}) | {_share(bench, name)} | {median(times[0]):.1f} | "
            f"{median(times[1]):.1f} | {cpu[0]:.0f} | {cpu[1]:.0f} | {cpu[2]:.0f} |"
        )
    return "\n".join(rows)


def _share(bench: Bench, name: str) -> str:
    return "1.00" if name == "bare" else f"{ratio(bench, name):.2f}"


def verdict(bench: Bench) -> list[str]:
    """Return which goals were missed."""
    missed = []
    for name, results in bench.full.items():
        if name == "bare":
            continue
        rate, p99 = median(one.rate for one in results), median(percentile(one.ms, 99) for one in bench.half[name])
        refused = {status: n for one in (*results, *bench.half[name]) for status, n in one.refused.items()}
        for missing, text in (
            (rate < GOAL_RATE, f"{rate:,.0f} posts/s, the goal is {GOAL_RATE:,.0f}"),
            (
                ratio(bench, name) < GOAL_RATIO,
                f"{ratio(bench, name):.2f} of the bare handler, the goal is {GOAL_RATIO}",
            ),
            (p99 >= GOAL_P99, f"p99 {p99:.0f} ms at half rate, the goal is under {GOAL_P99:.0f}"),
            (bool(refused), f"posts were refused: {refused}"),
        ):
            missed += [f"{name}: {text}"] if missing else []
    return missed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 0 also when a goal is missed, which is printed."""
    given = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are ended, too
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lumia-ingress-")))
        server = stack.enter_context(servers.valkey(folder / "valkey"))
        root = made_root(folder / "bot")
        shared = stack.enter_context(broker(root, server))
        sites = {
            "gateway": stack.enter_context(gateways(root, server.url, given.gateways)),
            "bare": stack.enter_context(bare_app(folder, server.url, given.gateways)),
        }
        bench = Bench(given, shared, sites)
        bench.run([given.auth] if given.auth else list(KEYS))
    print(f"{given.gateways} gateway process(es), {given.connections} connections, {given.rounds} rounds of "
          f"{given.seconds:g} s, {os.cpu_count()} cores for all of them, appendfsync everysec\n")  # fmt: skip
    print(table(bench))
    for text in verdict(bench) or ["every goal was reached"]:
        print(f"\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
