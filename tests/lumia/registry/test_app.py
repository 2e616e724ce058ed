"""The private registry answers as the schemas say, over a real socket, from real repositories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped,unused-ignore]
from referencing import Registry as Schemas
from referencing import Resource

from lumia.errors import RegistryError
from lumia.pkg.tree import digest_commit
from lumia.registry.app import application
from lumia.registry.catalogue import Catalogue
from lumia.registry.submitting import Desk
from tests.lumia.registry.repositories import git, plugin
from tests.lumia.registry.serving import serving

SCHEMA = Path(__file__).resolve().parents[3] / "registry-worker" / "schema"
TOKEN = "s3cret-of-the-operator"


def fits(kind: str, data: Any) -> None:
    known = {file.stem: json.loads(file.read_text("utf-8")) for file in SCHEMA.glob("*.json")}
    schemas = Schemas().with_resources(
        (f"lumia:registry/{name}", Resource.from_contents(known[name])) for name in known
    )
    Draft202012Validator(known[kind], registry=schemas).validate(data)


@contextmanager
def registry(folder: Path, token: str | None = TOKEN) -> Iterator[httpx.Client]:
    catalogue = Catalogue(folder, settle=0)
    with (
        serving(application(catalogue, Desk(catalogue, token, local=True))) as url,
        httpx.Client(base_url=url) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins")
    plugin(folder / "dice", "v1.0.0", "v1.10.0", "v2.0.0rc1", "nonsense", description="Rolls dice")
    plugin(folder / "memory_graph", "0.2.0", display_name="Memory graph", description="Remembers what was said")
    git(folder, "clone", "--quiet", "--bare", str(plugin(folder / ".made" / "weather", "v0.1")), "weather.git")
    plugin(folder / "untagged")
    (folder / "no-repository").mkdir()
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with registry(folder) as client:
        yield client


def test_every_answer_fits_its_schema(client: httpx.Client) -> None:
    for path, kind in {"/search?q=": "search", "/pkg/dice": "pkg", "/revoked": "revoked", "/health": "health",
                       "/pkg/nothing": "problem", "/nothing": "problem"}.items():  # fmt: skip
        fits(kind, client.get(path).json())


def test_versions_are_the_tags_that_are_versions_newest_first(client: httpx.Client, folder: Path) -> None:
    found = client.get("/pkg/dice").json()
    assert [one["tag"] for one in found["versions"]] == ["v2.0.0rc1", "v1.10.0", "v1.0.0"]
    assert found["latest_tag"] == "v1.10.0"
    newest = found["versions"][0]
    assert newest["commit"] == git(folder / "dice", "rev-parse", "v2.0.0rc1^{commit}")
    assert newest["digest"] == digest_commit(folder / "dice", newest["commit"])
    assert newest["changelog"] == "What is new in v2.0.0rc1"
    assert found["git_url"] == (folder / "dice").as_uri()


def test_the_line_that_publishing_begins_a_tag_with_is_no_news(tmp_path: Path) -> None:
    plugin(tmp_path / "dice", "v1.0.0", message="dice v1.0.0\n\n- Six sides")
    plugin(tmp_path / "dice", "v1.1.0", message="dice v1.1.0")
    plugin(tmp_path / "dice", "v1.2.0", message="New in v1.2.0")
    found = Catalogue(tmp_path).plugin("dice")
    assert found is not None
    assert [one["changelog"] for one in found["versions"]] == ["New in v1.2.0", "", "- Six sides"]


def test_bare_and_underscored_repositories_are_plugins_and_untagged_ones_are_not(client: httpx.Client) -> None:
    names = [one["name"] for one in client.get("/search?q=").json()]
    assert names == ["dice", "memory-graph", "weather"]
    assert "did you mean memory-graph?" in client.get("/pkg/memry-graph").json()["detail"]


def test_an_answer_is_kept_by_its_etag_until_a_tag_is_added(tmp_path: Path) -> None:
    made = plugin(tmp_path / "dice", "v1.0.0")
    with registry(tmp_path) as client:
        first = client.get("/pkg/dice")
        again = client.get("/pkg/dice", headers={"If-None-Match": f"W/{first.headers['etag']}"})
        assert (again.status_code, again.content) == (304, b"")
        plugin(made, "v1.1.0")
        changed = client.get("/pkg/dice", headers={"If-None-Match": first.headers["etag"]})
        assert (changed.status_code, changed.json()["latest_tag"]) == (200, "v1.1.0")


def test_a_hostile_repository_keeps_no_other_plugin_from_being_served(tmp_path: Path) -> None:
    plugin(tmp_path / "weather", "v1.0.0")
    tag = git(plugin(tmp_path / "late", "v1.0.0"), "cat-file", "tag", "v1.0.0")
    (tmp_path / "tag").write_text(re.sub(r"> \d+ ", "> 99999999999999 ", tag) + "\n", "utf-8")
    late = git(tmp_path / "late", "hash-object", "-t", "tag", "-w", "--literally", str(tmp_path / "tag"))
    git(tmp_path / "late", "update-ref", "refs/tags/v1.0.0", late)
    nested = plugin(tmp_path / "nested")
    (nested / "manifest.json").write_text("[" * 100_000, "utf-8")
    git(nested, "add", "--all")
    git(nested, "commit", "--quiet", "--message", "v1")
    git(nested, "tag", "v1.0.0")
    with registry(tmp_path) as client:
        answers = [client.get(f"/pkg/{name}") for name in ("weather", "late", "nested")]
        assert [answer.status_code for answer in answers] == [200, 200, 404]
        assert answers[1].json()["versions"][0]["date"] == "1970-01-01T00:00:00Z"


def test_what_was_called_back_and_yanked_lies_beside_the_repositories(tmp_path: Path) -> None:
    plugin(tmp_path / "dice", "v1.0.0", "v1.1.0")
    with registry(tmp_path) as client:
        version = {"name": "dice", "tag": "v1.0.0", "reason": "steals", "date": "2026-11-01T00:00:00Z"}
        (tmp_path / "revoked.json").write_text(json.dumps({"keys": [], "versions": [version]}), "utf-8")
        (tmp_path / "yanked.json").write_text('{"dice": {"v1.1.0": "broken"}}', "utf-8")
        assert client.get("/revoked").json()["versions"] == [version]
        found = client.get("/pkg/dice").json()
        assert (found["latest_tag"], found["versions"][0]["yanked"]) == ("v1.0.0", "broken")
        (tmp_path / "revoked.json").write_text("[]", "utf-8")
        assert client.get("/revoked").status_code == 503


@pytest.mark.parametrize(
    "method, path, status",
    [("DELETE", "/pkg/dice", 405), ("POST", "/search", 405), ("GET", "/pkg", 405), ("GET", "/x/y", 404),
     ("GET", "/search?page=0", 400), ("GET", "/search?page=1e3", 400), ("GET", f"/search?q={'x' * 201}", 400)],
)  # fmt: skip
def test_what_is_wrong_is_told_as_a_problem(client: httpx.Client, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    fits("problem", answer.json())


# --- submissions


def submission(made: Path, tag: str, **more: Any) -> dict[str, Any]:
    commit = git(made, "rev-parse", f"{tag}^{{commit}}")
    manifest = json.loads((made / "manifest.json").read_text("utf-8"))
    told = {
        "git_url": made.as_uri(), "tag": tag, "manifest": manifest, "commit": commit,
        "digest": digest_commit(made, commit), "size": 100, "licence": "MIT",
        "validation": {"errors": 0, "tool": "lumia"}, **more,
    }  # fmt: skip
    fits("submission", told)
    return told


def send(client: httpx.Client, data: Any, token: str | None = TOKEN) -> httpx.Response:
    return client.post("/pkg", json=data, headers={"Authorization": f"Bearer {token}"} if token else {})


def test_a_submission_is_fetched_and_served_from_then_on_and_never_changes(tmp_path: Path) -> None:
    made = plugin(tmp_path / "elsewhere" / "dice", "v1.0.0", "v1.1.0")
    (tmp_path / "here").mkdir()
    with registry(tmp_path / "here") as client:
        for tag in ("v1.0.0", "v1.1.0"):
            answer = send(client, submission(made, tag))
            assert (answer.status_code, answer.json()["pull_request"]) == (202, None), answer.text
            fits("submitted", answer.json())
        assert [one["tag"] for one in client.get("/pkg/dice").json()["versions"]] == ["v1.1.0", "v1.0.0"]
        again = send(client, submission(made, "v1.1.0"))
        assert again.status_code == 422
        assert "published versions never change" in again.text


@pytest.mark.parametrize(
    "more, check",
    [({"commit": "0" * 40}, "tag"), ({"digest": f"sha256:{'0' * 64}"}, "digest"), ({"tag": "v9"}, "tag"),
     ({"validation": {"errors": 3, "tool": "lumia"}}, "validation"),
     ({"signature": "ed25519:" + "0" * 64 + ":AAAA:AAAA"}, "signature")],
)  # fmt: skip
def test_a_submission_that_lies_leaves_nothing_behind(tmp_path: Path, more: dict[str, Any], check: str) -> None:
    made = plugin(tmp_path / "elsewhere" / "dice", "v1.0.0")
    (tmp_path / "here").mkdir()
    with registry(tmp_path / "here") as client:
        answer = send(client, {**submission(made, "v1.0.0"), **more})
        assert answer.status_code == 422
        fits("submitted", answer.json())
        assert [one["name"] for one in answer.json()["checks"] if not one["ok"]] == [check]
        assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize(
    "more, told",
    [
        ({"size": "big"}, "size is no whole number."),
        ({"licence": None, "pin": 1}, "licence is no text."),
        ({"manifest": {"name": "dice", "nmae": "x"}}, "manifest.json: nmae is not known here."),
        ({"manifest": {}}, "manifest.json: name is missing."),
    ],
)
def test_a_submission_that_does_not_fit_is_told_in_words(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    whole = {"git_url": "https://e.org/dice", "tag": "v1", "manifest": {"name": "dice"}, "commit": "0" * 40,
             "digest": f"sha256:{'0' * 64}", "size": 1, "licence": "MIT"}  # fmt: skip
    checks = Desk(Catalogue(tmp_path), TOKEN).take(whole | more)
    assert [(one["name"], one["ok"], one["text"]) for one in checks] == [("schema", False, told)]


@pytest.mark.parametrize("text", ["{", "\xff", "[" * 100_000], ids=["cut off", "no UTF-8", "nested"])
def test_a_manifest_that_is_no_json_at_the_tag_is_refused_and_the_good_versions_stay(tmp_path: Path, text: str) -> None:
    made = plugin(tmp_path / "elsewhere" / "dice", "v1.0.0")
    (tmp_path / "here").mkdir()
    with registry(tmp_path / "here") as client:
        assert send(client, submission(made, "v1.0.0")).status_code == 202
        before = client.get("/pkg/dice").json()
        good = (made / "manifest.json").read_bytes()
        (made / "manifest.json").write_text(text, "latin-1")
        git(made, "commit", "--quiet", "--all", "--message", "Break it")
        git(made, "tag", "v1.1.0")
        (made / "manifest.json").write_bytes(good)
        answer = send(client, submission(made, "v1.1.0"))
        assert answer.status_code == 422, answer.text
        assert [one["name"] for one in answer.json()["checks"] if not one["ok"]] == ["manifest"]
        assert client.get("/pkg/dice").json() == before
        refs = git(tmp_path / "here" / "dice.git", "for-each-ref", "--format=%(refname)")
        assert refs == "refs/tags/v1.0.0"


@pytest.mark.parametrize("first", [(), ("v0.9.0",)], ids=["a new plugin", "a known plugin"])
def test_of_many_submissions_of_one_tag_at_once_one_is_kept(tmp_path: Path, first: tuple[str, ...]) -> None:
    made = plugin(tmp_path / "elsewhere" / "dice", *first, "v1.0.0")
    (tmp_path / "here").mkdir()
    catalogue = Catalogue(tmp_path / "here")
    desk = Desk(catalogue, TOKEN, local=True)
    for tag in first:
        assert all(check["ok"] for check in desk.take(submission(made, tag)))
    told = submission(made, "v1.0.0")
    lies = {**told, "digest": f"sha256:{'0' * 64}"}
    with ThreadPoolExecutor(6) as pool:
        reports = list(pool.map(desk.take, [told, lies, told, lies, told, lies]))
    assert sum(all(check["ok"] for check in report) for report in reports) == 1
    found = catalogue.plugin("dice")
    assert found is not None and [one["tag"] for one in found["versions"]] == ["v1.0.0", *first]


def test_only_the_token_opens_the_desk_and_without_one_it_is_shut(tmp_path: Path) -> None:
    with registry(tmp_path) as client:
        for token in (None, "wrong", TOKEN + "x"):
            answer = send(client, {}, token)
            assert (answer.status_code, TOKEN in answer.text) == (401, False)
        assert send(client, {}).status_code == 422
        assert client.post("/pkg", content=b"{", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 415
        long = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        assert client.post("/pkg", content=b"x" * 1_100_000, headers=long).status_code == 413
    with registry(tmp_path, token=None) as client:
        assert send(client, {}).status_code == 401


def test_a_registry_others_can_reach_takes_no_repository_of_its_own_disk(tmp_path: Path) -> None:
    made = plugin(tmp_path / "elsewhere" / "dice", "v1.0.0")
    desk = Desk(Catalogue(tmp_path), TOKEN, local=False)
    failed = [check for check in desk.take(submission(made, "v1.0.0")) if not check["ok"]]
    assert [check["name"] for check in failed] == ["repository"]


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="is no folder"):
        Catalogue(tmp_path / "gone")
