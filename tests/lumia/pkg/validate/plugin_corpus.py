"""Small plugins for the validator, one file each: `== FILE` begins a file, `== dep FOLDER/FILE` a neighbour's.

What is expected stands on its line as `# expect: LUM101`, or as a line `== expect FILE LINE RULE`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from lumia.pkg.validate import Finding, validate

CORPUS = Path(__file__).with_name("corpus")
_EXPECT = re.compile(r"# expect: ([\w, ]+)")
Found = tuple[str, int, str]


@dataclass
class Case:
    """One plugin: its files, those of its dependencies, and where which rule is broken."""

    name: str
    files: dict[str, list[str]] = field(default_factory=dict)
    expected: set[Found] = field(default_factory=set)

    def lay_out(self, root: Path) -> tuple[Path, list[Path]]:
        """Write the files below `root`; return the plugin's folder and those of its dependencies."""
        own = root / self.name
        others: set[str] = set()
        for name, lines in self.files.items():
            folder, _, inner = (
                name.removeprefix("dep ").partition("/") if name.startswith("dep ") else (self.name, "", name)
            )
            if name.startswith("dep "):
                others.add(folder)
            path = root / folder / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        for folder in (self.name, *others):
            manifest = root / folder / "manifest.json"
            if not manifest.exists():
                manifest.write_text(json.dumps({"name": folder.replace("_", "-")}), encoding="utf-8")
        return own, [root / folder for folder in sorted(others)]

    def found(self, root: Path) -> list[Finding]:
        """Return what the validator finds."""
        folder, others = self.lay_out(root)
        return validate(folder, dependencies=others, lint=False)


def read(path: Path) -> Case:
    """Read one file of the corpus."""
    case, name = Case(path.stem), "plugin.py"
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("== expect "):
            file, number, rule = line.removeprefix("== expect ").split()
            case.expected.add((file, int(number), rule))
            continue
        if line.startswith("== "):
            name = line.removeprefix("== ")
            continue
        lines = case.files.setdefault(name, [])
        match = _EXPECT.search(line)
        lines.append(line if match is None else line[: match.start()].rstrip())
        if match is not None:
            case.expected |= {(name, len(lines), rule.strip()) for rule in match[1].split(",")}
    return case


def cases(kind: str) -> list[Case]:
    """Return the plugins of one kind: good or bad."""
    return [read(path) for path in sorted((CORPUS / kind).glob("*.plugin"))]


def seen(findings: list[Finding]) -> set[Found]:
    """Return findings as they are expected."""
    return {(one.file, one.line, one.rule) for one in findings}
