"""`python -m bench.graph_memory`: what the graph memory reaches; bench/graph_memory/README.md says what was measured.

    python -m bench.graph_memory recall --quick                 how fast recall is, at 10,000 instances
    python -m bench.graph_memory recall --keep /tmp/filled      at 100,000; the filled database is kept and used again
    python -m bench.graph_memory inserts --messages 2000        messages written per second
    python -m bench.graph_memory fit locomo.json                the ranking's weights, left one conversation out
    python -m bench.graph_memory ablation locomo.json           what each part of the retrieval brings
    python -m bench.graph_memory quick                          recall and inserts in about a minute (`make bench`)

Each starts a PostgreSQL of its own and leaves nothing behind but what --keep names.
"""

from __future__ import annotations

import argparse

from bench.graph_memory import ablation, fit, inserts, recall

PARTS = {"recall": recall, "inserts": inserts, "fit": fit, "ablation": ablation}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m bench.graph_memory", description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    commands = found.add_subparsers(dest="part", required=True, metavar="{" + ",".join([*PARTS, "quick"]) + "}")
    for name, part in PARTS.items():
        one = commands.add_parser(name, description=part.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        part.add_arguments(one)
        one.set_defaults(run=part.run)
    quick = commands.add_parser("quick", description="recall at 10,000 instances and 1,000 inserts of each kind")
    quick.set_defaults(run=_quick)
    return found


def _quick(_: argparse.Namespace) -> None:
    every = parser()
    print("Recall of the graph memory at 10,000 instances, ms without the embedding:")
    recall.run(every.parse_args(["recall", "--quick"]))
    print("Messages the graph memory takes per second:")
    inserts.run(every.parse_args(["inserts", "--messages", "1000"]))


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    given = parser().parse_args(arguments)
    given.run(given)


if __name__ == "__main__":
    main()
