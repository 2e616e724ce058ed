"""How commands talk to a running supervisor: small files in data/run/requests, asked and answered by rename.

Files, not a socket: they work however deep the bot root lies (a Unix socket's path is limited to about 100 characters),
survive a supervisor that is busy or restarts, and only the folder's owner can write them.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumia.errors import SupervisorError
from tasks.supervise.private import write_private

ASKED, ANSWERED = ".ask", ".answer"


@dataclass(frozen=True)
class Request:
    """One question to the supervisor. op: "add" or "remove"; args: JSON values."""

    id: str
    op: str
    args: Mapping[str, Any]


def ask(
    folder: Path, op: str, args: Mapping[str, Any], *, timeout: float, alive: Callable[[], bool]
) -> Mapping[str, Any]:
    """Ask and wait for the answer; raise `SupervisorError` with its reason, or when none comes in `timeout` seconds."""
    id = f"{time.time_ns()}-{secrets.token_hex(4)}"
    _write(folder / f"{id}{ASKED}", {"op": op, "args": dict(args)})
    answer = folder / f"{id}{ANSWERED}"
    limit = time.monotonic() + timeout
    while not answer.exists():
        if time.monotonic() > limit or not alive():
            (folder / f"{id}{ASKED}").unlink(missing_ok=True)
            raise SupervisorError(f"the supervisor gave no answer within {timeout:g} s; see data/logs/up.log")
        time.sleep(0.05)
    said: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    answer.unlink(missing_ok=True)
    if "error" in said:
        raise SupervisorError(str(said["error"]))
    return said


def taken(folder: Path) -> Iterator[Request]:
    """Take the waiting requests, oldest first; one that can't be understood is answered and dropped."""
    with suppress(FileNotFoundError):
        for file in sorted(folder.glob(f"*{ASKED}")):
            id = file.name.removesuffix(ASKED)
            try:
                raw = json.loads(file.read_text(encoding="utf-8"))
                request = Request(id, str(raw["op"]), dict(raw["args"]))
            except (OSError, ValueError, KeyError, TypeError) as error:
                answer(folder, id, {"error": f"not understood: {error}"})
                continue
            finally:
                file.unlink(missing_ok=True)
            yield request


def answer(folder: Path, id: str, said: Mapping[str, Any]) -> None:
    """Answer one request."""
    _write(folder / f"{id}{ANSWERED}", said)


def clear(folder: Path) -> None:
    """Remove what an earlier supervisor left."""
    for file in folder.glob("*"):
        file.unlink(missing_ok=True)


def _write(file: Path, said: Mapping[str, Any]) -> None:
    write_private(file, json.dumps(said))
