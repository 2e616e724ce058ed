"""Git repositories of plugins for tests, well made and ill made ones."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Files = Mapping[str, str | bytes]
_IDENTITY = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgSign=false")


def git(folder: Path, *args: str, stdin: bytes = b"") -> str:
    """Run git in `folder` without what the surroundings set, and return its output without the last line end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *_IDENTITY, "-C", str(folder), *args]
    done = subprocess.run(command, capture_output=True, input=stdin, env=env, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


@dataclass
class Repository:
    """A plugin's repository at `folder`, and the URL git reads it by."""

    folder: Path

    @property
    def url(self) -> str:
        """Return its file URL."""
        return f"file://{self.folder}"

    def write(self, files: Files) -> None:
        """Write files, made with their folders."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: Files | None = None, *, tag: str = "", message: str = "") -> str:
        """Commit everything, tag it (annotated when there is a message) and return the commit."""
        self.write(files or {})
        git(self.folder, "add", "-A", "-f")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "change")
        if tag:
            git(
                self.folder,
                "tag",
                *(["-a", "--cleanup=verbatim", "-F", "-"] if message else []),
                tag,
                stdin=message.encode(),
            )
        return git(self.folder, "rev-parse", "HEAD")

    def blob(self, content: bytes) -> str:
        """Store a file's content and return its id."""
        return git(self.folder, "hash-object", "-w", "--stdin", stdin=content)

    def tree(self, *entries: tuple[str, str | bytes, str]) -> str:
        """Store a tree of (mode, name, id), whatever git thinks of it, and return its id."""
        raw = b"".join(
            mode.encode() + b" " + (name.encode() if isinstance(name, str) else name) + b"\0" + bytes.fromhex(id)
            for mode, name, id in entries
        )
        return git(self.folder, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)

    def commit_tree(self, tree: str, *, tag: str) -> str:
        """Commit a stored tree, tag it, and return the commit."""
        commit = git(self.folder, "commit-tree", "-m", "change", tree)
        git(self.folder, "tag", tag, commit)
        git(self.folder, "update-ref", "HEAD", commit)
        return commit


def repository(
    folder: Path, name: str = "dice", files: Files | None = None, *, tag: str = "", **keys: Any
) -> Repository:
    """Return a new repository with a manifest and an entry point; keys: more fields of the manifest."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", "--template=")
    made = Repository(folder)
    manifest = json.dumps({"name": name, **keys})
    made.commit({"manifest.json": manifest, "plugin.py": "import lumia\n", **(files or {})}, tag=tag)
    return made
