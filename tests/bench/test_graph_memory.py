"""The memory's benches run from end to end, at a small size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.graph_memory import __main__ as command


@pytest.mark.parametrize("part", command.PARTS)
def test_the_help_gives_an_example_of_every_part(part: str) -> None:
    assert f"python -m bench.graph_memory {part} " in command.parser().format_help()


@pytest.mark.services
def test_recall_is_measured_and_a_kept_database_used_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for _ in range(2):
        command.main(["recall", "--instances", "2000", "--queries", "5", "--keep", str(tmp_path)])
        found = json.loads(capsys.readouterr().out)
        assert found["instances"] == 2000
        for scope in ("large scope", "1 % scope"):
            assert found[scope]["returned"] == 10
            assert found[scope]["share of exact"] >= 0.98
            assert 0 < found[scope]["recall"]["p50"] <= found[scope]["recall"]["p95"]


@pytest.mark.services
def test_inserts_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["inserts", "--messages", "60"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(line.endswith("messages/s") for line in lines)
