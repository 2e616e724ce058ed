"""GitHub's REST API over real HTTP, as the registry asks it: bare repositories on disk, pull requests in memory."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.repositories import git

HOST = "github.test"
INDEX = "lumia/index"
Found = tuple[int, Any]
_ABSENT: Found = (404, {"message": "Not Found"})


@dataclass
class GitHub:
    """Repositories below `folder` as `OWNER/NAME.git`; INDEX is the registry's, with the empty branch `main`.

    users: token → login. asked: method and path of each request.
    """

    folder: Path
    url: str = ""
    users: dict[str, str] = field(default_factory=dict)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def repository(self, name: str) -> Path:
        """Make a bare repository and return its folder."""
        bare = self.folder / f"{name}.git"
        bare.mkdir(parents=True)
        git(bare, "init", "-q", "--bare", "-b", "main", "--template=")
        return bare

    def merge(self, number: int) -> None:
        """Do what a reviewer does with a pull request."""
        pull = self.pulls[number - 1]
        git(self.folder / f"{INDEX}.git", "update-ref", "refs/heads/main", f"refs/heads/{pull['head']}")
        pull["state"] = "closed"

    # --- the API

    def answer(self, method: str, target: str, token: str, body: Any) -> Found:
        """Return status and body of one request."""
        parts = urlsplit(target)
        path, query = unquote(parts.path), {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.asked.append(f"{method} {path}")
        if re.fullmatch(r"/applications/\w+/token", path):
            login = self.users.get(body["access_token"])
            return (200, {"user": {"id": len(login), "login": login}}) if login else _ABSENT
        found = re.fullmatch(r"/repos/([\w-]+)/([\w-]+)(/.*)?", path)
        bare = self.folder / f"{found[1]}/{found[2]}.git" if found else None
        if found is None or bare is None or not bare.is_dir():
            return _ABSENT
        rest = found[3] or ""
        if method == "GET" and not rest.startswith("/pulls"):
            return self._read(bare, found[1], rest, query, token)
        return self._propose(method, rest, query, body) if "/pulls" in rest else self._write(bare, method, rest, body)

    def _read(self, bare: Path, owner: str, rest: str, query: dict[str, str], token: str) -> Found:
        if rest == "":
            push = {"permissions": {"push": self.users.get(token) == owner}} if token else {}
            return 200, {"owner": {"login": owner}, "private": False, "stargazers_count": 4, **push}
        if named := re.fullmatch(r"/git/ref/(heads|tags)/(.+)", rest):
            at = _object(bare, f"refs/{named[1]}/{named[2]}")
            return (200, {"object": {"type": at[0], "sha": at[1]}}) if at else _ABSENT
        if named := re.fullmatch(r"/git/tags/(\w+)", rest):
            commit = _object(bare, f"{named[1]}^{{}}")
            return (200, {"object": {"type": commit[0], "sha": commit[1]}}) if commit else _ABSENT
        if named := re.fullmatch(r"/git/trees/(.+)", rest):
            return 200, {"truncated": False, "tree": list(_listed(bare, named[1]))}
        if named := re.fullmatch(r"/git/blobs/(\w+)", rest):
            return _content(bare, named[1])
        named = re.fullmatch(r"/contents/(.+)", rest)
        return _content(bare, f"{query['ref']}:{named[1]}") if named else _ABSENT

    def _write(self, bare: Path, method: str, rest: str, body: Any) -> Found:
        if method == "POST" and rest == "/git/refs":
            if _object(bare, body["ref"]):
                return 422, {"message": "Reference already exists"}
            git(bare, "update-ref", body["ref"], body["sha"])
            return 201, {}
        if method == "PATCH" and rest.startswith("/git/refs/heads/"):
            git(bare, "update-ref", rest.removeprefix("/git/"), body["sha"])
            return 200, {}
        named = re.fullmatch(r"/contents/(.+)", rest)
        if method != "PUT" or named is None:
            return _ABSENT
        there = _object(bare, f"{body['branch']}:{named[1]}")
        if (there[1] if there else None) != body.get("sha"):
            return 409, {"message": "sha wasn't supplied"}
        commit_file(bare, body["branch"], named[1], base64.b64decode(body["content"]), body["message"])
        return 201, {}

    def _propose(self, method: str, rest: str, query: dict[str, str], body: Any) -> Found:
        if method == "GET":
            head = query["head"].partition(":")[2]
            return 200, [pull for pull in self.pulls if pull["head"] == head and pull["state"] == "open"]
        if method == "POST":
            number = len(self.pulls) + 1
            place = f"https://{HOST}/{INDEX}/pull/{number}"
            self.pulls.append({**body, "number": number, "html_url": place, "state": "open"})
            return 201, self.pulls[-1]
        self.pulls[int(rest.rpartition("/")[2]) - 1].update(body)
        return 200, {}


def _object(bare: Path, name: str) -> tuple[str, str] | None:
    """Return type and id of what `name` names, None when there is nothing."""
    kind, _, sha = git(bare, "cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=name.encode()).partition(
        " "
    )
    return (kind, sha) if re.fullmatch("[0-9a-f]{40}", sha) and kind in ("tag", "commit", "tree", "blob") else None


def _listed(bare: Path, tree: str) -> Iterator[dict[str, Any]]:
    for line in git(bare, "ls-tree", "-r", "-t", "--long", "-z", tree).split("\0"):
        if line:
            told, _, path = line.partition("\t")
            mode, kind, sha, size = told.split()
            yield {"path": path, "mode": mode, "type": kind, "sha": sha} | ({"size": int(size)} if size != "-" else {})


def _content(bare: Path, name: str) -> Found:
    found = _object(bare, name)
    if found is None:
        return _ABSENT
    raw = git(bare, "cat-file", "blob", found[1]).encode("utf-8", "surrogateescape")
    return 200, {"encoding": "base64", "content": base64.encodebytes(raw).decode(), "sha": found[1]}


def commit_file(bare: Path, branch: str, path: str, content: bytes, message: str) -> None:
    """Commit one file to a branch of a bare repository, made when it is not there."""
    blob = git(bare, "hash-object", "-w", "--stdin", stdin=content)
    there = _object(bare, f"refs/heads/{branch}")
    git(bare, "read-tree", *([there[1]] if there else ["--empty"]))
    git(bare, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    parent = ["-p", there[1]] if there else []
    commit = git(bare, "commit-tree", git(bare, "write-tree"), *parent, "-m", message)
    git(bare, "update-ref", f"refs/heads/{branch}", commit)


@contextmanager
def github(folder: Path) -> Iterator[GitHub]:
    """Serve the API on loopback."""
    made = GitHub(folder)
    commit_file(made.repository(INDEX), "main", "README.md", b"The plugins.\n", "Begin")
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            with lock:
                status, said = made.answer(self.command, self.path, token, json.loads(body or b"null"))
            sent = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
