"""Tiny wheels, built by hand: a wheel is a zip."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path


def wheel(folder: Path, name: str, version: str, *requires: str, code: str | None = None) -> Path:
    """Write the wheel of one package with one module, which knows its `VERSION`."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    files = {
        f"{module}.py": f"VERSION = {version!r}\n" if code is None else code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    file = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as out:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            out.writestr(path, text)
    return file


def pip_env(folder: Path) -> dict[str, str]:
    """Return the environment in which pip finds the wheels of `folder` and asks no index."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}


def wheels(folder: Path, *packages: Sequence[str]) -> Path:
    """Write several wheels, each as (name, version, requirement, …); returns the folder."""
    for name, version, *requires in packages:
        wheel(folder, name, version, *requires)
    return folder
