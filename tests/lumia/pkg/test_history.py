"""The history of installations: what happened, and the ways back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lumia.errors import PkgError, PlanError, SignatureError
from lumia.pkg import history, lockfile, operation, revocation, trust
from lumia.pkg.history import Finding
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Locked, Plan, Staged
from tests.support.packages import Bot, Shop
from tests.support.plugins import git


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path / "shop")
    for version in ("1.0.0", "1.1.0"):
        shop.publish("dice", version)
    shop.publish("cards", "1.0.0", dependencies={"dice": ">=1"}, python_dependencies=["feedparser>=6"])
    return shop


@pytest.fixture
def bot(tmp_path: Path, shop: Shop) -> Bot:
    return Bot(tmp_path / "bot", shop)


def carry_out(bot: Bot, plan: Plan) -> operation.Done:
    return operation.run(plan, layout=bot.layout)


def kinds(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(one.plugin, one.kind, one.file) for one in found]


def test_the_log_tells_operations_and_what_somebody_committed_by_hand(bot: Bot) -> None:
    assert history.log(bot.layout.root) == []
    first = bot.install("dice", "1.0.0")
    (bot.layout.plugins / "README").write_text("mine", "utf-8")
    git(bot.layout.plugins, "add", "README")
    git(bot.layout.plugins, "commit", "--quiet", "-m", "Say\x1b[31m what is here")
    last = bot.run(bot.action("upgrade", "dice", "1.1.0"), bot.action("install", "cards", "1.0.0"))
    found = history.log(bot.layout.root)
    assert [(one.id, one.title) for one in found] == [
        (last.id, "Upgrade dice 1.0.0 → 1.1.0 and 1 more"),
        (None, "Say what is here"),
        (first.id, "Install dice 1.0.0"),
    ]
    assert found[0].changes == ("Upgrade dice 1.0.0 → 1.1.0", "Install cards 1.0.0")
    assert found[0].commit == last.commit
    assert found[2].changes == ("Install dice 1.0.0",)
    assert found[2].time.tzinfo is not None
    assert len(history.log(bot.layout.root, limit=1)) == 1


def test_rollback_undoes_the_last_operation_and_again_brings_it_back(bot: Bot) -> None:
    bot.install("dice", "1.0.0")
    bot.run(bot.action("upgrade", "dice", "1.1.0"), bot.action("install", "cards", "1.0.0"))
    before = bot.lock
    plan = history.rollback(bot.layout.root)
    assert [(one.kind, one.name) for one in plan.actions] == [("remove", "cards"), ("downgrade", "dice")]
    assert plan.python == {}
    carry_out(bot, plan)
    assert {name: one.version for name, one in bot.lock.plugins.items()} == {"dice": "1.0.0"}
    plan = history.rollback(bot.layout.root)
    assert [(one.kind, one.name) for one in plan.actions] == [("upgrade", "dice"), ("install", "cards")]
    assert plan.python == {"cards": ("feedparser>=6",)}
    carry_out(bot, plan)
    assert bot.lock == before
    assert history.verify(bot.layout.root) == []


def test_rollback_to_an_operation_brings_back_what_was_there_after_it(bot: Bot) -> None:
    first = bot.install("dice", "1.0.0")
    bot.install("dice", "1.1.0")
    bot.remove("dice")
    for to in (first.id, first.commit, first.commit[:10]):
        plan = history.rollback(bot.layout.root, to)
        assert [(one.kind, one.after and one.after.version) for one in plan.actions] == [("install", "1.0.0")]
    with pytest.raises(PlanError, match="'ffff0000' is no operation; `pkg log` lists them"):
        history.rollback(bot.layout.root, "ffff0000")


def test_rollback_to_before_the_first_operation_removes_everything(bot: Bot) -> None:
    with pytest.raises(PlanError, match="nothing to go back to"):
        history.rollback(bot.layout.root)
    bot.install("dice", "1.0.0")
    carry_out(bot, history.rollback(bot.layout.root))
    assert bot.lock == Lock()


def test_rollback_needs_no_signature_for_what_was_installed_here_before(bot: Bot, tmp_path: Path, shop: Shop) -> None:
    bot.install("dice", "1.0.0")
    unsigned = bot.lock
    bot.install("dice", "1.1.0")
    trust.TrustStore(bot.layout.root).trust("dice", "ab" * 32)
    renamed = replace(unsigned.plugins["dice"], tag=None)
    for stranger in (renamed, replace(renamed, key="ab" * 32)):
        with pytest.raises(SignatureError, match="dice"):
            history.sync_plan(bot.layout.root, Lock({"dice": stranger}))
    carry_out(bot, history.rollback(bot.layout.root))
    assert bot.lock == unsigned
    other = Bot(tmp_path / "other", shop)
    trust.TrustStore(other.layout.root).trust("dice", "ab" * 32)
    with pytest.raises(SignatureError, match="of the lock is not signed, and dice was signed before"):
        history.sync_plan(other.layout.root, unsigned)


def test_a_lock_does_not_ascribe_what_is_installed_to_a_key(bot: Bot) -> None:
    locked = bot.install("dice", "1.0.0").lock.plugins["dice"]
    with pytest.raises(SignatureError, match="neither its tag nor the lock"):
        history.sync_plan(bot.layout.root, Lock({"dice": replace(locked, key="ab" * 32)}))
    assert trust.TrustStore(bot.layout.root).plugins() == {}


def test_rollback_brings_back_who_was_enabled(bot: Bot) -> None:
    bot.install("dice", "1.0.0")
    now = bot.lock.plugins["dice"]
    bot.run(replace(bot.action("disable", "dice"), after=replace(now, enabled=False)))
    carry_out(bot, history.rollback(bot.layout.root))
    assert bot.lock.plugins["dice"].enabled


def test_what_one_bot_freezes_another_installs(bot: Bot, tmp_path: Path, shop: Shop) -> None:
    bot.install("dice", "1.1.0")
    bot.install("cards", "1.0.0")
    other = Bot(tmp_path / "other", shop)
    other.install("dice", "1.0.0")
    lock = lockfile.parse(history.freeze(bot.layout.root))
    plan = history.sync_plan(other.layout.root, lock)
    assert [(one.kind, one.name) for one in plan.actions] == [("upgrade", "dice"), ("install", "cards")]
    carry_out(other, plan)
    assert history.freeze(other.layout.root) == history.freeze(bot.layout.root)
    assert history.sync_plan(other.layout.root, lock).actions == ()


def test_a_plugin_from_a_folder_of_this_machine_is_not_frozen(bot: Bot) -> None:
    locked = bot.install("dice", "1.0.0").lock.plugins["dice"]
    lockfile.write(bot.layout.root, Lock({"dice": replace(locked, origin="folder")}))
    with pytest.raises(PkgError, match="dice was installed from a folder of this machine"):
        history.freeze(bot.layout.root)


def test_a_lock_that_does_not_fit_the_bot_is_refused_and_nothing_stays_staged(bot: Bot, shop: Shop) -> None:
    cards = shop.publish("cards", "1.0.0")
    with pytest.raises(PlanError, match="dice"):
        history.sync_plan(bot.layout.root, Lock({"cards": cards}))
    assert list(bot.layout.staging.iterdir()) == []


def test_a_plugin_whose_folder_is_gone_is_synced_again(bot: Bot) -> None:
    bot.install("dice", "1.0.0")
    shutil.rmtree(bot.layout.folder("dice"))
    carry_out(bot, history.sync_plan(bot.layout.root, bot.lock))
    assert history.verify(bot.layout.root) == []


def _edit(folder: Path) -> None:
    (folder / "plugin.py").write_text("VERSION = 'mine'\n", "utf-8")


def _add(folder: Path) -> None:
    (folder / "extra.py").write_text("", "utf-8")


def _miss(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def _move(folder: Path) -> None:
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "mine")


def _link(folder: Path) -> None:
    folder.rename(folder.with_name("_dice"))
    folder.symlink_to("_dice")


def _lose_repository(folder: Path) -> None:
    shutil.rmtree(folder / ".git")


@pytest.mark.parametrize(
    "change,expected",
    [
        (_edit, ("dice", "edited", "plugin.py")),
        (_add, ("dice", "added", "extra.py")),
        (_miss, ("dice", "missing", "manifest.json")),
        (_move, ("dice", "moved", "")),
        (_link, ("dice", "moved", "")),
        (_lose_repository, ("dice", "digest", "")),
        (shutil.rmtree, ("dice", "absent", "")),
    ],
)
def test_verify_finds_what_is_not_as_it_was_installed(
    bot: Bot, change: Callable[[Path], None], expected: tuple[str, str, str]
) -> None:
    bot.install("dice", "1.0.0")
    (bot.layout.folder("dice") / "__pycache__").mkdir()
    (bot.layout.folder("dice") / "__pycache__" / "plugin.pyc").write_bytes(b"x")
    assert history.verify(bot.layout.root, ["dice"]) == []
    change(bot.layout.folder("dice"))
    assert expected in kinds(history.verify(bot.layout.root))


def test_verify_compares_with_the_digest_that_was_installed(bot: Bot) -> None:
    locked = bot.install("dice", "1.0.0").lock.plugins["dice"]
    lockfile.write(bot.layout.root, Lock({"dice": replace(locked, digest="sha256:" + "0" * 64)}))
    assert kinds(history.verify(bot.layout.root)) == [("", "repository", "plugins.lock"), ("dice", "digest", "")]


def test_verify_tells_plugins_that_pkg_did_not_install(bot: Bot) -> None:
    (bot.layout.plugins / "own").mkdir()
    (bot.layout.plugins / "own" / "manifest.json").write_text('{"name": "own"}', "utf-8")
    bot.install("dice", "1.0.0")
    assert kinds(history.verify(bot.layout.root)) == [("own", "unmanaged", "")]
    assert history.unmanaged(bot.layout.root) == ["own"]
    with pytest.raises(PlanError, match="own was not installed by `pkg`"):
        history.verify(bot.layout.root, ["own"])


def test_verify_tells_keys_that_were_revoked_or_are_not_trusted(bot: Bot) -> None:
    key = "ab" * 32
    bot.run(replace(bot.action("install", "dice", "1.0.0"), after=replace(bot.shop.publish("dice", "1.0.0"), key=key)))
    assert history.verify(bot.layout.root) == []  # the operation remembered whose key it was
    (bot.layout.data / "trust.json").unlink()
    assert kinds(history.verify(bot.layout.root)) == [("dice", "signature", "")]
    revoked = {"keys": [{"fingerprint": key, "reason": "stolen", "date": "2026-01-01"}], "versions": []}
    revocation.save(bot.layout.root, revoked)
    trust.TrustStore(bot.layout.root).trust("dice", key)
    (found,) = history.verify(bot.layout.root)
    assert found.kind == "signature" and "was revoked (stolen)" in found.text


def test_sync_takes_versions_from_whoever_has_them(bot: Bot, shop: Shop) -> None:
    asked: list[Locked] = []

    def stage(locked: Locked) -> Staged:
        asked.append(locked)
        return shop.stage(locked, bot.layout)

    lock = Lock({"dice": shop.publish("dice", "1.0.0")})
    carry_out(bot, history.sync_plan(bot.layout.root, lock, stage=stage))
    assert asked == [lock.plugins["dice"]]
    assert bot.lock == lock
