"""Layer 1: ruff check and ruff format over a plugin's folder, with the settings ruff finds there (spec §14.1)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lumia.pkg.validate.finding import Finding, finding

SECONDS = 60
_HOW = "install it with `pip install 'lumia[authors]'`, or leave the layer out with --no-ruff"


def ruff() -> str | None:
    """Return the ruff to run: the one of this environment, else the one on PATH; None without one."""
    beside = Path(sys.executable).with_name("ruff")
    return str(beside) if beside.is_file() else shutil.which("ruff")


def check_lint(folder: Path) -> list[Finding]:
    """Return what `ruff check .` and `ruff format --check .` say; one warning when there is no ruff."""
    program = ruff()
    if program is None:
        return [finding("LUM004", "manifest.json", 1, f"style and format were not checked: ruff isn't there; {_HOW}")]
    jobs = [
        _start(program, folder, "check", "--output-format=json", "--exit-zero", "--quiet"),
        _start(program, folder, "format", "--check"),
    ]
    try:
        (checked, said), (formatted, _) = [job.communicate(timeout=SECONDS) for job in jobs]
    except subprocess.TimeoutExpired:
        for job in jobs:
            job.kill()
            job.communicate()
        return [finding("LUM004", "manifest.json", 1, f"ruff took longer than {SECONDS} s; style was not checked")]
    try:
        rows = json.loads(checked)
    except ValueError:
        text = f"ruff could not check the folder: {said.strip()[:300] or 'it said nothing'}"
        return [finding("LUM004", "manifest.json", 1, text)]
    return [*(_finding(folder, row) for row in rows if row.get("code")), *_unformatted(formatted)]


_OLD = re.compile(r"^Would reformat: (?P<file>.+)$", re.MULTILINE)
_NEW = re.compile(r"^unformatted: .*\n\s*--> (?P<file>.+?):(?P<line>\d+):\d+$", re.MULTILINE)


def _unformatted(said: str) -> Iterator[Finding]:
    """ruff names such files on a line each; since 0.15 it shows where they differ, too."""
    for match in (*_OLD.finditer(said), *_NEW.finditer(said)):
        line = int(match.groupdict().get("line") or 1)
        yield finding("LUM005", match["file"], line, "isn't formatted; `ruff format .` does it")


def _start(program: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [program, *arguments, "--no-cache", "."]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _finding(folder: Path, row: dict[str, Any]) -> Finding:
    path, at = Path(row["filename"]), row.get("location") or {}
    inside = folder.resolve()
    shown = path.resolve().relative_to(inside).as_posix() if path.resolve().is_relative_to(inside) else path.name
    line, column = int(at.get("row", 1)), int(at.get("column", 1))
    return Finding(shown, line, column, str(row["code"]), str(row["message"]), "error", (), str(row.get("url") or ""))
