"""The journal's entries put together by tree, run and try."""

from __future__ import annotations

from lumia.journal import JournalEntry
from lumia.replay import recorded
from lumia.replay.records import is_outside, numbered, unusable

BOX = '{"j":1}'


def entry(kind: str, run_id: str = "r1", root_id: str = "", **values: object) -> JournalEntry:
    return JournalEntry(kind, run_id, root_id, id="msg", **values)  # type: ignore[arg-type]


def story() -> list[JournalEntry]:
    return [
        entry("start", flow="pipe"),
        entry("step", step=0, handler="p.a", outcome="retry", attempt=1, detail={"box": BOX}),
        entry("step", step=0, handler="p.a", outcome="next", attempt=2),
        entry("start", "r2", "r1", flow="event", detail={"cause": "r1/0"}),
        entry("effect", step=0, handler="p.a", outcome="done", attempt=2, detail={"effect": "ask"}),
        entry("step", step=1, handler="p.b", outcome="failed", attempt=1),
        entry("dead", step=1, handler="p.b"),
        entry("end", outcome="failed"),
        entry("gap", run_id=""),
        entry("start", "r0", flow="pipe"),
    ]


def test_entries_become_trees_runs_and_tries() -> None:
    first, second = recorded(story())

    assert (first.root_id, second.root_id) == ("r0", "r1")
    root = second.root
    assert (root.flow, root.box, root.outcome, root.dead) == ("pipe", BOX, "failed", {1})
    assert [entry.attempt for entry in root.tries[0]] == [1, 2]
    assert root.handlers == ["p.a", "p.b"]
    assert numbered(root.tries) == [("p.a", 0), ("p.b", 1)]
    assert [run.run_id for run in second.caused_by("r1", 0)] == ["r2"]
    assert (second.steps, len(second.effects)) == (3, 1)


def test_a_handler_that_was_removed_then_is_no_part_of_the_way() -> None:
    skipped = entry("step", step=2, handler="p.c", outcome="skipped", reason="removed", attempt=1)
    assert recorded([*story(), skipped])[1].root.handlers == ["p.a", "p.b"]


def test_what_is_missing_of_a_tree_is_named() -> None:
    begun, whole = recorded(story())
    assert unusable(whole, b"s") == ""
    assert unusable(begun, b"s") == "it has not begun yet"
    (headless,) = recorded(story()[1:9])
    assert unusable(headless, b"s") == "its beginning is not in the journal"
    (waiting,) = recorded([entry("start"), entry("end", outcome="stopped")])
    assert unusable(waiting, b"s") == "stopped before its first step"
    (damaged,) = recorded([entry("start"), entry("step", step=0, detail={"box": '{"d":"AA","s":"00"}'})])
    assert unusable(damaged, b"s").startswith("its Box can't be read here: ")


def test_tries_that_a_limit_or_a_lost_worker_ended_are_from_outside() -> None:
    reasons = {
        "hung: not done within its 60 s, tried 1 time": True,
        "given up: 3 tries were lost with their workers": True,
        "LumiaError: p.a ran longer than its 5 s and was cancelled": True,
        "ValueError: hung: up": False,
    }
    for reason, outside in reasons.items():
        assert is_outside(entry("step", outcome="failed", reason=reason)) is outside
    assert not is_outside(entry("step", outcome="stop", reason="hung: over"))
    assert not is_outside(None)
