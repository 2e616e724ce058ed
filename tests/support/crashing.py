"""Operations of `pkg` in processes that may be killed: each is forked off a server that has everything imported.

`python -m tests.support.crashing` reads jobs as lines of JSON and answers with how each process ended.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lumia.pkg import failpoints, operation, recovery
from lumia.pkg.layout import Layout
from lumia.pkg.model import Plan
from tests.support.shelf import packages_of

REPOSITORY = Path(__file__).parents[2]


class Server:
    """Runs jobs. Each returns the exit status of its process as `Popen.returncode` has it: -9 for a killed one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, root: Path, plan: Plan, failpoint: str = "", *, largest: int | None = None, shelf: Path | None = None
    ) -> int:
        """Carry out a plan. failpoint: where it dies. largest: bytes that any file may have (RLIMIT_FSIZE).

        shelf: wheels of the Python packages that go with the plan; None leaves those as they are.
        """
        packed = base64.b64encode(pickle.dumps(plan)).decode()
        return self._ask({"root": str(root), "plan": packed, "failpoint": failpoint, "largest": largest,
                          "shelf": str(shelf or "")})  # fmt: skip

    def recover(self, root: Path, failpoint: str = "", *, largest: int | None = None) -> int:
        """Finish or undo what is cut off there."""
        return self._ask({"root": str(root), "plan": "", "failpoint": failpoint, "largest": largest})

    def _ask(self, job: dict[str, Any]) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def server() -> Iterator[Server]:
    """Start a server for a test, or for many."""
    command = [sys.executable, "-m", "tests.support.crashing"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        try:
            yield Server(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)


def _serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_work(json.loads(line)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _work(job: dict[str, Any]) -> int:
    os.environ[failpoints.VARIABLE] = job["failpoint"]
    if job["largest"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["largest"], job["largest"]))
    try:
        if job["plan"]:
            plan, root = pickle.loads(base64.b64decode(job["plan"])), Path(job["root"])
            packages = packages_of(plan, root, Path(job["shelf"])) if job["shelf"] else None
            operation.run(plan, layout=Layout(root), packages=packages)
        else:
            recovery.recover(Path(job["root"]))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    _serve()
