"""Running pip: what it would install, and installing exactly that. It runs apart, and with the user's own settings.

pip resolves against the packages that its interpreter has. Each plugin, and Lumia itself, takes part as a small wheel
that requires what they need, so pip's own words about a conflict name both sides.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from lumia.errors import PlanError, SourceError
from lumia.pkg.layers import Package

PREFIX = "lumia-plugin-"
LUMIA = "lumia-itself"
SECONDS = 900.0
"""How long pip may take: it may have to fetch large wheels."""
_OPTIONS = ("--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar", "off", "--prefer-binary")
_NEEDS = re.compile(rf"({PREFIX}|)(\S+?)(?:\[\S+\])? (\S+) depends on (.+)")
_ASKED = re.compile(r"The user requested (\(constraint\) )?(.+)")

Say = Callable[[str], None]


def report(
    roots: Mapping[str, Sequence[str]], *, python: str | None = None, constraints: Collection[str] = (), say: Say
) -> tuple[Package, ...]:
    """Return what pip would install, beside what the interpreter has, so that every root has what it requires.

    roots: `PREFIX` + plugin, or `LUMIA`, → PEP 508 texts. constraints: texts like `six==1.16.0`. Raises `PlanError` for
    requirements that don't fit together, `SourceError` for a package that can't be had.
    """
    with tempfile.TemporaryDirectory(prefix="lumia-pip-") as name:
        folder = Path(name)
        wheels = [str(_wheel(folder, root, texts)) for root, texts in roots.items()]
        pins = folder / "constraints.txt"
        pins.write_text("".join(f"{text}\n" for text in constraints), "utf-8")
        told = folder / "report.json"
        words = ["install", *_OPTIONS, "--dry-run", "--no-user", "--report", str(told), "-c", str(pins), *wheels]
        done = _run(words, python, say)
        if done.returncode:
            raise _refusal(done)
        found: dict[str, Any] = json.loads(told.read_text("utf-8"))
    return tuple(one for one in map(_package, found["install"]) if not _is_root(one.name))


def install(packages: Collection[Package], folder: Path, *, python: str | None = None, say: Say) -> None:
    """Install exactly these packages, and nothing they depend on, into `folder`.

    Raises `SourceError` when one can't be had, or isn't the file that was resolved.
    """
    checked = all(one.sha256 for one in packages)
    lines = [f"{one.name}=={one.version}" + f" --hash=sha256:{one.sha256}" * checked for one in packages]
    with tempfile.TemporaryDirectory(prefix="lumia-pip-") as name:
        file = Path(name, "packages.txt")
        file.write_text("\n".join(lines) + "\n", "utf-8")
        words = ["install", *_OPTIONS, "--no-user", "--no-deps", "--target", str(folder), "-r", str(file)]
        done = _run(words, python, say)
    if done.returncode:
        raise SourceError(f"Python packages can't be installed: {_last(done)}")


def _package(item: Mapping[str, Any]) -> Package:
    archive = item.get("download_info", {}).get("archive_info", {})
    digest = archive.get("hashes", {}).get("sha256", "")
    return Package(canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"], digest)


def _is_root(name: str) -> bool:
    return name == LUMIA or name.startswith(PREFIX)


def _wheel(folder: Path, name: str, requirements: Sequence[str]) -> Path:
    """Write the wheel of a root; it holds nothing but its requirements."""
    made = name.replace("-", "_")
    file = folder / f"{made}-0-py3-none-any.whl"
    info = f"{made}-0.dist-info"
    needs = "".join(f"Requires-Dist: {text}\n" for text in requirements)
    with zipfile.ZipFile(file, "w") as out:
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n{needs}")
        out.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: lumia\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        out.writestr(f"{info}/RECORD", "")
    return file


def _run(words: Sequence[str], python: str | None, say: Say) -> subprocess.CompletedProcess[str]:
    # A folder of plugins' packages on the path would count as the bot's own.
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_TARGET", "PIP_USER")}
    command = [*_pip(python or sys.executable), *words]
    try:
        done = subprocess.run(
            command, env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=SECONDS, check=False, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SourceError(f"pip took more than {SECONDS:g} s to find Python packages; check the network") from None
    for line in done.stdout.splitlines():
        if line.startswith(("Collecting", "  Downloading", "Downloading", "Installing", "Successfully")):
            say(_shown(line.strip()))
    return done


@functools.cache
def _pip(python: str) -> tuple[str, ...]:
    """Return the words that run pip; an environment without it uses the one Python brings to install it with."""
    if python != sys.executable or importlib.util.find_spec("pip") is not None:
        return python, "-m", "pip"
    bundled = importlib.util.find_spec("ensurepip")
    folder = Path(bundled.origin).parent / "_bundled" if bundled is not None and bundled.origin else None
    wheels = sorted(folder.glob("pip-*.whl")) if folder is not None else []
    if not wheels:
        raise SourceError(
            f"a plugin needs Python packages, and {python} has no pip to fetch them with; "
            "install it, e.g. `uv pip install pip`, or your system's package python3-pip"
        )
    return python, str(wheels[-1] / "pip")


def _refusal(done: subprocess.CompletedProcess[str]) -> PlanError | SourceError:
    lines = (done.stdout + "\n" + done.stderr).splitlines()
    told = list(dict.fromkeys(text for text in map(_in_words, lines) if text))
    if told:
        return PlanError(
            "Python packages don't fit together: " + "; ".join(told) + "; ask the authors for ranges that meet, or "
            'for "isolation": "process" in a manifest: such a plugin has packages of its own (docs/isolation.md)'
        )
    missing = [line for line in lines if "No matching distribution found" in line]
    if missing:
        name = missing[0].partition("found for ")[2].replace(PREFIX, "plugin ")
        return SourceError(f"no Python package to be had fits {_shown(name)}; check its name, range and index")
    return SourceError(f"Python packages can't be resolved: {_last(done)}")


def _in_words(line: str) -> str:
    """Return a line of pip's explanation of a conflict as Lumia says it, "" for any other line."""
    text = line.strip()
    if match := _NEEDS.fullmatch(text):
        plugin, name, version, needed = match.groups()
        if plugin:
            return f"plugin {name} needs {needed}"
        return f"Lumia needs {needed}" if name == LUMIA else f"{name} {version} needs {needed}"
    if (match := _ASKED.fullmatch(text)) and match[1]:
        return f"the bot has {match[2].replace('==', ' ')}"
    return ""


def _last(done: subprocess.CompletedProcess[str]) -> str:
    errors = list(_errors(done.stderr)) or [line for line in done.stderr.splitlines() if line.strip()]
    return _shown(errors[-1]) if errors else f"pip ended with exit code {done.returncode}"


def _errors(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("ERROR: "):
            yield line.removeprefix("ERROR: ")


def _shown(text: str) -> str:
    """Return a line of pip's without control characters and without the password of an index."""
    plain = "".join(char for char in text if char.isprintable())
    return re.sub(r"(//)[^/@\s]+@", r"\1***@", plain)[:500]
