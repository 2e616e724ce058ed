"""Running logs: each group of each file has a bot of its own, so no group's clock or budget holds up another's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import lab_baseline, lab_score, lab_world
from .lab_log import Entry, groups, read
from .lab_setup import Variant, plugins, root_of
from .lab_steps import Cost, Heard, failures, heard

Progress = Callable[[int, int], None]


def run(files: Sequence[str], variant: Variant, *, progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """Return the figures and decisions of the logs under `variant` (see `lab_score.result`).

    progress: called with (messages so far, all). Raises `LogError` and `SetupError`.
    """
    logs = [log for file in files for log in groups(read(file)).values()]
    return run_logs(logs, variant, files=files, progress=progress)


def run_logs(
    logs: Sequence[Sequence[Entry]], variant: Variant, *, files: Sequence[str] = (),
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:  # fmt: skip
    """Return the figures and decisions of some groups' messages under `variant`; raises `SetupError`."""
    count, done = sum(map(len, logs)), 0
    found: list[Heard] = []
    beside: dict[str, Cost] = {}
    baseline = lab_baseline.Baseline()
    failed: list[str] = []

    def one_more() -> None:
        nonlocal done
        done += 1
        progress(done, count)

    progress(0, count)
    with root_of(variant) as root:
        for log in logs:
            parts = plugins(memory=variant.memory)
            world = lab_world.live(log, variant, root, parts=parts, progress=one_more)
            own, others = heard(world)
            baseline += lab_baseline.tokens(own, world)
            found += own
            failed += failures(world)
            for layer, cost in others.items():
                beside.setdefault(layer, Cost()).add(cost)
    return {**lab_score.result(found, beside, baseline, variant, files), "failed_beside": failed}
