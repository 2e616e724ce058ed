"""Run ids: sorted by time, the same again for the same cause."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lumia.ids import LENGTH, child_id, fired_id, timed_id

TIMES = st.integers(0, 4_000_000_000_000).map(lambda ms: ms / 1000)
NOISE = st.integers(0, (1 << 60) - 1)
CAUSES = st.tuples(st.builds(timed_id, TIMES, NOISE), st.integers(0, 50), st.integers(0, 5000) | st.just("retry"))


@given(TIMES, TIMES, NOISE, NOISE)
def test_ids_sort_by_the_millisecond_they_were_made_in(one: float, other: float, noise: int, more: int) -> None:
    first, second = timed_id(one, noise), timed_id(other, more)
    if int(one * 1000) < int(other * 1000):
        assert first < second
    assert len(first) == LENGTH and first.isalnum() and first == first.lower()


@given(TIMES, NOISE, NOISE)
def test_two_ids_of_one_moment_differ_by_their_noise(moment: float, one: int, other: int) -> None:
    assert (timed_id(moment, one) == timed_id(moment, other)) == (one == other)


@given(CAUSES)
def test_a_child_has_the_same_id_at_every_try_and_the_time_of_its_parent(cause: tuple[str, int, int | str]) -> None:
    assert child_id(*cause) == child_id(*cause)
    assert child_id(*cause)[:10] == cause[0][:10]
    assert len(child_id(*cause)) == LENGTH


@given(st.sets(CAUSES, max_size=50))
def test_children_of_different_causes_have_different_ids(causes: set[tuple[str, int, int | str]]) -> None:
    assert len({child_id(*cause) for cause in causes}) == len(causes)


@given(st.text(max_size=9), st.integers(0, 4_000_000_000))
def test_two_beats_give_a_due_time_the_same_id(schedule: str, due: int) -> None:
    assert fired_id(schedule, due) == fired_id(schedule, float(due))
    assert fired_id(schedule, due) != fired_id(schedule, due + 1)
    assert fired_id(schedule + "x", due) != fired_id(schedule, due)


def test_ids_hold_no_letters_that_look_alike() -> None:
    letters = set("".join(timed_id(n * 1e6, n * 7919**4 % (1 << 60)) for n in range(500)))
    assert letters.isdisjoint("ilou") and len(letters) == 32
