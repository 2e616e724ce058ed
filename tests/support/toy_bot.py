"""A supervisor over toy services: everything `lumia up` does, without Celery, a gateway or servers.

`python -m tests.support.toy_bot ROOT NAME=MODE[@STAGE[?]] …`; a `?` makes the service inessential.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lumia.errors import LumiaError
from tasks.supervise import up
from tasks.supervise.client import log_line, status
from tasks.supervise.folders import Folders
from tasks.supervise.lock import holder
from tasks.supervise.plan import Plan, UpOptions
from tasks.supervise.service import Service
from tasks.supervise.services import Place
from tasks.supervise.state import ServiceState, UpState
from tests.support.wait import until

SERVICE = Path(__file__).with_name("toy_service.py")
GRACE = 2.0


@dataclass(frozen=True)
class ToyPlan(Plan):
    """A plan whose added workers are toys too."""

    def make_worker(self, args: Mapping[str, Any]) -> Service:
        """Return a toy worker."""
        name, mode, queues = str(args["name"]), str(args.get("pool") or "steady"), args.get("queues")
        service = toy(self.folders.root, name, mode, kind="worker", essential=False)
        return replace(service, command=(*service.command, "-Q", ",".join(queues))) if queues else service


def toy(root: Path, name: str, mode: str, *, stage: int = 0, kind: str = "toy", essential: bool = True) -> Service:
    """Return the service of one toy process."""
    return Service(
        name=name,
        kind=kind,
        command=(sys.executable, str(SERVICE), str(root / "data"), name, mode),
        probe=lambda pid: (root / "data" / f"{name}.{pid}").exists(),
        env=dict(os.environ),
        essential=essential,
        grace=GRACE,
        stage=stage,
        start_timeout=20.0,
    )


def planned(words: list[str], base: Path, root: Path) -> Plan:
    """Return the plan that the words describe."""
    services = []
    for word in words:
        name, _, rest = word.rstrip("?").partition("=")
        mode, _, stage = rest.partition("@")
        kind = "worker" if name.startswith("worker") else "toy"
        services.append(toy(root, name, mode, stage=int(stage or 0), kind=kind, essential=not word.endswith("?")))
    return ToyPlan(Folders(root), Place(base, root, "redis://127.0.0.1:1/0"), tuple(services))


class ToyBot:
    """A running supervisor in a process of its own, and what it left behind."""

    def __init__(self, root: Path, process: subprocess.Popen[str]) -> None:
        self.root = root
        self.process = process

    @property
    def state(self) -> UpState:
        return status(self.root)

    def service(self, name: str) -> ServiceState:
        """Return one service as `lumia status` sees it."""
        return next(one for one in self.state.services if one.name == name)

    def wait_ready(self) -> UpState:
        """Wait until it is ready."""
        until(lambda: self.state.announced or self.process.poll() is not None, timeout=20, what="the toy bot is ready")
        assert self.process.poll() is None, self.log
        return self.state

    @property
    def diary(self) -> list[str]:
        file = self.root / "data" / "diary"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def log(self) -> str:
        file = Folders(self.root).log(up.OWN_LOG)
        return file.read_text() if file.exists() else ""


@contextmanager
def toy_bot(root: Path, *words: str) -> Iterator[ToyBot]:
    """Run a supervisor over toy services in a process of its own; whatever is left is ended."""
    command = [sys.executable, "-m", "tests.support.toy_bot", str(root), *words]
    base = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(command, cwd=base, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield ToyBot(root, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
        if holder(Folders(root).lock) is None:
            up.end_leftovers(Folders(root), lambda line: None)


def main(root: Path, words: list[str]) -> int:
    """Supervise until a signal."""
    log = Folders(root).log(up.OWN_LOG)
    try:
        up.run(
            Path.cwd(),
            root,
            UpOptions(),
            lambda line: log_line(log, line),
            lambda state: None,
            lambda base, root, options: planned(words, base, root),
        )
    except LumiaError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
