"""Git repositories of plugins, made for a test."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

_ENV = {
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
}  # fmt: skip


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *args], capture_output=True, text=True, check=True, env={**os.environ, **_ENV}
    )
    return done.stdout.strip()


def plugin(folder: Path, *tags: str, message: str = "", **manifest: Any) -> Path:
    """Make (or go on with) a repository whose plugin is named like its folder, with a commit for every tag."""
    if not folder.exists():
        folder.mkdir(parents=True)
        git(folder, "init", "--quiet", "--initial-branch=main")
    said = {"name": folder.name.replace("_", "-"), **manifest}
    (folder / "manifest.json").write_text(json.dumps(said), "utf-8")
    (folder / "README.md").write_text(f"# {folder.name}\n", "utf-8")
    for tag in tags:
        (folder / "plugin.py").write_text(f"VERSION = {tag!r}\n", "utf-8")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--allow-empty", "--message", tag)
        git(folder, "tag", "--annotate", "--message", message or f"What is new in {tag}", tag)
    return folder
