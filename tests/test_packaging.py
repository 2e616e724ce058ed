"""The wheel: `lumia` with the other folders as its data, the same commands outside of a checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import lumia

ROOT = Path(lumia.__file__).resolve().parents[1]
SITE = next(path for path in sys.path if path.endswith("site-packages"))
DATA = {
    "tasks/commands.json",
    "handlers/heartflow/manifest.json",
    "handlers/heartflow/config-schema.toml",
    "handlers/chat_commands/texts/zh.toml",
    "handlers/persona_loader/personas/default.toml",
    "adapters/console/manifest.json",
    "plugins/hello/plugin.py",
}


def project() -> dict[str, object]:
    loaded: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return loaded


def pinned(name: str) -> dict[str, str]:
    """Return package → exact version of a requirements/*.in file."""
    lines = (ROOT / "requirements" / f"{name}.in").read_text("utf-8").splitlines()
    wanted = [Requirement(line) for line in lines if line and line[0] not in "#-"]
    return {one.name: str(one.specifier).removeprefix("==") for one in wanted}


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("LUMIA_")}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the files as they are now, built from a copy so that the checkout stays clean."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT).stdout.split("\0")
    for name in listed:
        if name and (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "source" / name).write_bytes((ROOT / name).read_bytes())
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder))
    done = run(sys.executable, "-m", "pip", "wheel", *options, str(folder / "source"), cwd=folder)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment with the wheel; dependencies are borrowed from this one."""
    folder = tmp_path_factory.mktemp("fresh") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    options = ("--quiet", "--no-deps", "--no-index", str(wheel))
    done = run(sys.executable, "-m", "pip", "--python", str(python), "install", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "borrowed.pth").write_text(SITE + "\n")
    return folder / "bin"


def test_nothing_but_lumia_lands_at_the_top_of_site_packages(wheel: Path) -> None:
    top = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert top == {"lumia", f"lumia-{lumia.__version__}.dist-info"}


def test_the_wheel_carries_the_other_folders_as_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"lumia/_base/{name}" for name in DATA} <= set(names)
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def test_every_file_a_folder_needs_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split()
    base = [name for name in listed if name.split("/")[0] in ("tasks", "handlers", "adapters", "plugins", "infra")]
    wanted = {f"lumia/_base/{name}" for name in base} | {name for name in listed if name.startswith("lumia/")}
    assert wanted - names == set()


def test_the_installed_command_works_outside_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    lumia_command = installed / "lumia"
    assert run(lumia_command, "--version", cwd=tmp_path).stdout == f"lumia {lumia.__version__}\n"
    assert run(installed / "pkg", "--version", cwd=tmp_path).stdout == f"pkg {lumia.__version__}\n"
    shown = run(lumia_command, "--help", cwd=tmp_path)
    assert (shown.returncode, " up " in shown.stdout, " send " in shown.stdout) == (0, True, True), shown


def test_a_bot_root_made_with_it_loads_its_plugins(installed: Path, tmp_path: Path) -> None:
    made = run(installed / "lumia", "init", "mybot", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    listed = run(installed / "lumia", "handlers", cwd=tmp_path / "mybot")
    assert (listed.returncode, "heartflow." in listed.stdout, "hello." in listed.stdout) == (0, True, True), listed
    code = "import lumia.paths; print(lumia.paths.base())"
    base = run(installed / "python", "-c", code, cwd=tmp_path).stdout.strip()
    assert base.endswith("lumia/_base")
    assert str(ROOT) + "/" not in base


def test_the_declared_ranges_allow_the_pinned_versions() -> None:
    dependencies = project()["dependencies"]
    assert isinstance(dependencies, list)
    declared = {one.name: one.specifier for one in map(Requirement, dependencies)}
    pins = pinned("runtime")
    assert set(declared) == set(pins)
    for name, version in pins.items():
        assert SpecifierSet(str(declared[name])).contains(version), f"{name}: {version} is not in {declared[name]}"


@pytest.mark.parametrize("name", ["build", "runtime", "dev"])
def test_the_lock_has_every_pin_with_hashes_and_no_index(name: str) -> None:
    lock = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    versions = dict(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)", lock, re.MULTILINE))
    for package, version in pinned(name).items():
        assert versions.get(package) == version, f"{package} in {name}.txt; run `make lock`"
    assert "--hash=sha256:" in lock
    assert "://" not in lock
    assert "index" not in lock


def test_every_pin_is_exact() -> None:
    for name in ("build", "runtime", "dev"):
        assert all(re.fullmatch(r"[\w.]+", version) for version in pinned(name).values())
