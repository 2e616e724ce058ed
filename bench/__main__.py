"""`python -m bench`: the comparison of `make bench`; docs/benchmark.md says what is measured and how.

    python -m bench                                             everything, about 12 minutes
    python -m bench --quick --only throughput --peers none      Lumia alone, in seconds
    python -m bench --only throughput,latency --peers celery,dramatiq --results /tmp/results

Results go to bench/results, but only those of a full run: parts and quick runs are printed, or written where --results
says.
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path

from bench import comparison, report


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m bench", description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    found.add_argument("--quick", action="store_true", help="small figures for development, not for publication")
    found.add_argument("--only", type=_names, help=f"some of {','.join(comparison.MEASURES)}")
    found.add_argument("--peers", type=_names, help="beginnings of contenders' names beside Lumia, or none")
    found.add_argument("--rounds", type=int, help="rounds of throughput and latency")
    found.add_argument("--results", type=Path, help="folder to write results to")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that its workers are ended, too
    unknown = set(given.only or ()) - set(comparison.MEASURES)
    if unknown:
        raise SystemExit(f"error: --only knows {', '.join(comparison.MEASURES)}, not {', '.join(sorted(unknown))}")
    size = comparison.QUICK if given.quick else comparison.FULL
    if given.rounds:
        size = replace(size, rounds=given.rounds)
    found = comparison.run(size, given.only or comparison.MEASURES, given.peers)
    print(report.text(found))
    whole = not (given.quick or given.only or given.peers)
    folder = given.results or (report.RESULTS if whole else None)
    if folder is not None:
        report.write(found, folder)
        print(f"\nwritten to {folder}")


if __name__ == "__main__":
    main()
