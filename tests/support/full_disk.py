"""An operation of `pkg` on a disk that is full: a tiny tmpfs, mounted where nobody else sees it.

`unshare -rm python -m tests.support.full_disk MOUNT` reads a pickled job and writes pickled outcomes.
"""

from __future__ import annotations

import errno
import importlib
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lumia.errors import PkgError
from lumia.pkg import operation, recovery
from lumia.pkg.layout import Layout
from lumia.pkg.model import Plan
from tests.support.packages import Bot

_SIZE = "4m"
_REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """What came of an operation with `free` KiB of room: what it said, and the bot's state after it."""

    free: int
    said: str
    state: dict[str, str]


def possible() -> bool:
    """Tell whether this machine lets us."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
    )
    return tried.returncode == 0


def outcomes(bot: Bot, plan: Plan, mount: Path, free: Iterable[int], read_only: str = "") -> list[Outcome]:
    """Carry out `plan` in copies of a bot root on a disk with so many KiB free, and recover with room.

    read_only: a folder of the bot root that can't be written meanwhile.
    """
    mount.mkdir(exist_ok=True)
    job = pickle.dumps((bot.layout.root, plan, list(free), read_only))
    command = ["unshare", "-rm", sys.executable, "-m", "tests.support.full_disk", str(mount)]
    done = subprocess.run(command, input=job, stdout=subprocess.PIPE, cwd=_REPOSITORY, check=True)
    found: list[Outcome] = pickle.loads(done.stdout)
    return found


def _one(template: Path, plan: Plan, mount: Path, free: int, read_only: str) -> Outcome:
    root, filler = mount / "bot", mount / "filler"
    shutil.copytree(template, root, symlinks=True)
    _fill(filler, free * 1024)
    actions = []
    for one in plan.actions:
        staged = one.staged and replace(one.staged, folder=root / one.staged.folder.relative_to(template))
        actions.append(replace(one, staged=staged))
    said = ""
    if read_only:
        _mount("--bind", str(root / read_only), str(root / read_only))
        _mount("-o", "remount,ro,bind", str(root / read_only))
    try:
        operation.run(replace(plan, actions=tuple(actions)), layout=Layout(root))
    except PkgError as error:
        said = str(error)
    filler.unlink()
    if read_only:
        subprocess.run(["umount", str(root / read_only)], check=True)
    recovery.recover(root)
    bot = Bot.__new__(Bot)
    bot.layout = Layout(root)
    outcome = Outcome(free, said, bot.state())
    shutil.rmtree(root)
    return outcome


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _fill(file: Path, free: int) -> None:
    with file.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"x" * 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        os.truncate(file, max(0, stream.tell() - free))


def _main() -> None:
    mount = Path(sys.argv[1])
    _mount("-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(mount))
    template, plan, sizes, read_only = pickle.load(sys.stdin.buffer)
    found = [_one(template, plan, mount, free, read_only) for free in sizes]
    sys.stdout.buffer.write(pickle.dumps(found))


if __name__ == "__main__":
    # By import, for pickle must find the classes under the name that the test knows them by.
    importlib.import_module("tests.support.full_disk")._main()
