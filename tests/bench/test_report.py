"""Tables, the page and the JSON of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from bench import comparison, contenders, report
from bench.session import Latency, Round


def entry(name: str, *rates: float, missing: str = "") -> dict[str, Any]:
    one = next(known for known in contenders.ALL if known.name == name)
    rounds = [
        Round(accepted=1000, in_flight=900, rate=rate, worker_us=500, valkey_us=300,
              latency={"steady": Latency(50, 50, 150, 3.0, 9.0), "half": Latency(rate / 2, 49, 150, 4.0, 12.0)})
        for rate in rates
    ]  # fmt: skip
    return comparison._entry(one, rounds, {name: missing} if missing else {})


def results() -> dict[str, Any]:
    found = {
        "measured": "2026-01-01T00:00:00+00:00", "machine": comparison.machine(),
        "versions": {"celery": {"celery": "5.7.0"}},
        "conditions": {"rounds": 3}, "memory": {"in_lanes": 900, "without_lane": 950, "finished": 800, "archived": 300},
        "contenders": [entry("lumia", 1000, 900, 1100), entry("celery-chain-solo", 200, 190, 210),
                       entry("huey", missing="huey: its environment can't be made: offline")],
    }  # fmt: skip
    spread = {"median": 5.0, "low": 4.0, "high": 6.0, "values": [4.0, 5.0, 6.0]}
    found["handlers"] = [
        {"handlers": n, "load_ms": 1.0, "build_ms": 1.0, "lookup": spread, "accept": spread, "work": spread}
        for n in (10, 10_000)
    ]
    found["lanes"] = [
        {"lanes": n, "keys": 0, **dict.fromkeys(("idle_accept", "idle_work", "active_accept", "active_work"), spread)}
        for n in (1, 100_000)
    ]
    return found


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert report.table(("a", "b"), [("long cell", "1")]) == ("| a         | b |\n|-----------|---|\n| long cell | 1 |")


def test_rounds_become_a_median_with_its_spread() -> None:
    found = entry("lumia", 1000, 900, 1100)
    assert found["rate"] == {"median": 1000, "low": 900, "high": 1100, "values": (1000, 900, 1100)}
    assert found["latency"]["half"]["offered"]["median"] == 500
    assert set(found) == {"name", "title", "guarantee", "events", "settings", "rate", "accepted", "in_flight",
                          "worker_us", "valkey_us", "latency"}  # fmt: skip


def test_a_peer_that_was_not_measured_says_why_and_has_no_figures() -> None:
    found = entry("huey", 800, missing="huey: offline")
    assert (found["missing"], "rate" in found) == ("huey: offline", False)
    table = report.throughput_table({"contenders": [found]})
    assert "not measured: huey: offline" in table


def test_every_guarantee_stands_beside_its_figure() -> None:
    table = report.guarantee_table(results()).splitlines()
    assert "1,000" in table[2] and "strict within a lane" in table[2]
    assert "200" in table[3] and "visibility timeout" in table[3]


def test_the_results_are_written_as_json_page_and_charts(tmp_path: Path) -> None:
    report.write(results(), tmp_path)
    assert json.loads((tmp_path / "latest.json").read_text())["contenders"][0]["name"] == "lumia"
    page = (tmp_path / "README.md").read_text()
    assert "| throughput over the best Celery chain " in page and "5.00×" in page
    charts = {path.stem for path in tmp_path.glob("*.svg")}
    assert charts == {"throughput", "cpu", "memory", "latency-p50", "latency-p99", "handlers", "lanes"}
    assert all(f"({name}.svg)" in page for name in charts)
    for path in tmp_path.glob("*.svg"):
        ET.fromstring(path.read_text())


def test_parts_of_a_comparison_make_a_report_of_those_parts() -> None:
    text = report.text({**results(), "handlers": None, "lanes": None, "memory": None})
    assert "not measured" in text and "idle lanes:" not in text
