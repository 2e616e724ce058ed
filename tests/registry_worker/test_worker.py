"""registry-worker/: its own tests on workerd, its schemas, and `pkg`'s client asking it and the private registry."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped,unused-ignore]
from packaging.version import InvalidVersion, Version
from pydantic import ValidationError

from lumia.errors import RegistryError
from lumia.manifest import Manifest
from lumia.pkg.registry import Registry
from lumia.registry.app import application
from lumia.registry.catalogue import Catalogue
from lumia.registry.submitting import Desk, Submission
from tests.lumia.registry.repositories import plugin
from tests.lumia.registry.serving import serving
from tests.registry_worker.workerd import WORKER, environment, needs_worker, worker

SCHEMAS = {file.stem: json.loads(file.read_text("utf-8")) for file in (WORKER / "schema").glob("*.json")}


@needs_worker
@pytest.mark.slow
@pytest.mark.services
def test_the_workers_own_tests_pass_on_workerd() -> None:
    for command in (["npm", "run", "--silent", "check"], ["npm", "test", "--silent"]):
        done = subprocess.run(command, cwd=WORKER, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_the_lock_file_names_packages_and_no_place_to_get_them() -> None:
    lock = (WORKER / "package-lock.json").read_text("utf-8")
    assert '"resolved"' not in lock
    packages = json.loads(lock)["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)


def test_the_schemas_are_schemas_and_know_every_key_of_a_manifest() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    assert set(Manifest.model_fields) <= set(SCHEMAS["manifest"]["properties"])
    assert set(Submission.model_fields) == set(SCHEMAS["submission"]["properties"])


MANIFESTS: list[dict[str, Any]] = [
    {"name": "dice"},
    {"name": "dice", "x-own": [1], "dependencies": {"memory-graph": ">=0.2,<1"}, "isolation": "process"},
    {"name": "dice", "adapter": {"platform": "toy", "pid": 100, "capabilities": ["send"]}},
    {"name": "dice", "python_dependencies": ["feedparser>=6,<7"], "config_schema": "conf/own.toml"},
    {"name": "dice", "source": {"type": "git", "url": "git@example.org:ada/dice.git"}},
    {"name": "Dice"},
    {"name": "dice--x"},
    {"name": "d\u0456ce"},
    {"name": "dice", "version": "1.0"},
    {"name": "dice", "main": "../plugin.py"},
    {"name": "dice", "config_schema": "../x.toml"},
    {"name": "dice", "config_schema": "/etc/passwd"},
    {"name": "dice", "dependencies": {"Memory": ""}},
    {"name": "dice", "python_dependencies": ["feedparser @ https://example.org/x.whl"]},
    {"name": "dice", "source": {"url": "ext::sh -c id"}},
    {"name": "dice", "source": {"url": "--upload-pack=x"}},
    {"name": "dice", "isolation": "thread"},
    {"name": "dice", "unknown": 1},
]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=str)
def test_schema_and_loader_agree_on_what_a_manifest_is(manifest: dict[str, Any]) -> None:
    try:
        Manifest.model_validate(manifest)
        loads = True
    except ValidationError:
        loads = False
    assert Draft202012Validator(SCHEMAS["manifest"]).is_valid(manifest) == loads


def test_versions_of_the_vectors_are_ordered_as_packaging_orders_them() -> None:
    vectors = json.loads((WORKER / "test" / "vectors" / "versions.json").read_text("utf-8"))
    ordered = [Version(text) for text in vectors["ordered"]]
    assert ordered == sorted(ordered) and len(set(ordered)) == len(ordered)
    for one, other in vectors["same"]:
        assert Version(one) == Version(other)
    for text in vectors["none"]:
        with pytest.raises(InvalidVersion):
            Version(text)


# --- one client, two registries


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, Registry]]:
    """The private registry over repositories, and the worker filled with what that one says."""
    folder = tmp_path_factory.mktemp("registries")
    repositories = folder / "repositories"
    plugin(repositories / "dice", "v1.0.0", "v1.1.0", "v2.0.0rc1", description="Rolls dice for a group")
    plugin(repositories / "dice_poker", "v0.1.0", display_name="Dice poker", description="A game for a group")
    plugin(repositories / "weather", "v0.3.0", display_name="天气预报", description="查询城市天气", author="小明")
    plugin(repositories / "memory_graph", "v0.2.0", description="Remembers", dependencies={"dice": ">=1"})
    key = {"fingerprint": "f" * 64, "reason": "stolen", "date": "2026-11-01T00:00:00Z"}
    revoked = {"keys": [key], "versions": []}
    (repositories / "revoked.json").write_text(json.dumps(revoked), "utf-8")
    (repositories / "yanked.json").write_text('{"dice": {"v1.1.0": "rolls only sixes"}}', "utf-8")
    catalogue = Catalogue(repositories)
    found = [catalogue.plugin(hit["name"]) for hit in catalogue.search("", 1)[0]]
    entries = [_entry(one) for one in found if one is not None]
    with (
        serving(application(catalogue, Desk(catalogue, None))) as private,
        worker(folder, {"entries": entries, "revoked": revoked}) as public,
    ):
        yield Registry(public, folder / "cache" / "public"), Registry(private, folder / "cache" / "private")


def _entry(plugin: dict[str, Any]) -> dict[str, Any]:
    kept = {key: plugin[key] for key in ("name", "git_url", "manifest", "readme_md", "versions")}
    return {**kept, "owner": "author:ada"}


@needs_worker
@pytest.mark.services
class TestTheClientGetsTheSameAnswersFromBoth:
    @pytest.mark.parametrize("name", ["dice", "dice-poker", "weather", "memory-graph"])
    def test_of_a_plugin(self, both: tuple[Registry, Registry], name: str) -> None:
        public, private = both
        assert public.info(name) == private.info(name)

    def test_of_versions_that_were_yanked(self, both: tuple[Registry, Registry]) -> None:
        found = both[0].info("dice")
        yanked = found.release("1.1.0")
        assert found.latest_tag == "v1.0.0"
        assert yanked is not None and yanked.yanked == "rolls only sixes"

    @pytest.mark.parametrize(
        "text", ["", "dice", "group", "天气", "城市天气", "Memory_Graph", "wether", "poker dice", "xyz", '"*']
    )
    def test_of_a_search(self, both: tuple[Registry, Registry], text: str) -> None:
        public, private = both
        assert public.search(text) == private.search(text)

    @settings(max_examples=25, deadline=None)
    @given(text=st.text(st.sampled_from("dicemorygaph 天气预-_\"*'é"), max_size=12))
    def test_of_any_search(self, both: tuple[Registry, Registry], text: str) -> None:
        public, private = both
        assert public.search(text) == private.search(text)

    def test_of_what_was_called_back(self, both: tuple[Registry, Registry]) -> None:
        public, private = both
        assert public.revoked() == private.revoked()
        assert public.revoked().keys[0].reason == "stolen"

    def test_of_what_is_not_there(self, both: tuple[Registry, Registry]) -> None:
        for registry in both:
            with pytest.raises(RegistryError, match="knows no plugin 'nothing'"):
                registry.info("nothing")

    def test_of_who_may_submit(self, both: tuple[Registry, Registry]) -> None:
        for registry in both:
            with pytest.raises(RegistryError, match="refuses the token"):
                registry.submit({}, "lumia_wrong")
