"""`kill -9` at every step boundary of every operation: afterwards everything is as it was, or everything is done."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.errors import OperationError
from lumia.pkg import failpoints, journal, mutex, operation, recovery
from lumia.pkg.model import Kind
from lumia.pkg.progress import Step
from tests.support import full_disk
from tests.support.cases import OPERATIONS, Cases, check, shape
from tests.support.crashing import Server, server


@pytest.fixture(scope="module")
def crash() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder in memory, where there is one: what is tested here is order, not the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


@pytest.fixture(scope="module", params=OPERATIONS)
def cases(request: pytest.FixtureRequest, folder: Path) -> Cases:
    return Cases(folder, request.param)


def test_an_operation_killed_anywhere_is_finished_or_undone(cases: Cases, crash: Server) -> None:
    order = [*journal.STEPS]
    # Of those that an upgrade has, too, only what comes after a step: bench/pkg_campaign.py takes them all.
    for point in cases.points if cases.kind == "upgrade" else cases.points[1::2]:
        bot, plan = cases.next()
        assert crash.run(bot.layout.root, plan, point) == -9, point
        recovered = recovery.recover(bot.layout.root)
        outcome = check(cases, bot, point)
        late = order.index(point.removesuffix(".done")) >= order.index("deploy")
        assert outcome == ("new" if late else "old"), point
        if recovered is not None:
            assert recovered.outcome == ("finished" if late else "undone"), point


def test_an_operation_that_fails_anywhere_is_undone_at_once(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    for point in [*cases.points[1::3], *cases.points[-3:]]:  # the campaign of bench/pkg_campaign.py takes them all
        bot, plan = cases.next()
        monkeypatch.setenv(failpoints.VARIABLE, f"{point}=error")
        if point in ("finish.done", "clean", "clean.done"):
            operation.run(plan, layout=bot.layout)
            assert check(cases, bot, point) == "new", point
        else:
            with pytest.raises(OperationError, match="Everything is as it was before"):
                operation.run(plan, layout=bot.layout)
            assert check(cases, bot, point) == "old", point


@pytest.mark.parametrize("kind", ["upgrade", "remove"])
def test_the_python_packages_of_an_operation_killed_anywhere_are_those_of_its_outcome(
    folder: Path, crash: Server, kind: Kind
) -> None:
    cases = Cases(folder, kind, packages=True)
    points = [point for point in cases.points if point.partition(".")[0] in ("build", "packages", "deploy")]
    assert len(points) == (4 if kind == "remove" else 7)
    for point in points:
        bot, plan = cases.next()
        assert crash.run(bot.layout.root, plan, point, shelf=cases.shelf) == -9, point
        recovery.recover(bot.layout.root)
        assert check(cases, bot, point) == ("new" if point.startswith("deploy") else "old"), point
        if point == "packages.done":  # and so are those of one whose undoing is killed
            bot, plan = cases.next()
            assert crash.run(bot.layout.root, plan, point, shelf=cases.shelf) == -9
            for undoing in ("undo-packages", "undo-packages.done"):
                assert crash.recover(bot.layout.root, undoing) == -9, undoing
            recovery.recover(bot.layout.root)
            assert check(cases, bot, point) == "old"


@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_hook_that_is_cut_off_with_its_operation_leaves_nothing_between(
    folder: Path, crash: Server, kind: Kind
) -> None:
    cases = Cases(folder, kind, hooks=True)
    hooked = [point for point in cases.points if "hook" in point]
    assert len(hooked) == 4
    for point in hooked:
        bot, plan = cases.next()
        assert crash.run(bot.layout.root, plan, point) == -9
        recovery.recover(bot.layout.root)
        assert check(cases, bot, point) == ("new" if point.startswith("uninstall") else "old")


def test_undoing_that_is_killed_anywhere_is_gone_on_with(folder: Path, crash: Server) -> None:
    cases = Cases(folder / "undo", "upgrade")
    for step in journal.UNDO_STEPS:
        point = step if step == "undo" else f"{step}.done"
        bot, plan = cases.next()
        assert crash.run(bot.layout.root, plan, "index.done") == -9
        assert crash.recover(bot.layout.root, point) == -9, point
        recovery.recover(bot.layout.root)
        assert check(cases, bot, point) == "old", point


def test_every_step_is_among_those_that_are_cut_off(folder: Path) -> None:
    passed = {point for kind in OPERATIONS for point in Cases(folder / "all", kind, hooks=True).points}
    assert {point.removesuffix(".done") for point in passed} == {*journal.STEPS} - {"trust", "disabled", "packages"}


def test_a_disk_that_takes_no_more_leaves_everything_as_it_was(folder: Path, crash: Server) -> None:
    """RLIMIT_FSIZE makes every write above some size fail."""
    cases = Cases(folder / "limit", "upgrade")
    outcomes = []
    for largest in (0, 3_000, 300_000):
        bot, plan = cases.next()
        assert crash.run(bot.layout.root, plan, largest=largest) in (0, 1)
        recovery.recover(bot.layout.root)
        outcomes.append(check(cases, bot, str(largest)))
    assert outcomes == ["old", "old", "new"]


def test_a_full_disk_leaves_everything_as_it_was_whenever_it_is_full(folder: Path) -> None:
    """A tiny file system of its own, with another number of free kilobytes each time."""
    if not full_disk.possible():
        pytest.skip("this machine lets nobody mount a tmpfs in a namespace of its own (unshare -rm)")
    cases = Cases(folder / "full", "upgrade")
    bot, plan = cases.next()
    found = full_disk.outcomes(bot, plan, folder / "mount", (0, 100, *range(252, 336, 6), 600))
    for outcome in found:
        assert outcome.state == cases.old or shape(outcome.state) == cases.new, outcome.free
    states = [outcome.state == cases.old for outcome in found]
    assert states[0] and not states[-1]
    assert any("No space left" in outcome.said for outcome in found)


@pytest.mark.parametrize("point,waits", [("config.done", False), ("swap-out.done", True)])
def test_a_live_pkg_is_left_alone_and_waited_for_only_while_it_exchanges_folders(
    folder: Path, crash: Server, point: str, waits: bool
) -> None:
    cases = Cases(folder / point, "upgrade")
    bot, plan = cases.next()
    assert crash.run(bot.layout.root, plan, point) == -9
    seen: list[Step] = []
    with mutex.hold(bot.layout):
        assert recovery.recover(bot.layout.root, on_step=seen.append, wait=0.1) is None
    assert [step.name for step in seen] == ["wait"] * waits
    assert recovery.recover(bot.layout.root) is not None
    assert check(cases, bot, point) == "old"


def test_nothing_to_recover_costs_one_look(tmp_path: Path) -> None:
    assert recovery.recover(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
