"""From a clean repository to the registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lumia.errors import PkgError, RegistryError
from lumia.pkg.dev.project import Project, git
from lumia.pkg.dev.publish import Wish, checked, choose, publish, ready
from lumia.pkg.dev.scaffold import create
from tests.lumia.pkg.dev.conftest import commit


class FakeRegistry:
    """Takes submissions of whoever has the token `right`, and answers with `checks`."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.fine = True
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.headers.get("Authorization") != "Bearer right":
                    self.answer(401, {"title": "Unauthorized", "status": 401, "detail": "whose token is that?"})
                    return
                registry.taken.append(body)
                checks = [{"name": "licence", "ok": registry.fine, "text": "MIT"}]
                place = "https://example.org/index/pull/7" if registry.fine else None
                self.answer(202 if registry.fine else 422, {"pull_request": place, "checks": checks})

            def answer(self, status: int, value: dict[str, Any]) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    create(tmp_path / "dice", "dice")
    made = Project(tmp_path / "dice", "dice")
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(made.folder, "remote", "add", "origin", f"file://{tmp_path}/remote.git")
    return made


def test_a_signed_version_is_pushed_and_handed_in(project: Project, registry: FakeRegistry) -> None:
    told: list[str] = []
    wish = Wish("v0.1.0", registry.url, "right", Ed25519PrivateKey.generate())
    one, answer = publish(project, wish, checked(project, tests=False, told=told.append), told.append)
    assert answer.pull_request == "https://example.org/index/pull/7"
    (sent,) = registry.taken
    assert (sent["tag"], sent["commit"], sent["git_url"]) == ("v0.1.0", one.commit, one.url)
    assert sent["validation"] == {"errors": 0, "warnings": 0, "tool": sent["validation"]["tool"]}
    assert sent["signature"].startswith("ed25519:")
    assert [line.split()[0] for line in told] == ["validated:", "its", "tagged", "signed", "pushed"]
    publish(project, wish, [], told.append)
    assert registry.taken[1] == sent


def test_a_refusal_is_handed_on_with_its_checks(project: Project, registry: FakeRegistry) -> None:
    registry.fine = False
    _one, answer = publish(project, Wish("v0.1.0", registry.url, "right"), [], lambda line: None)
    assert answer.pull_request is None
    assert [(check.name, check.ok) for check in answer.checks] == [("licence", False)]
    with pytest.raises(RegistryError, match="LUMIA_REGISTRY_TOKEN") as refused:
        publish(project, Wish("v0.1.0", registry.url, "wrong-token"), [], lambda line: None)
    assert "wrong-token" not in str(refused.value)


def test_who_may_not_publish_is_told_before_anything_is_tagged(project: Project, registry: FakeRegistry) -> None:
    for token, said in (("", "set LUMIA_REGISTRY_TOKEN to your token"), ("wrong-token", "refuses the token")):
        with pytest.raises(RegistryError, match=rf"{said}.*\(401\): whose token is that\?") as refused:
            choose(project, None, registry.url, token)
        assert "wrong-token" not in str(refused.value)
    assert choose(project, None, registry.url, "right") == "v0.1.0"
    assert git(project.folder, "tag") == ""


def test_what_no_registry_takes_is_told_before_anything_is_tagged(project: Project) -> None:
    ready(project)
    git(project.folder, "rm", "--quiet", "LICENSE")
    commit(project)
    with pytest.raises(PkgError, match="there is no licence file"):
        ready(project)
    git(project.folder, "revert", "--no-edit", "HEAD")
    (project.folder / "out").symlink_to("/etc/passwd")
    commit(project)
    with pytest.raises(PkgError, match="out"):
        ready(project)


def test_a_tag_that_nobody_can_fetch_is_not_handed_in(project: Project, registry: FakeRegistry) -> None:
    with pytest.raises(PkgError, match=r"doesn't have the tag v0\.1\.0 as it is here; run `git push origin"):
        publish(project, Wish("v0.1.0", registry.url, "right", pushes=False), [], lambda line: None)
    assert registry.taken == []


def test_faulty_code_and_failing_tests_are_not_published(project: Project) -> None:
    (project.folder / "plugin.py").write_text("import os\n")
    commit(project)
    with pytest.raises(PkgError, match=r"(?s)finds errors.*plugin\.py:1:8: error F401"):
        checked(project, tests=False, told=lambda line: None)
    (project.folder / "plugin.py").write_text('"""Nothing."""\n')
    commit(project)
    with pytest.raises(PkgError, match="its tests fail"):
        checked(project, tests=True, told=lambda line: None)
