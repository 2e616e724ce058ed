"""An author's whole way: from `pkg dev init` through the worker on workerd and a merged pull request to `pkg -S`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumia.cli.init import create
from lumia.pkg.dev.project import git
from tests.lumia.cli.pkg.conftest import Pkg
from tests.registry_worker.workerd import Worker, needs_worker, running
from tests.support.github import HOST, INDEX, GitHub, github

CHECKS = ["schema", "name", "owner", "version", "tag", "manifest", "size", "files", "licence"]
CHECKS += ["validation", "signature"]


@dataclass(frozen=True)
class Place:
    """The world: GitHub, the registry, and a home in which git reaches that GitHub."""

    hub: GitHub
    registry: Worker
    env: dict[str, str]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f'[user]\n\tname = Ada\n\temail = ada@example.org\n[url "file://{tmp_path}/hub/"]\n\tinsteadOf = https://{HOST}/\n'
    )
    with github(tmp_path / "hub") as hub:
        hub.repository("ada/dice")
        named = {
            "GITHUB_API": hub.url,
            "GITHUB_HOST": HOST,
            "INDEX_REPOSITORY": INDEX,
            "GITHUB_TOKEN": "bot-of-the-index",
        }
        settings = {**named, "CACHE_SECONDS": "0", "TOKEN_HELP": "Ask at https://example.org/tokens."}
        options = [part for name, value in settings.items() for part in ("--var", f"{name}={value}")]
        with running(tmp_path, {}, "--token", "ada", *options) as registry:
            quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "LUMIA_REGISTRY_URL": registry.url, **quick}
            yield Place(hub, registry, env)


@needs_worker
@pytest.mark.slow
@pytest.mark.services
def test_from_an_idea_to_an_installed_plugin(place: Place, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    author = Pkg(tmp_path / "work", place.env)
    assert author("dev", "init", "dice", "--description", "Throws dice.").code == 0
    dice = Pkg(author.root / "dice", dict(place.env))
    assert (dice("dev", "test").code, dice("dev", "validate").code, dice("key", "new", "ada").code) == (0, 0, 0)

    # What stops her, before anything is tagged.
    nowhere = dice("dev", "publish", "--yes")
    assert (nowhere.code, "nobody can clone it yet" in nowhere.err) == (1, True), nowhere
    git(dice.root, "remote", "add", "origin", f"https://{HOST}/ada/dice.git")
    nobody = dice("dev", "publish", "--yes")
    assert "set LUMIA_REGISTRY_TOKEN" in nobody.err and "Ask at https://example.org/tokens." in nobody.err, nobody
    dice.env["LUMIA_REGISTRY_TOKEN"] = "lumia_not-this-one"
    wrong = dice("dev", "publish", "--yes")
    assert "(401)" in wrong.err and "Ask at https://example.org/tokens." in wrong.err, wrong
    assert "not-this-one" not in wrong.err + wrong.out
    assert (git(dice.root, "tag"), place.hub.pulls) == ("", [])

    # What she is told at once.
    dice.env["LUMIA_REGISTRY_TOKEN"] = place.registry.token
    done = dice("dev", "publish", "--yes", "--no-tests", "--json")
    assert done.code == 0, done
    assert [(check["name"], check["ok"]) for check in done.json["checks"]] == [(name, True) for name in CHECKS]
    assert done.json["pull_request"] == place.hub.pulls[0]["html_url"]
    assert f"repository https://{HOST}/ada/dice.git" in place.hub.pulls[0]["body"]
    assert "knows no plugin 'dice'" in dice("-Si", "dice").err

    # A reviewer merges, the clock ticks, somebody else finds it.
    place.hub.merge(1)
    place.registry.sync()
    again = dice("dev", "publish", "--yes", "--no-tests")
    assert (again.code, "is published already; commit what is new" in again.err) == (1, True), again
    create(tmp_path / "bot")
    bot = Pkg(tmp_path / "bot", place.env)
    assert "dice  v0.1.0  ★4  by Ada" in bot("-Ss", "dice").out
    shown = bot("-Si", "dice").out
    assert "Throws dice." in shown and "New plugin" in shown
    installed = bot("-S", "dice", "--yes")
    assert installed.code == 0, installed
    (found,) = [one for one in bot("-Q", "--json").json if one["name"] == "dice"]
    assert (found["version"], found["commit"]) == ("0.1.0", git(dice.root, "rev-parse", "HEAD").strip())
    assert "signed by the key" in installed.err

    # The next version, with words of its own and a signature the registry insists on.
    (dice.root / "README.md").write_text("# Dice\n")
    git(dice.root, "commit", "--quiet", "--all", "--message", "Say less")
    unsigned = dice("dev", "publish", "--yes", "--no-tests", "--unsigned", "--tag", "v0.2.0")
    assert "NO  signature: Earlier versions are signed" in unsigned.err, unsigned
    other = dice("dev", "publish", "--yes", "--no-tests", "--tag", "v0.2.0")
    assert "git push --force origin refs/tags/v0.2.0" in other.err, other
    signed = dice("dev", "publish", "--yes", "--no-tests", "--tag", "v0.2.1", "--message", "Fewer words.", "--json")
    assert signed.code == 0, signed
    place.hub.merge(2)
    place.registry.sync()
    assert bot("-U", "--yes").code == 0
    assert "Fewer words." in bot("-Si", "dice").out
    (found,) = [one for one in bot("-Q", "--json").json if one["name"] == "dice"]
    assert found["version"] == "0.2.1"
