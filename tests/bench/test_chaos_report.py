"""The table, and what is said when something was violated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from bench.chaos.campaign import Outcome
from bench.chaos.report import explained, table, write
from bench.chaos.verdict import Verdict

CLEAN = Outcome(
    "lumia", Verdict({"accepted": 7, "lost": 0}, {}), {"poison": 2}, [], 4, 1, 3, 9.0, True, {}, "redis://x"
)
BROKEN = replace(CLEAN, verdict=Verdict({"accepted": 7, "lost": 1}, {"lost": ["g1/5"]}), runs={"g1/5": "run-5"})
PEER = replace(CLEAN, name="celery", verdict=Verdict({"accepted": 9}, {}))


def test_the_table_has_a_column_for_each_site_and_leaves_out_what_one_does_not_promise() -> None:
    rows = {line[:44].strip(): line[44:].split() for line in table([CLEAN, PEER]).splitlines()}
    assert rows[""] == ["lumia", "celery"]
    assert (rows["accepted"], rows["lost"]) == (["7", "9"], ["0", "–"])
    assert rows["faults"] == ["2", "2"] and rows["processes killed"] == ["4", "4"]


def test_a_violation_names_messages_and_the_commands_to_look_at_them(tmp_path: Path) -> None:
    assert explained(CLEAN, tmp_path) == ""
    text = explained(BROKEN, tmp_path)
    assert "lost: g1/5" in text and f"kept: {tmp_path}" in text
    assert f"LUMIA_ROOT={tmp_path}/bot LUMIA_REDIS_URL=redis://x lumia trace run-5   # g1/5" in text
    assert "not drained in time" in explained(replace(CLEAN, drained=False), tmp_path)


def test_the_figures_are_written_for_machines(tmp_path: Path) -> None:
    write(tmp_path / "results" / "chaos.json", [CLEAN, BROKEN], seed=7)
    found = json.loads((tmp_path / "results" / "chaos.json").read_text())
    assert found["conditions"] == {"seed": 7} and found["versions"]["celery"]
    assert found["sites"]["lumia"]["violations"] == {"lost": ["g1/5"]} and not found["sites"]["lumia"]["ok"]
