"""Messages by priority, and by age."""

from __future__ import annotations

from lumia.inmemory_ready import Ready


def test_urgent_messages_come_first_and_equal_ones_in_order() -> None:
    ready = Ready()
    for number, priority in enumerate([3, 9, 0, 3, 0]):
        ready.push("q", priority, str(number), now=0.0)
    assert [ready.pop("q", 1.0, ageing=30.0) for _ in range(6)] == ["2", "4", "0", "3", "1", ""]


def test_an_overdue_message_goes_ahead_every_other_time() -> None:
    ready = Ready()
    for number in range(3):
        ready.push("q", 9, f"bulk {number}", now=0.0)
        ready.push("q", 0, f"urgent {number}", now=31.0)
    found = [ready.pop("q", 31.0, ageing=30.0) for _ in range(6)]
    assert found == ["bulk 0", "urgent 0", "bulk 1", "urgent 1", "bulk 2", "urgent 2"]


def test_nothing_goes_ahead_where_ageing_is_off() -> None:
    ready = Ready()
    ready.push("q", 9, "bulk", now=0.0)
    ready.push("q", 0, "urgent", now=1e6)
    assert ready.pop("q", 1e6, ageing=0.0) == "urgent"


def test_any_queue_gives_the_most_urgent_message_of_all() -> None:
    ready = Ready()
    ready.push("a", 3, "normal", now=0.0)
    ready.push("b", 0, "urgent", now=0.0)
    assert [ready.pop(None, 0.0, 30.0), ready.pop(None, 0.0, 30.0), ready.pop(None, 0.0, 30.0)] == [
        "urgent",
        "normal",
        "",
    ]
