"""How runs are written for the scripts: the quick way for usual ones says the same as the long way."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lumia.journal import JournalEntry, entry_text
from lumia.marks import PRIORITIES, Retry
from lumia.ports import Limits, RunRequest
from lumia.routes import Plan, PlanStep
from tasks import wire

texts = st.text(min_size=1, max_size=20)
steps = st.builds(PlanStep, texts, st.just("pipe"), st.just("g"), st.sampled_from(["default", "other"]),
                  st.none() | st.floats(0.1, 100.0), st.booleans(), st.just(Retry()))  # fmt: skip
plans = st.lists(steps, max_size=2).map(Plan.of)


@st.composite
def requests(draw: st.DrawFn) -> RunRequest:
    run = draw(texts)
    return RunRequest(
        run, draw(st.sampled_from(["pipe", "event"])), draw(texts), draw(plans), "box", key=draw(st.just("") | texts),
        dedup=draw(st.just("") | texts), priority=draw(st.sampled_from(PRIORITIES)), root_id=run, attached=False,
    )  # fmt: skip


@given(requests(), st.booleans(), st.floats(1.0, 100.0))
def test_a_usual_run_is_written_as_any_other(request: RunRequest, with_plan: bool, seconds: float) -> None:
    limits = Limits(step_timeout=seconds)
    for _ in range(2):  # the second time from what is kept
        quick = json.loads(wire.run(request, limits, "w", with_plan=with_plan))
        long = json.loads(wire._unusual(request, limits, "w", with_plan=with_plan))
        assert {**quick, "j": json.loads(quick["j"])} == {**long, "j": json.loads(long["j"])}
        assert json.loads(quick.get("je", "0")) == json.loads(long.get("je", "0"))


@given(texts, st.just("") | texts, texts, st.just("") | texts, st.dictionaries(texts, texts, max_size=2))
def test_an_entry_written_without_being_made_says_the_same(
    run: str, root: str, id: str, key: str, detail: dict[str, str]
) -> None:
    made = JournalEntry("start", run, root, id, key, detail=detail, flow="pipe", outcome="done", reason=key)
    text = entry_text("start", run, root, id, key, detail=detail, flow="pipe", outcome="done", reason=key)
    assert json.loads(text) == json.loads(made.dump())
