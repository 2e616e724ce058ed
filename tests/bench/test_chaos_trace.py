"""Recovery times and steps that were run although they were alive, from what handlers noted."""

from __future__ import annotations

from pathlib import Path

from bench.chaos.trace import Death, Freeze, Line, Recoveries, holders, percentile, read, recoveries, rerun
from tasks.keeper import TTL_SECONDS

OLD, MIDDLE, NEW = 10, 15, 20


def line(kind: str, at: float, pid: int, step: int = 0, run: str = "r") -> Line:
    return Line(kind, at, pid, run, step, "p.s")


def test_a_claim_recovers_when_its_step_begins_elsewhere() -> None:
    lines = [line("s", 1.0, OLD), line("s", 7.5, NEW), line("e", 8.0, NEW)]
    assert recoveries(lines, [Death(OLD, 2.0)]).usual == (5.5,)


def test_a_step_that_was_committed_before_the_kill_is_no_claim_that_recovers() -> None:
    lines = [line("s", 1.0, OLD), line("e", 1.9, OLD), line("s", 2.3, NEW, step=1)]
    assert recoveries(lines, [Death(OLD, 2.0)]).usual == ()


def test_a_step_that_ended_but_was_not_committed_recovers_too() -> None:
    lines = [line("s", 1.0, OLD), line("e", 1.99, OLD), line("s", 8.0, NEW)]
    assert recoveries(lines, [Death(OLD, 2.0)]).usual == (6.0,)


def test_a_process_that_ended_by_itself_or_had_passed_the_run_on_held_nothing() -> None:
    lines = [line("s", 1.0, OLD), line("s", 1.5, NEW), line("s", 7.5, OLD)]
    assert recoveries(lines, [Death(OLD, 2.0)]).usual == ()
    assert recoveries([line("s", 1.0, OLD), line("s", 3.0, NEW)], [Death(OLD, 2.0, kill=False)]).usual == ()


def test_a_step_run_again_while_it_was_alive_is_found() -> None:
    lines = [line("s", 1.0, OLD), line("s", 3.0, NEW)]
    assert rerun(lines, [], []) == [(lines[0], lines[1])]
    assert rerun(lines, [Death(OLD, 9.0)], [Freeze(OLD, 5.0, 9.0)]) == [(lines[0], lines[1])]


def test_a_death_a_freeze_or_an_error_explains_a_second_start() -> None:
    lines = [line("s", 1.0, OLD), line("s", 3.0, NEW)]
    assert rerun(lines, [Death(OLD, 2.0)], []) == []
    assert rerun(lines, [], [Freeze(OLD, 0.5, 2.0)]) == []
    assert rerun(lines, [], [Freeze(NEW, 0.5, 2.9)]) == []
    assert rerun([lines[0], line("x", 2.0, OLD), lines[1]], [], []) == []
    assert rerun([lines[0], line("s", 3.0, NEW, step=1), line("s", 4.0, NEW, run="other")], [], []) == []


def test_lines_are_read_back_in_order_of_time(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text("e 2.5 7 run-1 0 p.first\ns 2.0 7 run-1 0 p.first\n")
    assert read(file) == [Line("s", 2.0, 7, "run-1", 0, "p.first"), Line("e", 2.5, 7, "run-1", 0, "p.first")]
    assert read(tmp_path / "absent") == []


def test_percentiles_are_of_the_nearest_rank() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([], 0.99)) == (51.0, 100.0, 0.0)


def test_a_run_whose_rescuer_is_killed_before_it_begins_has_two_recoveries(tmp_path: Path) -> None:
    lines = [line("s", 1.0, OLD), line("s", 16.0, NEW)]
    (tmp_path / "w1.log").write_text(
        f"[2026: WARNING] requeued: run r vm:{OLD}:651c dead\n[2026: WARNING] requeued: run r vm:{MIDDLE}:a587 dead\n"
    )
    deaths = [Death(OLD, 2.0), Death(MIDDLE, 7.5)]
    assert recoveries(lines, deaths).usual == (14.0,)
    assert holders(tmp_path) == {"r": {OLD, MIDDLE}}
    assert recoveries(lines, deaths, holders(tmp_path)).usual == (5.5, 8.5)


def test_recoveries_during_which_the_broker_was_away_are_told_apart() -> None:
    lines = [line("s", 1.0, OLD), line("s", 7.5, NEW)]
    deaths = [Death(OLD, 2.0)]
    for outage in [(3.0, 4.0), (0.5, 1.5), (7.0, 9.0), (0.0, 99.0)]:
        assert recoveries(lines, deaths, outages=[outage]) == Recoveries((), (5.5,)), outage
    for outage in [(7.6, 9.0), (-9.0, 2.0 - TTL_SECONDS - 0.1)]:
        assert recoveries(lines, deaths, outages=[outage]) == Recoveries((5.5,)), outage
