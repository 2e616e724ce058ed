"""Replay: recorded runs, run again with today's code and compared with what they did (DESIGN §2, §5)."""

from lumia.replay.difference import KINDS, Difference, Summary, TreeReplay, Usage
from lumia.replay.engine import Replayer
from lumia.replay.records import RecordedRun, RecordedTree, recorded

__all__ = [
    "KINDS",
    "Difference",
    "RecordedRun",
    "RecordedTree",
    "Replayer",
    "Summary",
    "TreeReplay",
    "Usage",
    "recorded",
]
