"""Checks of the machine: Python, packages, memory settings, limits, disk."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from tasks.supervise.findings import Finding, fail, ok, risk

_FLOOR, _CEILING = (3, 11), (3, 14)
_DISK_FAIL, _DISK_RISK = 256 << 20, 2 << 30
_FILES = 1024


def check_machine(base: Path, root: Path | None) -> Iterator[Finding]:
    """Yield what the machine offers to a start."""
    yield _system()
    yield _python()
    yield from _packages(base)
    if root is not None:
        yield _disk(root)
    yield _open_files()
    yield from _overcommit()


def _system() -> Finding:
    if os.name == "nt":
        return fail("system", "Windows", "use WSL (`wsl --install`) and start Lumia there")
    name = os.uname().sysname
    if name in ("Linux", "Darwin"):
        return ok("system", f"{name} {os.uname().release}")
    return risk("system", name, "Lumia is tested on Linux and macOS")


def _python() -> Finding:
    here = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _FLOOR:
        return fail("python", here, "Python 3.11 or newer is needed")
    if sys.version_info[:2] > _CEILING:
        return risk("python", here, "Lumia is tested up to Python 3.14")
    return ok("python", f"{here} ({sys.executable})")


def _packages(base: Path) -> Iterator[Finding]:
    """Compare what is installed with what Lumia declares, which a checkout pins and a wheel carries as metadata."""
    from packaging.requirements import InvalidRequirement, Requirement

    wrong = 0
    wanted = _wanted(base)
    for line in wanted:
        try:
            need = Requirement(line)
        except InvalidRequirement:
            continue
        if need.marker is not None and not need.marker.evaluate():
            continue
        try:
            version = metadata.version(need.name)
        except metadata.PackageNotFoundError:
            wrong += 1
            yield fail("packages", f"{need.name} is not installed", f"pip install '{line}', or `make setup`")
            continue
        if not need.specifier.contains(version, prereleases=True):
            wrong += 1
            yield risk("packages", f"{need.name} {version}, tested with {need.specifier}", f"pip install '{line}'")
    if not wrong:
        yield ok("packages", f"{len(wanted)} as declared")


def _wanted(base: Path) -> list[str]:
    pinned = base / "requirements" / "runtime.in"
    if pinned.is_file():
        lines = pinned.read_text(encoding="utf-8").splitlines()
        return [line.strip() for line in lines if line.strip() and line.strip()[0] not in "#-"]
    try:
        return [line for line in metadata.requires("lumia") or [] if "extra ==" not in line]
    except metadata.PackageNotFoundError:
        return []


def _disk(root: Path) -> Finding:
    free = shutil.disk_usage(root).free
    shown = f"{free / (1 << 30):.1f} GiB free at {root}"
    if free < _DISK_FAIL:
        return fail("disk", shown, "free at least 256 MiB: the stores refuse writes on a full disk")
    if free < _DISK_RISK:
        return risk("disk", shown, "the append-only file is rewritten beside the old one; keep 2 GiB free")
    return ok("disk", shown)


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        return risk("open files", f"at most {soft} per process", f"ulimit -n {min(4096, hard) if hard > 0 else 4096}")
    return ok("open files", "unlimited" if soft == resource.RLIM_INFINITY else f"up to {soft} per process")


def _overcommit() -> Iterator[Finding]:
    """Valkey forks to rewrite its append-only file; without overcommit that may fail on a small machine."""
    try:
        mode = Path("/proc/sys/vm/overcommit_memory").read_text(encoding="ascii").strip()
    except OSError:
        return
    if mode == "2":
        yield risk(
            "memory", "strict overcommit: rewriting the append-only file may fail", "sysctl vm.overcommit_memory=1"
        )
    else:
        yield ok("memory", f"overcommit mode {mode}")
