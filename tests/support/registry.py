"""A registry on loopback that answers whatever a test wants, true or not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from lumia.pkg import tree
from tests.support.plugin_repos import Repository

DATE = "2026-11-22T12:00:00Z"


@dataclass
class Answer:
    """What one path answers. body: JSON-exact values, or bytes as they are."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> bytes:
        """Return the body as it is sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class FakeRegistry:
    """Answers by path (without query). asked: method, path with query, headers and body of what was asked."""

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def lists(self, *repositories: Repository, **more: Any) -> None:
        """Answer truly for plugins whose repositories are on this disk."""
        hits = []
        for one in repositories:
            info = info_of(one) | more
            self.answers[f"/pkg/{one.name}"] = Answer(info)
            hits.append(hit_of(info))
        self.answers["/search"] = Answer(hits, headers={"X-Total-Count": str(len(hits))})
        self.answers.setdefault("/revoked", Answer({"keys": [], "versions": []}))


def info_of(repository: Repository) -> dict[str, Any]:
    """Return what a registry says of a plugin, newest version first."""
    tags = repository.git("tag", "--sort=-v:refname").split()
    versions = [version_of(repository, tag) for tag in tags]
    latest = next((tag for tag in tags if "rc" not in tag), tags[0])
    manifest = json.loads(repository.git("show", f"{latest}:manifest.json"))
    return {
        "name": repository.name,
        "git_url": repository.url,
        "latest_tag": latest,
        "manifest": manifest,
        "readme_md": f"# {repository.name}\n",
        "stars": 3,
        "versions": versions,
    }


def version_of(repository: Repository, tag: str) -> dict[str, Any]:
    """Return one entry of `versions`."""
    commit = repository.git("rev-parse", f"{tag}^{{commit}}").strip()
    digest = tree.digest_commit(repository.folder, commit)
    changelog = f"What {tag} brings"
    return {"tag": tag, "date": DATE, "changelog": changelog, "commit": commit, "digest": digest, "signature": None,
            "yanked": None}  # fmt: skip


def hit_of(info: dict[str, Any]) -> dict[str, Any]:
    """Return a search's result for an info."""
    texts = {key: info["manifest"].get(key, "") for key in ("display_name", "description", "author")}
    return {key: info[key] for key in ("name", "git_url", "latest_tag", "stars")} | texts


@contextmanager
def fake_registry(repositories: Sequence[Repository] = ()) -> Iterator[FakeRegistry]:
    """Run a registry; it knows `repositories` and answers anything else with 404."""
    made = FakeRegistry("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

        def _answer(self, body: bytes) -> None:
            made.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            answer = made.answers.get(urlsplit(self.path).path) or Answer({"title": "none", "status": 404}, 404)
            etag = answer.headers.get("ETag")
            same = etag is not None and self.headers.get("If-None-Match") == etag
            self.send_response(304 if same else answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            sent = b"" if same else answer.bytes
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    made.lists(*repositories)
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
