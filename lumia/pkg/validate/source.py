"""Reading a plugin's Python files without running any of them."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lumia.pkg.validate.finding import Finding, finding

_SKIPPED = frozenset({"__pycache__", "node_modules", "dist", "build", "venv"})
_NOQA = re.compile(r"#\s*noqa(?P<codes>:\s*[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)?", re.IGNORECASE)
MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 60


@dataclass
class Source:
    """One parsed file. name: dotted module name inside the plugin, "" for its `__init__`. loaded: a bot may import it.

    quiet: line → codes that a `# noqa` comment silences there; an empty set silences all.
    """

    file: str
    name: str
    tree: ast.Module
    text: str
    loaded: bool = True
    quiet: dict[int, frozenset[str]] = field(default_factory=dict)


def read_sources(folder: Path, *, strict: bool = True) -> tuple[list[Source], list[Finding]]:
    """Return the Python files of a plugin, parsed, and a finding for each that can't be.

    Hidden folders, `__pycache__`, environments and build output are passed over. strict: what can't be read is a
    finding; else (a dependency) it is left out.
    """
    sources: list[Source] = []
    findings: list[Finding] = []
    for path in python_files(folder):
        shown = path.relative_to(folder).as_posix()
        try:
            sources.append(_parsed(path, shown))
        except SyntaxError as error:
            line, column = error.lineno or 1, max(error.offset or 1, 1)
            findings.append(
                finding("LUM003", shown, line, f"{error.msg}; Python can't import this file", column=column)
            )
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            findings.append(finding("LUM003", shown, 1, f"can't be read: {type(error).__name__}: {str(error)[:200]}"))
    return sources, findings if strict else []


def python_files(folder: Path) -> Iterator[Path]:
    """Yield the plugin's `.py` files in a fixed order; links that lead out of the folder are not followed."""
    inside = folder.resolve()
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            if name.endswith(".py") and not name.startswith(".") and path.resolve().is_relative_to(inside):
                yield path


def _parsed(path: Path, shown: str) -> Source:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    raw = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    text = raw.decode(encoding)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in a string is ruff's business
        tree = ast.parse(raw, shown)
    parts = list(Path(shown).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return Source(shown, ".".join(parts), tree, text, _is_loaded(parts), _quiet(text))


def _is_loaded(parts: list[str]) -> bool:
    """Tests and hooks are files of the plugin, too, but no bot imports them."""
    return not parts or not (
        parts[0] in ("tests", "test", "hooks", "bench") or parts[-1].startswith("test_") or parts[-1] == "conftest"
    )


def _quiet(text: str) -> dict[int, frozenset[str]]:
    if "noqa" not in text.lower():
        return {}
    quiet: dict[int, frozenset[str]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match = _NOQA.search(token.string) if token.type == tokenize.COMMENT else None
            if match is not None:
                codes = re.findall(r"[A-Z]+[0-9]+", (match["codes"] or "").upper())
                quiet[token.start[0]] = frozenset(codes)
    except (
        tokenize.TokenError,
        IndentationError,
    ):  # ast could read it; then the comments count as far as they were read
        pass
    return quiet


def shallow(sources: list[Source]) -> list[Source]:
    """Leave out files with code that is nested deeper than the analysis can follow, such as generated tables."""
    return [source for source in sources if not _is_deep(source.tree)]


def _is_deep(tree: ast.AST) -> bool:
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return True
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return False


def silenced(found: Finding, sources: dict[str, Source]) -> bool:
    """Tell whether a `# noqa` comment on the finding's line silences it."""
    source = sources.get(found.file)
    codes = source.quiet.get(found.line) if source is not None else None
    return codes is not None and (not codes or found.rule in codes)
