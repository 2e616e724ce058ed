"""The registry's worker on workerd, where Node and its packages are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).resolve().parents[2] / "registry-worker"
OLDEST = 20
WAY = "install Node 20 or newer (apt install nodejs npm), then run: make worker"


def absent() -> str:
    """Return why the worker can't run here, and the way to it; "" when it can."""
    node = shutil.which("node")
    if node is None:
        return f"there is no Node; {WAY}"
    found = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)", found)
    if version is None or int(version[1]) < OLDEST:
        return f"Node is {found.strip() or 'broken'}; {WAY}"
    if not (WORKER / "node_modules" / "vitest").is_dir():
        return "registry-worker/node_modules is absent; run: make worker"
    return ""


needs_worker = pytest.mark.skipif(bool(absent()), reason=absent())


def environment() -> dict[str, str]:
    """Return the surroundings of Node, in which nothing reports to anybody."""
    return {**os.environ, "CI": "1", "WRANGLER_SEND_METRICS": "false", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Worker:
    """The worker at `url`; token: its author's, "" when none was made."""

    url: str
    token: str
    process: subprocess.Popen[str]

    def sync(self) -> None:
        """Have it read the index repository, as its clock does."""
        assert self.process.stdin is not None
        self.process.stdin.write("sync\n")
        self.process.stdin.flush()
        assert self._line("synced ") == "ok"

    def _line(self, beginning: str) -> str:
        assert self.process.stdout is not None
        found = next((line for line in self.process.stdout if line.startswith(beginning)), None)
        assert found is not None, f"the worker ended before it said {beginning}"
        return found.removeprefix(beginning).strip()


@contextmanager
def worker(folder: Path, content: dict[str, Any], *more: str) -> Iterator[str]:
    """Run the worker with `content` (entries, stars, revoked) and yield its address."""
    with running(folder, content, *more) as made:
        yield made.url


@contextmanager
def running(folder: Path, content: dict[str, Any], *more: str) -> Iterator[Worker]:
    """Run the worker with `content` (entries, stars, revoked). more: options of scripts/local.mjs."""
    file = folder / "content.json"
    file.write_text(json.dumps(content), "utf-8")
    command = ["node", "scripts/local.mjs", "--port", "0", "--fill", str(file), *more]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=WORKER, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert process.stdout is not None and process.stdin is not None
            said: dict[str, str] = {}
            for line in process.stdout:
                key, _, value = line.strip().partition(" ")
                said[key] = value
                if key == "ready":
                    break
            assert "ready" in said, (folder / "worker.log").read_text("utf-8")
            yield Worker(said["ready"], said.get("token", ""), process)
        finally:
            assert process.stdout is not None and process.stdin is not None
            process.stdin.close()
            process.wait(20)
            process.stdout.close()
