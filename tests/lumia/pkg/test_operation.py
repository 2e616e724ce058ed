"""Operations as a whole: what they do, in which order, and what they leave alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lumia import paths
from lumia.config import ConfigStore
from lumia.errors import HookError, OperationError, PkgError, PlanError
from lumia.pkg import edits, layers, lockfile, mutex, operation, recovery
from lumia.pkg.layout import Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Plan
from lumia.pkg.progress import Step
from lumia.pkg.transaction import hook_seconds
from tests.support import full_disk
from tests.support.packages import Bot, Shop
from tests.support.plugins import git
from tests.support.shelf import packages_of
from tests.support.wait import until
from tests.support.wheels import wheels

HOOKS = ("pre_install", "post_install", "pre_upgrade", "post_upgrade", "pre_uninstall", "post_uninstall")
RECORDING = """
import json, os, pathlib, sys
names = ("PLUGIN_NAME", "PLUGIN_VERSION", "PREV_VERSION", "BOT_ROOT", "PLUGIN_DIR")
told = {name: os.environ.get(name) for name in names}
told |= {"hook": pathlib.Path(__file__).stem, "of": VERSION, "stdin": sys.stdin.read()}
told |= {"there": sorted(os.listdir(os.environ["PLUGIN_DIR"])), "cwd": os.getcwd()}
told |= {"installed": pathlib.Path(os.environ["BOT_ROOT"], "plugins", "dice").exists()}
with open(os.path.join(os.environ["BOT_ROOT"], "told"), "a") as file:
    file.write(json.dumps(told) + "\\n")
"""


@dataclass(frozen=True)
class Answer:
    ok: bool
    text: str = ""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


@pytest.fixture
def bot(tmp_path: Path, shop: Shop) -> Bot:
    return Bot(tmp_path / "bot", shop)


def hooked(shop: Shop, version: str, code: str = RECORDING, *, names: tuple[str, ...] = HOOKS) -> None:
    shop.publish("dice", version, {f"hooks/{name}.py": f"VERSION = {version!r}\n{code}" for name in names})


def told(bot: Bot) -> list[dict[str, Any]]:
    file = bot.layout.root / "told"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def test_each_operation_is_one_commit_that_holds_the_lock_and_the_plugins_commits(bot: Bot, shop: Shop) -> None:
    first, second = shop.publish("memory-graph", "1.0.0"), shop.publish("memory-graph", "1.1.0")
    done = bot.install("memory-graph", "1.0.0")
    plugins = bot.layout.plugins
    assert git(plugins, "rev-parse", "HEAD") == done.commit
    assert f"160000 commit {first.commit}\tmemory_graph" in git(plugins, "ls-tree", "HEAD")
    assert bot.lock == done.lock == Lock({"memory-graph": first})
    assert (plugins / "memory_graph" / "plugin.py").read_text("utf-8") == "VERSION = '1.0.0'\n"

    bot.install("memory-graph", "1.1.0")
    assert bot.lock == Lock({"memory-graph": second})
    assert git(plugins, "log", "--format=%s", "-1") == "Upgrade memory-graph 1.0.0 → 1.1.0"

    last = bot.remove("memory-graph")
    assert bot.lock == Lock()
    assert not (plugins / "memory_graph").exists()
    assert f"Lumia-Operation: {last.id}" in git(plugins, "log", "--format=%B", "-1")
    assert git(plugins, "rev-list", "--count", "HEAD") == "3"
    assert git(plugins, "status", "--short") == ""
    assert bot.leftovers() == []


def test_hooks_run_in_the_order_and_environment_of_the_specification(bot: Bot, shop: Shop) -> None:
    hooked(shop, "1.0.0")
    hooked(shop, "1.1.0")
    bot.install("dice", "1.0.0")
    bot.install("dice", "1.1.0")
    bot.remove("dice")
    found = told(bot)
    assert [(one["hook"], one["of"]) for one in found] == [
        ("pre_install", "1.0.0"), ("post_install", "1.0.0"), ("pre_upgrade", "1.0.0"), ("post_upgrade", "1.1.0"),
        ("pre_uninstall", "1.1.0"), ("post_uninstall", "1.1.0"),
    ]  # fmt: skip
    assert [(one["PLUGIN_VERSION"], one["PREV_VERSION"]) for one in found] == [
        ("v1.0.0", None), ("v1.0.0", None), ("v1.1.0", "v1.0.0"), ("v1.1.0", "v1.0.0"),
        ("v1.1.0", None), ("v1.1.0", None),
    ]  # fmt: skip
    for one in found:
        assert one["PLUGIN_NAME"] == "dice"
        assert one["BOT_ROOT"] == str(bot.layout.root)
        assert one["PLUGIN_DIR"] == one["cwd"]
        assert one["there"] == [".git", "hooks", "manifest.json", "plugin.py"]
        assert one["stdin"] == ""
    assert [one["installed"] for one in found] == [False, True, True, True, True, False]
    places = [Path(one["PLUGIN_DIR"]).parent for one in found]
    assert places[1] == places[2] == places[3] == places[4] == bot.layout.plugins


def test_a_removed_plugin_is_unloaded_before_its_last_hook_and_deleted_after_it(bot: Bot, shop: Shop) -> None:
    hooked(shop, "1.0.0")
    bot.install("dice", "1.0.0")
    before: list[int] = []

    def deploy(lock: Lock) -> Answer:
        assert lock == Lock()
        assert not bot.layout.folder("dice").exists()
        before.append(len(told(bot)))
        return Answer(True)

    bot.run(bot.action("remove", "dice"), deploy=deploy)
    assert before == [3]  # those of the install and pre_uninstall
    assert told(bot)[-1]["hook"] == "post_uninstall"


@pytest.mark.parametrize("name", ["pre_install", "post_install"])
def test_a_hook_that_fails_calls_the_installation_off(bot: Bot, shop: Shop, name: str) -> None:
    hooked(shop, "1.0.0", "import sys; print('no \\x1b[31mdatabase'); sys.exit(3)", names=(name,))
    before = bot.state()
    seen: list[Step] = []
    with pytest.raises(HookError, match=f"{name} hook of dice ended with exit code 3; it said: no database") as raised:
        bot.run(bot.action("install", "dice", "1.0.0"), on_step=seen.append)
    assert "Everything is as it was before" in str(raised.value)
    assert bot.state() == before
    assert bot.leftovers() == []
    assert Step("output", "dice", "no database") in seen


@pytest.mark.parametrize("name", ["pre_upgrade", "post_upgrade"])
def test_a_hook_that_fails_calls_the_upgrade_off(bot: Bot, shop: Shop, name: str) -> None:
    hooked(shop, "1.0.0", f"raise SystemExit({name == 'pre_upgrade'})", names=("pre_upgrade",))
    hooked(shop, "1.1.0", "raise SystemExit(1)", names=("post_upgrade",))
    bot.install("dice", "1.0.0")
    before = bot.state()
    with pytest.raises(HookError, match=f"{name} hook"):
        bot.install("dice", "1.1.0")
    assert bot.state() == before


@pytest.mark.parametrize("name", ["pre_uninstall", "post_uninstall"])
def test_a_hook_that_fails_calls_the_removal_off_and_the_bot_gets_the_plugin_back(
    bot: Bot, shop: Shop, name: str
) -> None:
    hooked(shop, "1.0.0", "raise SystemExit(1)", names=(name,))
    bot.install("dice", "1.0.0")
    before, handed = bot.state(), []

    def deploy(lock: Lock) -> Answer:
        handed.append(list(lock.plugins))
        return Answer(True)

    with pytest.raises(HookError, match=f"{name} hook"):
        bot.run(bot.action("remove", "dice"), deploy=deploy)
    assert bot.state() == before
    assert handed == ([[], ["dice"]] if name == "post_uninstall" else [])


def test_what_the_running_bot_does_not_take_is_undone(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0")
    shop.publish("dice", "1.1.0")
    bot.install("dice", "1.0.0")
    before, handed = bot.state(), []

    def deploy(lock: Lock) -> Answer:
        handed.append(lock.plugins["dice"].version)
        return Answer(False, "worker-1: it died")

    with pytest.raises(OperationError, match=r"did not take dice 1\.1\.0: worker-1: it died\. Everything is as it"):
        bot.run(bot.action("upgrade", "dice", "1.1.0"), deploy=deploy)
    assert bot.state() == before
    assert handed == ["1.1.0"]  # every process has dropped it itself


def test_an_interrupt_while_it_is_handed_over_gives_the_bot_back_what_it_had(
    bot: Bot, shop: Shop, tmp_path: Path
) -> None:
    shop.publish("dice", "1.0.0")
    before, handed = bot.state(), []
    packages = packages_of(
        Plan(python={"dice": ("layered",)}), bot.layout.root, wheels(tmp_path / "wheels", ("layered", "1.0"))
    )

    def deploy(lock: Lock) -> Answer:
        now = layers.current(bot.layout.root)
        handed.append((list(lock.plugins), now.packages if now is not None else ()))
        if lock.plugins:
            raise KeyboardInterrupt
        return Answer(True)

    with pytest.raises(KeyboardInterrupt):
        bot.run(bot.action("install", "dice", "1.0.0"), deploy=deploy, packages=packages)
    assert bot.state() == before
    assert handed == [(["dice"], (layers.Package("layered", "1.0"),)), ([], ())]


def test_an_operation_cut_off_while_it_was_handed_over_is_handed_over_again(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0")
    before = bot.state()
    for answer, outcome in ((Answer(False, "no"), "undone"), (Answer(True), "finished")):

        class CutOff(BaseException):
            pass

        def cut(lock: Lock) -> Answer:
            raise CutOff

        with pytest.raises(CutOff):
            bot.run(bot.action("install", "dice", "1.0.0"), deploy=cut)
        handed: list[Lock] = []

        def deploy(lock: Lock, answer: Answer = answer, handed: list[Lock] = handed) -> Answer:
            handed.append(lock)
            return answer

        recovered = recovery.recover(bot.layout.root, deploy=deploy)
        assert recovered is not None and recovered.outcome == outcome
        assert [list(lock.plugins) for lock in handed] == [["dice"]]
        assert (bot.state() == before) is (outcome == "undone")


def test_settings_are_made_completed_kept_and_deleted_only_when_asked(bot: Bot, shop: Shop) -> None:
    sides = '[sides]\ntype = "int"\ndefault = 6\nmin = 2\n'
    shop.publish("dice", "1.0.0", {"config-schema.toml": sides + '[luck]\ntype = "float"\ndefault = 0.5\n'})
    shop.publish("dice", "1.1.0", {"config-schema.toml": sides + '[loud]\ntype = "bool"\ndescription = "Shout"\n'})
    shop.publish("dice", "2.0.0", {"config-schema.toml": sides.replace("= 6", "= 20").replace("min = 2", "min = 10")})
    path = bot.layout.config / "dice.toml"
    bot.install("dice", "1.0.0")
    path.write_text(path.read_text("utf-8").replace("sides = 6", "sides = 8  # for us"), "utf-8")
    bot.install("dice", "1.1.0")
    text = path.read_text("utf-8")
    assert "sides = 8  # for us" in text
    assert "loud = false  # Shout" in text
    assert "# not used since 1.1.0:\n# luck = 0.5" in text
    with pytest.raises(OperationError, match=r"don't fit dice 2\.0\.0: .*sides = 8 is not allowed"):
        bot.install("dice", "2.0.0")
    assert path.read_text("utf-8") == text
    bot.remove("dice")
    assert path.read_text("utf-8") == text
    bot.install("dice", "1.1.0")
    assert path.read_text("utf-8") == text
    bot.remove("dice", purge=True)
    assert not path.exists()


def test_a_setting_that_moved_into_the_plugins_code_is_not_taken_for_a_removed_one(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0", {"config-schema.toml": '[luck]\ntype = "float"\n[sides]\ntype = "int"\n'})
    code = "import lumia\nlumia.config.declare('dice', {'luck': lumia.config.field(float, default=0.1)})\n"
    shop.publish("dice", "1.1.0", {"config-schema.toml": '[sides]\ntype = "int"\n', "plugin.py": code})
    bot.install("dice", "1.0.0")
    text = (bot.layout.config / "dice.toml").read_text("utf-8")
    bot.install("dice", "1.1.0")
    assert (bot.layout.config / "dice.toml").read_text("utf-8") == text


def test_settings_with_secrets_are_for_this_user_only(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0", {"config-schema.toml": '[api_key]\ntype = "str"\n'})
    bot.install("dice", "1.0.0")
    assert (bot.layout.config / "dice.toml").stat().st_mode & 0o777 == 0o600


def test_disabling_and_enabling_are_operations_too(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0")
    bot.install("dice", "1.0.0")
    now = bot.lock.plugins["dice"]

    def enabled() -> bool:
        return bot.lock.plugins["dice"].enabled

    bot.run(replace(bot.action("disable", "dice"), after=replace(now, enabled=False)))
    assert ConfigStore(bot.layout.root).core.plugins.disabled == ["dice"]
    assert not enabled()
    bot.run(replace(bot.action("enable", "dice"), after=now))
    assert ConfigStore(bot.layout.root).core.plugins.disabled == []
    assert enabled()
    bot.run(replace(bot.action("disable", "dice"), after=replace(now, enabled=False)))
    bot.remove("dice")
    assert ConfigStore(bot.layout.root).core.plugins.disabled == []  # else a plugin that isn't there would be disabled


def test_plugins_placed_by_hand_are_left_alone(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0")
    plugins = bot.layout.plugins
    for name in ("own", "committed", "staged"):
        (plugins / name).mkdir()
        (plugins / name / "plugin.py").write_text("", "utf-8")
    git(plugins, "init", "--quiet")
    git(plugins, "add", "committed")
    git(plugins, "commit", "--quiet", "-m", "mine")
    git(plugins, "add", "staged")
    before = git(plugins, "status", "--short")
    bot.install("dice", "1.0.0")
    assert git(plugins, "status", "--short") == before
    assert git(plugins, "show", "--name-only", "--format=", "HEAD") == "dice\nplugins.lock"
    bot.remove("dice")
    assert git(plugins, "status", "--short") == before
    assert (plugins / "committed" / "plugin.py").exists()


def test_a_plugin_placed_by_hand_is_never_installed_over(bot: Bot, shop: Shop) -> None:
    shop.publish("memory-graph", "1.0.0")
    (bot.layout.plugins / "memory-graph").mkdir()
    before = bot.state()
    with pytest.raises(PlanError, match="plugins/memory-graph is there already and `pkg` did not install it"):
        bot.install("memory-graph", "1.0.0")
    assert bot.state() == before


def test_a_plugin_edited_by_hand_is_replaced_only_by_force_which_keeps_the_edits(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0", {"rolls.py": "A = 1\n", "old.py": ""})
    shop.publish("dice", "1.1.0")
    bot.install("dice", "1.0.0")
    folder = bot.layout.folder("dice")
    (folder / "rolls.py").write_text("A = 2\n", "utf-8")
    (folder / "mine.py").write_text("B = 1\n", "utf-8")
    (folder / "old.py").unlink()
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "rolls.pyc").write_bytes(b"x")
    before = bot.state()
    for action in (bot.action("upgrade", "dice", "1.1.0"), bot.action("remove", "dice")):
        with pytest.raises(PlanError, match=r"edited by hand .*\(mine\.py, old\.py, rolls\.py\); .* --force"):
            bot.run(action)
    assert bot.state() == before
    done = bot.run(bot.action("upgrade", "dice", "1.1.0"), force=True)
    patch = bot.layout.undo / done.id / "dice.patch"
    assert str(patch) in done.warnings[0]
    assert not (folder / "mine.py").exists()
    git(folder, "checkout", "--quiet", "v1.0.0")
    git(folder, "apply", str(patch))
    assert (folder / "rolls.py").read_text("utf-8") == "A = 2\n"
    assert (folder / "mine.py").exists() and not (folder / "old.py").exists()


def test_an_upgrade_keeps_the_files_that_the_plugin_lets_git_ignore(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0", {".gitignore": "*.db\ncache/\n"})
    shop.publish("dice", "1.1.0", {".gitignore": "*.db\ncache/\n", "shipped.db": "new"})
    bot.install("dice", "1.0.0")
    folder = bot.layout.folder("dice")
    (folder / "cache").mkdir()
    for file in ("score.db", "shipped.db", "cache/page"):
        (folder / file).write_text("old", "utf-8")
    bot.install("dice", "1.1.0")
    assert (folder / "score.db").read_text("utf-8") == (folder / "cache" / "page").read_text("utf-8") == "old"
    assert (folder / "shipped.db").read_text("utf-8") == "new"


def test_a_plugin_whose_folder_was_deleted_by_hand_can_be_upgraded_and_removed(bot: Bot, shop: Shop) -> None:
    hooked(shop, "1.0.0")
    hooked(shop, "1.1.0")
    bot.install("dice", "1.0.0")
    subprocess.run(["rm", "-r", str(bot.layout.folder("dice"))], check=True)
    bot.install("dice", "1.1.0")
    assert bot.layout.folder("dice").exists()
    subprocess.run(["rm", "-r", str(bot.layout.folder("dice"))], check=True)
    bot.remove("dice")
    assert bot.lock == Lock()


def test_several_changes_are_one_operation(bot: Bot, shop: Shop) -> None:
    for name in ("dice", "cards", "poker"):
        shop.publish(name, "1.0.0")
    shop.publish("cards", "1.1.0")
    bot.run(bot.action("install", "dice", "1.0.0"), bot.action("install", "cards", "1.0.0"))
    bot.run(
        bot.action("remove", "dice"), bot.action("upgrade", "cards", "1.1.0"), bot.action("install", "poker", "1.0.0")
    )
    assert {name: entry.version for name, entry in bot.lock.plugins.items()} == {"cards": "1.1.0", "poker": "1.0.0"}
    assert git(bot.layout.plugins, "log", "-1", "--format=%s") == "Remove dice 1.0.0 and 2 more"
    assert git(bot.layout.plugins, "rev-list", "--count", "HEAD") == "2"


def test_a_plan_that_another_pkg_has_outdated_is_refused(bot: Bot, shop: Shop) -> None:
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        shop.publish("dice", version)
    bot.install("dice", "1.0.0")
    outdated = bot.action("upgrade", "dice", "1.2.0")
    bot.install("dice", "1.1.0")
    with pytest.raises(PlanError, match=r"dice is installed as 1\.1\.0 by now"):
        bot.run(outdated)


def test_check_is_asked_with_the_lock_that_will_be_and_can_call_it_off(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0")
    before = bot.state()

    def check(lock: Lock) -> None:
        assert list(lock.plugins) == ["dice"]
        raise PlanError("feedparser 5 and 6 don't go together")

    with pytest.raises(PlanError, match="feedparser"):
        bot.run(bot.action("install", "dice", "1.0.0"), check=check)
    assert bot.state() == before
    assert bot.leftovers() == []


def test_the_lock_is_held_and_the_second_pkg_waits_for_the_first_telling_whom_it_waits_for(
    bot: Bot, shop: Shop
) -> None:
    shop.publish("dice", "1.0.0")
    action = bot.action("install", "dice", "1.0.0")
    seen: list[Step] = []
    other = threading.Thread(target=lambda: bot.run(action, on_step=seen.append))
    with mutex.hold(bot.layout):
        with pytest.raises(
            OperationError, match=rf"another operation is going on: `.*` \(process {os.getpid()}, since"
        ):
            bot.run(action, wait=False)
        other.start()
        until(lambda: seen)
        assert bot.lock == Lock()
    other.join(10)
    assert seen[0].name == "wait" and f"process {os.getpid()}" in seen[0].text
    assert "dice" in bot.lock.plugins


def test_the_lock_outlives_a_killed_pkg_until_what_it_had_started_has_ended(bot: Bot, tmp_path: Path) -> None:
    """So that nothing is put right while a command of the dead one still changes it."""
    code = (
        "import os, subprocess, sys\nfrom pathlib import Path\nfrom lumia.pkg import mutex\n"
        "from lumia.pkg.layout import Layout\n"
        "with mutex.hold(Layout(Path(sys.argv[1]))) as keep:\n"
        "    child = subprocess.Popen(['cat'], stdin=0, pass_fds=(keep,))\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    reader, writer = os.pipe()
    try:
        command = [sys.executable, "-c", code, str(bot.layout.root)]
        done = subprocess.run(command, stdin=reader, env={**os.environ, "PYTHONPATH": os.getcwd()}, check=False)
        assert done.returncode == -9
        with pytest.raises(mutex.HeldError), mutex.hold(bot.layout, timeout=0):
            pass
    finally:
        os.close(writer)
        os.close(reader)
    with mutex.hold(bot.layout, timeout=10):
        pass


def test_data_and_plugins_may_be_on_different_file_systems(tmp_path: Path, shop: Shop) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    elsewhere = memory / f"lumia-test-{os.getpid()}"
    elsewhere.mkdir()
    try:
        bot = Bot(tmp_path / "bot", shop)
        (bot.layout.root / "data").symlink_to(elsewhere)
        shop.publish("dice", "1.0.0")
        hooked(shop, "1.1.0", "raise SystemExit(1)", names=("post_upgrade",))
        bot.install("dice", "1.0.0")
        before = bot.state()
        with pytest.raises(HookError):
            bot.install("dice", "1.1.0")
        assert bot.state() == before
        bot.remove("dice")
        assert bot.leftovers() == []
    finally:
        subprocess.run(["rm", "-r", str(elsewhere)], check=True)


@pytest.mark.parametrize("folder", ["plugins", "data", "config"])
def test_a_read_only_folder_is_told_and_changes_nothing(bot: Bot, shop: Shop, tmp_path: Path, folder: str) -> None:
    if not full_disk.possible():
        pytest.skip("this machine lets nobody mount a tmpfs in a namespace of its own (unshare -rm)")
    shop.publish("dice", "1.0.0")
    shop.publish("dice", "1.1.0", {"config-schema.toml": '[sides]\ntype = "int"\n'})
    bot.install("dice", "1.0.0")
    before, plan = bot.state(), Plan((bot.action("upgrade", "dice", "1.1.0"),))
    (found,) = full_disk.outcomes(bot, plan, tmp_path / "mount", [2_000], read_only=folder)
    if folder == "config":  # a way to run bots: the defaults hold then
        assert found.said == ""
        assert "1.1.0" in found.state["plugins/dice/plugin.py"]
    else:
        assert "Read-only file system" in found.said and "give this user the right" in found.said
        assert found.state == before


def test_a_source_checkout_is_no_bot_root() -> None:
    with pytest.raises(PkgError, match=r"source checkout .* `lumia init DIR`"):
        operation.run(Plan(), layout=Layout(paths.base()))


def test_the_time_of_hooks_is_a_setting(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hook_seconds(bot.layout.root) == 120
    (bot.layout.config / "lumia.toml").write_text("[pkg]\nhook_seconds = 7\n", "utf-8")
    assert hook_seconds(bot.layout.root) == 7
    monkeypatch.setenv("LUMIA__PKG__HOOK_SECONDS", "9")
    assert hook_seconds(bot.layout.root) == 9


def test_what_a_killed_pkg_left_staged_is_deleted_after_a_day(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0")
    for name, age in (("old", 90_000), ("young", 3_000)):
        (bot.layout.staging / name).mkdir(parents=True)
        os.utime(bot.layout.staging / name, (time.time() - age,) * 2)
    bot.install("dice", "1.0.0")
    assert [path.name for path in bot.layout.staging.iterdir()] == ["young"]


def test_the_log_keeps_what_hooks_say_without_secrets(bot: Bot, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_API_KEY", "abcdefgh-secret")
    hooked(shop, "1.0.0", "import os; print('key', os.environ['WEATHER_API_KEY'])", names=("post_install",))
    seen: list[Step] = []
    done = bot.run(bot.action("install", "dice", "1.0.0"), on_step=seen.append)
    text = (bot.layout.log / f"{done.id}.log").read_text("utf-8")
    assert "output dice key ***" in text
    assert "abcdefgh" not in text + repr(seen)


def test_a_repository_with_a_lock_of_a_dead_git_is_told(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0")
    shop.publish("dice", "1.1.0")
    bot.install("dice", "1.0.0")
    before = bot.state()
    lock = bot.layout.plugins / ".git" / "refs" / "heads" / "main.lock"
    lock.touch()
    with pytest.raises(OperationError, match=r"main\.lock"):
        bot.install("dice", "1.1.0")
    lock.unlink()
    recovery.recover(bot.layout.root)
    assert bot.state() == before


def test_edits_are_found_by_content_whatever_filters_the_repository_asks_for(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0", {".gitattributes": "*.py text eol=crlf filter=evil\n", "run.sh": "#!/bin/sh\n"})
    locked = bot.install("dice", "1.0.0").lock.plugins["dice"]
    folder = bot.layout.folder("dice")
    (folder / "plugin.py").write_bytes(git(folder, "show", "HEAD:plugin.py").encode() + b"\n")
    assert edits.found(folder, locked.commit) == []
    (folder / "run.sh").chmod(0o755)
    assert edits.found(folder, locked.commit) == [edits.Edit("edited", "run.sh")]


def test_the_lock_file_is_what_was_committed(bot: Bot, shop: Shop) -> None:
    shop.publish("dice", "1.0.0")
    bot.install("dice", "1.0.0")
    assert lockfile.parse(git(bot.layout.plugins, "show", "HEAD:plugins.lock")) == bot.lock
