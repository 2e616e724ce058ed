"""`lumia init`: a new bot root (spec §7.3)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from lumia import paths
from lumia.cli import output
from lumia.errors import LumiaError

EXAMPLE = "hello"
IGNORED = "__pycache__/\n*.pyc\n/data/\n/config/.*.lock\n"
README = """# A Lumia bot

    lumia up            # start everything; Ctrl-C stops it
    lumia send "!ping"  # ask the example plugin something
    lumia handlers      # what handles which id
    python -m pytest plugins

`config/lumia.toml` holds the settings, `plugins/` one folder for each plugin, `data/` what the bot stores.
`plugins/hello` is an example to copy from; delete it when you no longer need it.
"""


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.", show_default=False)],
) -> None:
    """Make a new bot root in DIR.

    It holds settings, an example plugin with a test, and room for data; `lumia up` works there.

    \b
    Example:
      lumia init mybot
      cd mybot && lumia up
    """
    root = folder.expanduser().absolute()
    _refuse_used(root)
    try:
        create(root)
    except OSError as error:
        raise LumiaError(f"{root} can't be made a bot root: {error.strerror}: {error.filename}") from error
    output.text(str(root))
    output.note(f"next: cd {folder} && lumia up")


def _refuse_used(root: Path) -> None:
    if root.is_dir() and any(root.iterdir()):
        has = "is a bot root already" if (root / paths.CONFIG_FILE).exists() else "is not empty"
        raise LumiaError(f"{root} {has}; name a new folder, or an empty one")
    if root.exists() and not root.is_dir():
        raise LumiaError(f"{root} is a file; name a new folder, or an empty one")


def create(root: Path) -> None:
    """Make the folders and files of a bot root; raises `OSError` when the file system refuses."""
    from lumia.config import ConfigStore

    plugins = root / "plugins"
    plugins.mkdir(parents=True)
    (root / "data").mkdir(mode=0o700)
    ConfigStore(root, environ={})
    (root / ".gitignore").write_text(IGNORED, "utf-8")
    (root / "README.md").write_text(README, "utf-8")
    example = paths.base() / "plugins" / EXAMPLE
    shutil.copytree(example, plugins / EXAMPLE, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    _make_repository(plugins)


def _make_repository(plugins: Path) -> None:
    """Make `plugins/` a git repository, which tracks what is installed (spec §7.1); without git it stays a folder."""
    git = shutil.which("git")
    if git is None:
        output.warn(f"git is not on PATH: {plugins} is no repository yet; run `git init` there once git is installed")
        return
    done = subprocess.run([git, "init", "--quiet", str(plugins)], capture_output=True, text=True, check=False)
    if done.returncode:
        output.warn(f"{plugins} is no repository: {done.stderr.strip()}")
