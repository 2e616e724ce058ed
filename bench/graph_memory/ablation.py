"""What each part of the retrieval brings: a row per set of parts, each with weights of its own, fitted on the other
conversations (left one out, as in fit.py). Candidates are those of the whole retrieval; a row only ranks them.

    python -m bench.graph_memory ablation locomo.json
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from bench.graph_memory import fit
from handlers.memory_graph import evaluate
from handlers.memory_graph.weights import FEATURES

ROWS = {
    "dense": ("dense",),
    "lexical": ("lexical",),
    "fusion": ("dense", "lexical"),
    "+ shape": ("dense", "lexical", "shape"),
    "+ sequence": ("dense", "lexical", "shape", "sequence"),
    "+ speaker": ("dense", "lexical", "shape", "sequence", "speaker"),
    "+ spreading (all)": ("dense", "lexical", "shape", "sequence", "speaker", "spreading"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    fit.add_arguments(parser)


def run(given: argparse.Namespace) -> None:
    """Measure and print the table."""
    report(fit.collected(given))


def report(cases: Mapping[str, list[fit.Case]]) -> None:
    """Print a line of a Markdown table per row."""
    print("| | R@1 | R@5 | R@10 | R@20 | nDCG@10 | category 1 |\n|---|---|---|---|---|---|---|")
    for title, parts in ROWS.items():
        names = [name for name, part in FEATURES.items() if part in parts and name not in (*fit.UNFITTED, "spread")]
        found = evaluate.figures(fit.left_out(cases, names, spread="spreading" in parts))
        several = found["by_category"].get("1", {}).get("recall_at", {}).get("10", 0.0)
        figures = [*found["recall_at"].values(), found["ndcg_at_10"], several]
        print(f"| {title} | {' | '.join(f'{one:.1f}' for one in figures)} |", flush=True)
