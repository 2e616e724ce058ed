"""Random sequences of operations, failures and deaths; `python -m bench.pkg_campaign` runs many more of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.machine import MEMORY, machine
from tests.support.packages import Shop


def test_whatever_happens_in_whatever_order_the_bot_is_as_the_model_says() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        few = settings(
            max_examples=8, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck),
            derandomize=True, database=None,
            phases=[Phase.generate],  # shrinking takes minutes: the campaign does that
        )  # fmt: skip
        run_state_machine_as_test(machine(Shop(Path(folder))), settings=few)
