"""A registry that says what isn't so: `pkg -S` refuses it with the reason, and the bot stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.lumia.cli.pkg.conftest import Pkg
from tests.support.plugin_repos import Repository
from tests.support.registry import Answer, FakeRegistry, info_of

Change = Callable[[dict[str, Any], Repository], dict[str, Any]]


def newest(info: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the info with something else said of the newest version."""
    first, *others = info["versions"]
    return info | {"versions": [first | more, *others]}


LIES: dict[str, tuple[Change, str]] = {
    "another commit of it": (lambda i, _: newest(i, commit=i["versions"][1]["commit"]), "moved"),
    "a commit nobody has": (lambda i, _: newest(i, commit="a" * 40), "moved"),
    "another digest": (lambda i, _: newest(i, digest="sha256:" + "0" * 64), "recorded is sha256:0"),
    "a tag that is not there": (lambda i, _: newest(i, tag="v9.0.0") | {"latest_tag": "v9.0.0"}, "v9.0.0"),
    "another plugin's address": (lambda i, other: i | {"git_url": other.url}, ""),
    "an address of nothing": (lambda i, other: i | {"git_url": f"{other.url}-gone"}, "there is no such repository"),
    "a signature over something else": (
        lambda i, _: newest(i, signature=f"ed25519:{'f' * 64}:{'A' * 43}=:{'A' * 86}=="),
        "signature",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_nothing_is_installed_on_the_word_of_a_liar(
    pkg: Pkg, registry: FakeRegistry, geo: Repository, weather: Repository, lie: str
) -> None:
    change, reason = LIES[lie]
    registry.answers["/pkg/geo"] = Answer(change(info_of(geo), weather))
    done = pkg("-S", "geo", "--yes")
    assert (done.code, reason in done.err) == (1, True), done
    assert len(done.err.strip().splitlines()) < 5 and "Traceback" not in done.err
    assert not (pkg.root / "plugins" / "geo").exists()
    assert "geo" not in [one["name"] for one in pkg("-Q", "--json").json]


def test_an_older_latest_version_brings_nobody_back(pkg: Pkg, registry: FakeRegistry, geo: Repository) -> None:
    told = info_of(geo)
    registry.answers["/pkg/geo"] = Answer(told | {"latest_tag": "v0.3.0"})
    assert pkg("-S", "geo", "--yes").code == 0
    (found,) = [one for one in pkg("-Q", "--json").json if one["name"] == "geo"]
    assert found["version"] == "0.4.0"
    older = {"latest_tag": "v0.3.0", "versions": [one for one in told["versions"] if one["tag"] == "v0.3.0"]}
    registry.answers["/pkg/geo"] = Answer(told | older)
    assert pkg("-U", "--yes").code == 0
    assert [one["version"] for one in pkg("-Q", "--json").json if one["name"] == "geo"] == ["0.4.0"]


def test_a_page_instead_of_an_answer_is_no_answer(pkg: Pkg, registry: FakeRegistry) -> None:
    registry.answers["/pkg/geo"] = Answer(
        b"<!doctype html><title>Log in</title>", headers={"Content-Type": "text/html"}
    )
    done = pkg("-S", "geo", "--yes")
    assert (done.code, "something else than it must" in done.err, "<" in done.err) == (1, True, False), done
