"""What a bot root takes from the deployment record, and what it refuses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.deployment import Member, Wanted
from lumia.errors import DeploymentRecordError, OldRecordError, PkgError, StaleDeploymentError
from lumia.inmemory import InMemoryTransport
from lumia.opening import open_bot, taking
from lumia.pkg import arriving, basis, bringing, deploying, journal, layers, lockfile, mutex, sealing
from lumia.pkg.arriving import arrive
from lumia.pkg.bringing import Root
from lumia.pkg.layers import Package
from lumia.pkg.layout import Layout
from lumia.pkg.model import Locked
from lumia.plugin import PluginSet
from lumia.runtime import Runtime
from lumia.services import Services
from tests.support.machines import Machine
from tests.support.packages import Shop
from tests.support.shelf import in_place_of_pip
from tests.support.wheels import wheel
from tests.support.workers import bot_root, write_plugin

DICE = Locked("dice", "1.0.0", "v1.0.0", "1" * 40, "/nowhere/dice", "git", f"sha256:{'a' * 64}")
SECRET = b"s" * 32


def wanting(**fields: Any) -> Wanted:
    return Wanted({"dice": asdict(DICE) | fields}, origin="elsewhere:/bot")


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[Runtime]:
    opened = open_bot(bot_root(tmp_path / "bot"), transport=InMemoryTransport())
    yield opened
    opened.close()


def root_of(bot: Runtime) -> Root:
    assert bot.config is not None
    return Root(bot.root, bot.config)


def test_a_seal_holds_for_one_record_and_one_secret() -> None:
    record = sealing.sealed(wanting(), SECRET)
    assert sealing.verified(Wanted.load(record.dump()), SECRET) == record
    for other in (
        wanting(), replace(record, seal="é"), replace(record, disabled=("echo",)), replace(record, origin="here"),
        replace(record, plugins=wanting(url="https://evil.example/x").plugins),
    ):  # fmt: skip
        with pytest.raises(DeploymentRecordError, match="not signed with this bot's secret"):
            sealing.verified(other, SECRET)
    with pytest.raises(DeploymentRecordError):
        sealing.verified(record, b"t" * 32)


@pytest.mark.parametrize("fields", [{"name": "other"}, {"url": "--upload-pack=x"}, {"commit": "HEAD"}, {"more": 1}])
def test_a_lock_is_checked_as_its_file_is_even_when_it_is_signed(fields: dict[str, Any]) -> None:
    with pytest.raises(DeploymentRecordError, match=r"^the lock of the deployment record .*; have .*`pkg sync`"):
        sealing.verified(sealing.sealed(wanting(**fields), SECRET), SECRET)


def test_a_name_cannot_lead_out_of_the_folder() -> None:
    name = "../../../../config"
    record = Wanted({name: asdict(replace(DICE, name=name))})
    with pytest.raises(DeploymentRecordError, match=r"^the lock of the deployment record .*; have .*`pkg sync`"):
        sealing.verified(sealing.sealed(record, SECRET), SECRET)


@given(st.one_of(st.binary(), st.recursive(st.none() | st.text() | st.integers(), st.lists).map(str)))
def test_what_is_no_record_is_told_apart(text: str | bytes) -> None:
    with pytest.raises(DeploymentRecordError, match="damaged"):
        Wanted.load(text)


@pytest.mark.parametrize("text", ['{"disabled": [1]}', '{"disabled": [], "plugins": {"a": 1}}',
                                  '{"disabled": [], "serial": true}',
                                  '{"disabled": [], "plugins": [1]}', '{"disabled": [], "url": ""}'])  # fmt: skip
def test_a_record_of_the_wrong_shape_is_told_apart(text: str) -> None:
    with pytest.raises(DeploymentRecordError, match="damaged"):
        Wanted.load(text)


def test_nothing_is_brought_loaded_or_restored_from_an_unsigned_record(
    bot: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Root, "_sync", lambda root, wanted: pytest.fail("an unsigned record was taken"))
    monkeypatch.setattr("lumia.opening.load_plugins", lambda *a, **b: pytest.fail("an unsigned record was taken"))
    takes = taking(bot, "all", switched=lambda changed: None)
    for attempt in (
        lambda: takes.bring(wanting(), 1),
        lambda: takes.restore(wanting(), 1),
        lambda: takes.load(replace(wanting(), origin=root_of(bot).place), PluginSet(Services())),
    ):
        with pytest.raises(DeploymentRecordError, match="not signed"):
            attempt()


def test_a_process_that_starts_refuses_an_unsigned_record_and_says_so(
    bot: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Root, "_sync", lambda root, wanted: pytest.fail("an unsigned record was taken"))
    assert bot.transport.deployments().begin(wanting(), 60) == 1
    with caplog.at_level(logging.ERROR):
        assert arrive(bot).number == 0
    assert "deployment 1 is refused" in caplog.text and "not signed" in caplog.text


def test_only_what_an_operation_handed_over_itself_may_it_take_back(bot: Runtime) -> None:
    root, deployments = root_of(bot), bot.transport.deployments()
    deployments.begin(root.sealed(replace(wanting(), operation="op-1")), 60)
    assert basis.base_of(root, deployments, "op-1") == 1
    for operation in ("", "op-2"):
        with pytest.raises(StaleDeploymentError, match="dice: not here, 1"):
            deploying.hand_over(bot.transport, root, {}, operation=operation)
    assert deploying.hand_over(bot.transport, root, {}, operation="op-1").number == 2


@pytest.mark.parametrize("fields, told", [
    ({"version": "2.0.0"}, "dice: 1.0.0 here, 2.0.0 in the bot"),
    ({"commit": "2" * 40}, "dice: 1.0.0 (commit 111111111111) here, 1.0.0 (commit 222222222222) in the bot"),
    ({"enabled": False}, "dice: enabled here, disabled in the bot"),
    ({"requested": False}, "(its entry in the lock differs)"),
])  # fmt: skip
def test_what_differs_is_told_as_exactly_as_is_needed(fields: dict[str, Any], told: str) -> None:
    assert told in basis.differences(wanting(), wanting(**fields))


def test_an_older_record_that_is_put_back_is_refused_and_replaced_by_who_starts(
    bot: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    root, deployments = root_of(bot), bot.transport.deployments()
    assert deploying.hand_over(bot.transport, root, {}, operation="op-1").number == 1
    older = deployments.wanted(1)
    assert older is not None and root.verified(older).serial == root.serial == 1
    Layout(bot.root).lock.parent.mkdir(exist_ok=True)
    lockfile.write(bot.root, lockfile.Lock())
    assert deploying.hand_over(bot.transport, root, {}, operation="op-2").number == 2
    assert deploying.hand_over(bot.transport, root, {}, operation="op-2").number == 2  # begun once
    assert root.serial == 2

    deployments.begin(older, 60)
    with pytest.raises(OldRecordError, match=r"serial 1\) is older than what .* has worked with \(serial 2\)"):
        taking(bot, "all", switched=lambda changed: None).load(older, PluginSet(Services()))
    with pytest.raises(OldRecordError, match="`pkg sync plugins/plugins"):
        basis.require(root, deployments)
    assert arrive(bot).number == 4
    assert "deployed anew" in caplog.text
    newest = deployments.wanted(4)
    assert newest is not None and newest.serial == root.serial == 3


def test_what_was_rolled_back_makes_no_other_record_an_old_one(bot: Runtime) -> None:
    root, deployments = root_of(bot), bot.transport.deployments()
    deploying.hand_over(bot.transport, root, {})
    active = deployments.wanted(1)
    root.note(2, "what was tried")
    assert active is not None and root.verified(active) == active and root.serial == 1


def test_what_was_rolled_back_is_an_old_record_after_the_next_deployment(bot: Runtime) -> None:
    root, deployments = root_of(bot), bot.transport.deployments()
    deploying.hand_over(bot.transport, root, {})
    deployments.attend(Member("worker"))
    tried = root.sealed(replace(wanting(), serial=2))
    deployments.answer(deployments.begin(tried, 60), "worker", "failed", ("broken",))
    assert (deployments.look().state, root.verified(tried)) == ("rolled back", tried)
    deployments.leave("worker")
    deploying.hand_over(bot.transport, root, {}, operation="op")
    assert root.serial == 3
    with pytest.raises(OldRecordError):
        root.verified(tried)


def test_of_many_differences_the_first_are_told() -> None:
    many = Wanted({f"p{n}": {"version": "1"} for n in range(9)})
    assert basis.differences(many, Wanted({})).endswith("p4: 1 here, not in the bot; and 4 more")


def test_python_packages_come_with_the_plugins_and_go_back_with_them(tmp_path: Path) -> None:
    """Whatever the machine where it began has of its own; the newer library would do for the older plugin, too."""
    shop, shelf = Shop(tmp_path / "shop"), tmp_path / "wheels"
    machine = Machine(tmp_path / "bot", shop)
    bot = open_bot(machine.layout.root, transport=InMemoryTransport())
    root, used = root_of(bot), []
    with in_place_of_pip(shelf):
        for number in (1, 2):
            wheel(shelf, "layered", f"{number}.0")
            locked = shop.publish("dice", f"{number}.0.0", python_dependencies=[f"layered>={number}"])
            root.bring(root.sealed(Wanted({"dice": locked.as_dict()}, root.held().disabled)), number)
            used.append(layers.current(bot.root))
            assert used[-1] is not None and root.held().layer == used[-1].name
            assert used[-1].packages == (Package("layered", f"{number}.0"),)
        root.restore(None)
    bot.close()
    assert layers.current(bot.root) == used[0]
    assert machine.lock.plugins["dice"].version == "1.0.0"


def test_packages_that_are_gone_are_built_anew_by_who_starts(
    bot: Runtime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = tmp_path / "wheels"
    write_plugin(bot.root, "dice", "", python_dependencies=["layered>=1"])
    layers.point(bot.root, layers.pointing(layers.layer_of(bot.root, [Package("layered", "1.0")], {}, "test")))
    with in_place_of_pip(shelf):
        with mutex.hold(Layout(bot.root)), patch.object(bringing, "MEND_SECONDS", 0.0):
            arrive(bot)  # and a `pkg` at work keeps nobody from starting
        assert "are gone, and plugins that need them can't be loaded" in caplog.text
        wheel(shelf, "layered", "1.0")
        arrive(bot)
    now = layers.current(bot.root)
    assert now is not None and now.packages == (Package("layered", "1.0"),)
    assert now.requirements == {"dice": ("layered>=1",)}
    # Whatever hands plugins over, also what finishes or undoes an operation, tells the packages they are at work with.
    deploying.hand_over(bot.transport, root_of(bot), {})
    handed = bot.transport.deployments().wanted(1)
    assert handed is not None and handed.layer == now.name


def test_processes_of_one_machine_note_at_once(bot: Runtime) -> None:
    root = root_of(bot)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(root.note, range(1, 41)))
    noted = root.noted()
    assert noted is not None and 1 <= noted.number <= 40


def test_a_process_starts_although_its_root_cannot_be_noted(
    bot: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(root: Root, number: int, before: str = "") -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Root, "note", full)
    root = root_of(bot)
    monkeypatch.setattr(Root, "managed", True)
    bot.transport.deployments().begin(root.sealed(root.held()), 60)
    assert arrive(bot).number == 0
    assert "No space left on device" in caplog.text


def test_a_process_that_may_not_take_the_turn_starts_and_deploys_without(
    bot: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lumia.pkg.turn.reached", lambda root: nullcontext((bot.transport, bot.config)))
    Layout(bot.root).lock.parent.mkdir(exist_ok=True)
    lockfile.write(bot.root, lockfile.Lock())
    (Layout(bot.root).data / "turn").mkdir(parents=True)
    assert arrive(bot).number == 1


def test_a_process_that_starts_waits_until_a_pkg_at_work_has_put_back_what_was_rolled_back(
    bot: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, deployments = root_of(bot), bot.transport.deployments()
    active, tried = root.sealed(Wanted({})), root.sealed(wanting())
    deployments.begin(active, 60)
    holds, looks = [tried], threading.Event()

    def held(_: Root) -> Wanted:
        looks.set()
        return holds[-1]

    at_work = [True]
    monkeypatch.setattr(Root, "held", held)
    monkeypatch.setattr("lumia.pkg.arriving._at_work", lambda _: at_work[-1])
    monkeypatch.setattr("lumia.pkg.deploying.hand_over", lambda *a, **b: pytest.fail("half a change was deployed"))
    with ThreadPoolExecutor(1) as pool:
        arriving = pool.submit(arrive, bot)
        assert looks.wait(10)
        assert not arriving.done()
        holds.append(active)
        assert arriving.result(10).number == 1


def test_an_operation_that_died_is_cleared_up_by_the_process_that_finds_it(bot: Runtime) -> None:
    layout = Layout(bot.root)
    assert not arriving._at_work(bot)
    with mutex.hold(layout):
        begun = journal.Journal(
            id="20261122T000000-abcdef", started="2026-11-22T00:00:00Z", command="pkg -R dice",
            area="data/pkg/staging/x", changes=(), commit=journal.Commit(branch="main", old=None), had_lock=False,
        )  # fmt: skip
        journal.write(layout, begun)
        assert arriving._at_work(bot)
    assert not arriving._at_work(bot)
    assert not layout.journal.exists()


@pytest.mark.parametrize("kinds, refused", [((), False), (("gateway",), True), (("gateway", "worker"), False)])
def test_a_bot_whose_workers_are_all_away_takes_no_change(
    bot: Runtime, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...], refused: bool
) -> None:
    for kind in kinds:
        bot.transport.deployments().attend(Member(f"here:{kind}", kind))
    monkeypatch.setattr(deploying, "reached", lambda root: nullcontext((bot.transport, bot.config)))
    monkeypatch.setattr(deploying, "WORKER_SECONDS", 0.05)
    said: list[str] = []
    with pytest.raises(PkgError, match="but no worker") if refused else nullcontext():
        deploying.await_worker(bot.root, said.append)
    assert said == (["waiting for a worker of the bot"] if refused else [])
