"""`pkg dev validate`: what is wrong with a plugin, found without running any of its code (spec §14.1).

Three layers: ruff, the types of Boxes, and live resources; with them everything the loader would refuse that can be
seen before. What isn't known is never reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lumia.pkg.validate.finding import Finding, Place
from lumia.pkg.validate.rules import RULES, Rule

__all__ = ["RULES", "Finding", "Place", "Rule", "failed", "validate"]


def validate(folder: Path, *, dependencies: Iterable[Path] = (), lint: bool = True) -> list[Finding]:
    """Return what is wrong with the plugin in `folder`, sorted by file and line; an empty list is a good plugin.

    dependencies: folders of the plugins it depends on, whose handlers and Boxes are looked at, too. lint: run ruff.
    Findings are about `folder` only. Nothing of the plugins is imported or executed; nothing is written.
    """
    from lumia.pkg.validate.analyse import analyse
    from lumia.pkg.validate.package import check_manifest
    from lumia.pkg.validate.source import read_sources, shallow, silenced

    folder = folder.absolute()
    manifest, findings = check_manifest(folder)
    sources, broken = read_sources(folder)
    findings += broken
    name = manifest.name if manifest is not None else folder.name
    others = [(_name(other), other, read_sources(other, strict=False)[0]) for other in map(Path.absolute, dependencies)]
    try:
        findings += analyse(folder, name, manifest, sources, others)
    except RecursionError:
        flat = [(other, place, shallow(theirs)) for other, place, theirs in others]
        findings += analyse(folder, name, manifest, shallow(sources), flat)
    if lint:
        from lumia.pkg.validate.lint import check_lint

        findings += [one for one in check_lint(folder) if one.rule != "invalid-syntax"]
    known = {source.file: source for source in sources}
    return sorted({one for one in findings if one.rule[:3] != "LUM" or not silenced(one, known)})


def _name(folder: Path) -> str:
    from lumia.errors import ManifestError
    from lumia.manifest import load_manifest

    try:
        return load_manifest(folder).name
    except ManifestError:
        return folder.name


def failed(findings: Iterable[Finding]) -> bool:
    """Tell whether one of the findings is an error."""
    return any(one.severity == "error" for one in findings)
