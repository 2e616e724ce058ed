"""The documents keep up with the code: links, decisions, the handler a reader may paste."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

import pytest

import lumia
from lumia.testing import Bot
from tests.test_packaging import pinned

ROOT = Path(lumia.__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "infra").rglob("*.md")],
    key=lambda page: page.as_posix(),
)
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
ROW = re.compile(r"^\| ([\w.-]+) \| .+ \| ([^|]+) \|$", re.MULTILINE)
CARD = ("celery", "redis", "kombu", "dill", "psycopg", "pgvector", "pgserver", "pydantic", "httpx", "mcp", "flower",
        "croniter", "pytest", "fakeredis")  # fmt: skip


def decisions() -> dict[str, str]:
    """Return package → licence as docs/decisions.md has them."""
    rows = ROW.findall((ROOT / "docs" / "decisions.md").read_text("utf-8"))
    return {name: licence.strip() for name, licence in rows if name != "package"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_index_leads_to_every_page() -> None:
    folder = ROOT / "docs"
    linked = {(folder / target).resolve() for target in LINK.findall((folder / "index.md").read_text("utf-8"))}
    assert {page for page in folder.glob("*.md") if page.name != "index.md"} - linked == set()


def test_every_requirement_has_its_decision_and_no_decision_outlives_its_package() -> None:
    required = {name for file in ("build", "runtime", "dev") for name in pinned(file)}
    assert set(decisions()) - set(CARD) == required - set(CARD)
    assert set(CARD) - set(decisions()) == set()


def test_the_licences_are_those_the_packages_state() -> None:
    for name, licence in decisions().items():
        try:
            stated = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        fields = ("License-Expression", "License", "Classifier")
        text = " ".join(line for field in fields for line in stated.get_all(field) or ())
        family = re.split(r"[-\s]", licence)[0]
        assert family in text, (name, licence, text)


def test_the_first_code_of_the_readme_comes_early() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert next(number for number, line in enumerate(lines, 1) if line.startswith("```")) <= 30


def test_the_handler_of_the_readme_works_as_pasted(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    manifest = re.findall(r"`(\{\"name\".*?\})`", text)[0]
    folder = tmp_path / "dice"
    folder.mkdir()
    (folder / "plugin.py").write_text(code)
    (folder / "manifest.json").write_text(manifest)
    assert json.loads(manifest) == {"name": "dice"}
    assert len(code.strip().splitlines()) <= 12
    with Bot(folder) as bot:
        assert bot.send("!dice").replies[0] in list("123456")
        assert bot.send("hello").replies == []
