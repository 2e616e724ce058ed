"""Plugins in git repositories of their own, made for a test."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumia.manifest import underscored

CODE = "VERSION = {tag!r}\n"


@dataclass(frozen=True)
class Repository:
    """A plugin's repository in `folder`, which is also its working tree."""

    name: str
    folder: Path

    @property
    def url(self) -> str:
        """Return its address."""
        return f"file://{self.folder}"

    def release(self, tag: str | None, files: dict[str, str] | None = None, **manifest: Any) -> str:
        """Commit a version with this manifest and these files, tag it unless `tag` is None, and return the commit."""
        written = {"plugin.py": CODE.format(tag=tag), **(files or {})}
        written["manifest.json"] = json.dumps({"name": self.name, **manifest}, indent=2) + "\n"
        for name, text in written.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"Version {tag}")
        if tag is not None:
            self.git("tag", "-f", "-a", "-m", f"Version {tag}", tag)
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *args: str) -> str:
        """Run git in the repository and return what it prints."""
        who = ("-c", "user.name=Author", "-c", "user.email=author@example.org")
        done = subprocess.run(["git", *who, *args], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout


def repository(parent: Path, name: str) -> Repository:
    """Make an empty repository for the plugin `name` below `parent`."""
    folder = parent / underscored(name)
    folder.mkdir(parents=True)
    made = Repository(name, folder)
    made.git("init", "-q", "-b", "main")
    return made
