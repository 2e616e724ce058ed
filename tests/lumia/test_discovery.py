"""Which plugins there are, their versions from git and the names of their contents (spec §7.1–7.3)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.discovery import FolderVersion, Found, digest, discover, folder_version, generation, unknown_names
from tests.support.plugins import PluginBot, commit, git


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[PluginBot]:
    with PluginBot(tmp_path) as made:
        yield made


def found(bot: PluginBot, *disabled: str) -> list[Found]:
    return discover(bot.base, bot.root, disabled)


def error_of(bot: PluginBot, where: str) -> str:
    (plugin,) = [plugin for plugin in found(bot) if plugin.where == where]
    assert plugin.manifest is None
    return str(plugin.error)


def test_plugins_are_found_in_all_three_places_in_a_fixed_order(bot: PluginBot) -> None:
    for place in ("plugins/zoo", "plugins/art-shop", "adapters/web", "handlers/flow", "handlers/audit"):
        bot.plugin(place)
    assert [(plugin.where, plugin.name, plugin.package) for plugin in found(bot)] == [
        ("handlers/audit", "audit", "handlers.audit"),
        ("handlers/flow", "flow", "handlers.flow"),
        ("adapters/web", "web", "adapters.web"),
        ("plugins/art-shop", "art-shop", "lumia_plugins.art_shop"),
        ("plugins/zoo", "zoo", "lumia_plugins.zoo"),
    ]


def test_a_base_that_is_the_root_serves_its_own_plugins_folder_and_another_does_not(bot: PluginBot) -> None:
    bot.plugin("plugins/mine")
    (bot.base / "plugins").mkdir()
    bot.plugin("handlers/first")
    (bot.root / "handlers").mkdir()
    bot.root.joinpath("plugins/mine").rename(bot.base / "plugins" / "mine")
    assert [plugin.name for plugin in found(bot)] == ["first"]
    assert [plugin.name for plugin in discover(bot.base, bot.base)] == ["first", "mine"]


def test_what_is_no_plugin_is_passed_over(bot: PluginBot) -> None:
    plugins = bot.root / "plugins"
    (plugins / "left-behind" / "__pycache__").mkdir(parents=True)
    for hidden in (".git", "__pycache__", "_shared"):
        (plugins / hidden).mkdir()
        (plugins / hidden / "plugin.py").write_text("")
    (plugins / "README.md").write_text("")
    assert found(bot) == []
    assert discover(bot.base / "nowhere", bot.root / "nowhere") == []


def test_code_without_a_manifest_and_links_to_nowhere_are_named(bot: PluginBot) -> None:
    (bot.plugin("plugins/bare") / "manifest.json").unlink()
    (bot.root / "plugins" / "gone").symlink_to(bot.root / "nowhere")
    assert "manifest.json: can't be read" in error_of(bot, "plugins/bare")
    assert "manifest.json: can't be read" in error_of(bot, "plugins/gone")


def test_a_linked_folder_is_a_plugin_under_the_name_of_the_link(bot: PluginBot, tmp_path: Path) -> None:
    bot.plugin("plugins/mine").rename(tmp_path / "anything")
    (bot.root / "plugins" / "mine").symlink_to(tmp_path / "anything")
    (plugin,) = found(bot)
    assert (plugin.name, plugin.folder, plugin.error) == ("mine", bot.root / "plugins" / "mine", None)


@pytest.mark.parametrize("folder", ["memory-graph", "memory_graph"])
def test_a_folder_may_be_spelled_with_hyphens_or_underscores(bot: PluginBot, folder: str) -> None:
    bot.plugin(f"handlers/{folder}", name="memory-graph")
    (plugin,) = found(bot)
    assert (plugin.name, plugin.package, plugin.error) == ("memory-graph", "handlers.memory_graph", None)


def test_a_folder_that_is_not_named_like_its_plugin_gets_the_way_out(bot: PluginBot) -> None:
    bot.plugin("plugins/echo-master", name="big-echo")
    message = error_of(bot, "plugins/echo-master")
    assert "plugins/echo-master holds the plugin 'big-echo'" in message
    assert "name the folder 'big-echo' or 'big_echo'" in message


def test_of_two_folders_with_one_plugin_the_first_counts_and_the_second_is_reported(bot: PluginBot) -> None:
    for place in ("handlers/echo", "plugins/echo", "plugins/note-pad", "plugins/note_pad"):
        bot.plugin(place)
    assert [plugin.where for plugin in found(bot) if plugin.error is None] == ["handlers/echo", "plugins/note-pad"]
    assert "plugins/echo and handlers/echo hold the same plugin 'echo'" in error_of(bot, "plugins/echo")
    assert "plugins/note_pad and plugins/note-pad hold" in error_of(bot, "plugins/note_pad")


def test_a_broken_manifest_spoils_only_its_own_plugin(bot: PluginBot) -> None:
    (bot.plugin("plugins/broken") / "manifest.json").write_text('{"name": "broken",}')
    bot.plugin("plugins/whole")
    assert "line 1, column" in error_of(bot, "plugins/broken")
    assert [plugin.name for plugin in found(bot) if plugin.error is None] == ["whole"]


def test_disabled_plugins_are_marked_even_broken_ones(bot: PluginBot) -> None:
    (bot.plugin("plugins/broken") / "manifest.json").write_text("{")
    bot.plugin("plugins/note_pad")
    bot.plugin("plugins/whole")
    off = {plugin.name: plugin.disabled for plugin in found(bot, "broken", "note_pad")}
    assert off == {"broken": True, "note-pad": True, "whole": False}


def test_a_name_nothing_has_is_answered_with_the_closest(bot: PluginBot) -> None:
    bot.plugin("plugins/note_pad")
    plugins = found(bot)
    assert unknown_names(["note_pad", "note-pad"], plugins) == []
    assert unknown_names(["notepad", "zzz"], plugins) == [
        "no plugin is named 'notepad'; did you mean 'note-pad'?",
        "no plugin is named 'zzz'; `pkg -Q` lists them",
    ]


@pytest.mark.parametrize(
    "tags, version",
    [
        (["v1.2.3"], "1.2.3"),
        (["1.2.3"], "1.2.3"),
        (["v1.2.3", "v1.10.0", "v1.9.0", "stable"], "1.10.0"),
        (["v2.0.0-rc.1"], "2.0.0rc1"),
    ],
)
def test_the_tag_at_the_commit_is_the_version(bot: PluginBot, tags: list[str], version: str) -> None:
    folder = bot.plugin("plugins/echo")
    commit(folder)
    for tag in tags:
        git(folder, "tag", tag)
    assert folder_version(folder) == FolderVersion(version)


def test_an_annotated_tag_counts_like_a_light_one(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo")
    commit(folder)
    git(folder, "tag", "-a", "v0.3.1", "-m", "release")
    git(folder, "pack-refs", "--all")
    assert folder_version(folder).version == "0.3.1"


def test_a_commit_after_the_tag_is_a_version_of_its_own_with_a_warning(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo")
    commit(folder)
    git(folder, "tag", "v1.0.0")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "more")
    git(folder, "tag", "nightly")
    sha = git(folder, "rev-parse", "HEAD")[:12]
    version = folder_version(folder)
    assert version.version == f"0.0.0+{sha}"
    assert str(folder) in version.warning
    assert "tag v0.1.0" in version.warning


def test_a_plain_folder_has_no_version_even_inside_a_tagged_repository(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo")
    commit(bot.root)
    git(bot.root, "tag", "v9.9.9")
    assert folder_version(folder) == FolderVersion("0.0.0")


def test_a_repository_git_cannot_read_counts_as_unversioned_with_a_warning(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo")
    git(folder, "init", "--quiet")
    version = folder_version(folder)
    assert version.version == "0.0.0"
    assert "git can't tell its version" in version.warning


def test_without_git_a_repository_counts_as_unversioned(bot: PluginBot, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bot.plugin("plugins/echo")
    commit(folder)
    git(folder, "tag", "v1.0.0")
    monkeypatch.setenv("PATH", str(bot.root))
    version = folder_version(folder)
    assert version.version == "0.0.0"
    assert "git can't tell" in version.warning


def test_the_git_folder_of_a_surrounding_hook_is_not_asked(bot: PluginBot, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bot.plugin("plugins/echo")
    commit(folder)
    git(folder, "tag", "v1.0.0")
    monkeypatch.setenv("GIT_DIR", str(bot.root / "nowhere"))
    assert folder_version(folder).version == "1.0.0"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_read(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo")
    commit(folder)
    git(folder, "tag", "v1.0.0")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 12345, 12345)
    assert folder_version(folder) == FolderVersion("1.0.0")


def test_the_digest_follows_code_and_data_but_not_what_python_and_tools_leave_behind(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo", "A = 1\n")
    before = digest(folder)
    assert len(before) == 12
    for left in ("__pycache__/plugin.pyc", ".git/config.toml", "node_modules/x/package.json", "notes.txt", ".tmp.py"):
        (folder / left).parent.mkdir(parents=True, exist_ok=True)
        (folder / left).write_text("anything")
    (folder / "dangling.py").symlink_to(folder / "nowhere.py")
    assert digest(folder) == before
    for file in ("plugin.py", "more.pyc", "deep/data.json", "config-schema.toml"):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("B = 1\n")
        assert digest(folder) != before
        before = digest(folder)


def test_a_moved_or_split_file_changes_the_digest(bot: PluginBot) -> None:
    one, two = bot.plugin("plugins/one", name="x"), bot.plugin("plugins/two", name="x")
    (one / "a.py").write_text("AB")
    (two / "b.py").write_text("AB")
    assert digest(one) != digest(two)
    (two / "b.py").rename(two / "a.py")
    assert digest(one) == digest(two)


def test_a_generation_is_version_and_digest(bot: PluginBot) -> None:
    folder = bot.plugin("plugins/echo")
    assert generation("0.2.0", folder) == f"0.2.0+{digest(folder)}"
    assert generation("0.0.0+abc", folder) == f"0.0.0+abc.{digest(folder)}"
