"""Findings as text, as JSON and as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lumia import __version__
from lumia.pkg.validate.finding import Finding, Place
from lumia.pkg.validate.rules import RULES

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_text(findings: Sequence[Finding]) -> str:
    """Return the findings for people: file, line, rule and message, related places, the rule's page."""
    return "\n".join(line for one in findings for line in _lines(one))


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as a JSON list, one object each."""
    rows = [
        {
            "file": one.file, "line": one.line, "column": one.column, "rule": one.rule, "severity": one.severity,
            "message": one.message, "page": one.page,
            "related": [{"file": place.file, "line": place.line, "text": place.text} for place in one.related],
        }
        for one in findings
    ]  # fmt: skip
    return json.dumps(rows, indent=2, ensure_ascii=False)


def as_sarif(findings: Sequence[Finding]) -> str:
    """Return the findings as a SARIF 2.1.0 log with one run; its rules are those that were broken."""
    ids = sorted({one.rule for one in findings})
    links = {one.rule: one.link for one in findings if one.link}
    driver: dict[str, Any] = {
        "name": "pkg dev validate",
        "semanticVersion": __version__,
        "rules": [_rule(id, links.get(id, "")) for id in ids],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"PLUGIN": {"description": {"text": "The plugin's folder"}}},
        "results": [_result(one, ids.index(one.rule)) for one in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _lines(one: Finding) -> list[str]:
    more = [f"    {place.file}:{place.line}: {place.text}".rstrip(": ") for place in one.related]
    return [
        f"{one.file}:{one.line}:{one.column}: {one.severity} {one.rule} {one.message}",
        *more,
        *([f"    see {one.page}"] if one.page else []),
    ]


def _rule(id: str, link: str) -> dict[str, Any]:
    rule = RULES.get(id)
    if rule is None:
        return {"id": id, **({"helpUri": link} if link else {})}
    page = f"docs/rules/{id}.md"
    return {
        "id": id,
        "shortDescription": {"text": rule.title},
        "help": {"text": f"{rule.title}. Explained in {page} of Lumia's documentation."},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(one: Finding, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": one.severity,
        "message": {"text": one.message},
        "locations": [{"physicalLocation": _physical(one.file, one.line, one.column)}],
    }
    if one.related:
        result["relatedLocations"] = [_related(number, place) for number, place in enumerate(one.related, 1)]
    return result


def _related(number: int, place: Place) -> dict[str, Any]:
    physical = _physical(place.file, place.line)
    return {"id": number, "physicalLocation": physical, "message": {"text": place.text or "see here"}}


def _physical(file: str, line: int, column: int | None = None) -> dict[str, Any]:
    region = {"startLine": line} if column is None else {"startLine": line, "startColumn": column}
    return {"artifactLocation": {"uri": quote(file), "uriBaseId": "PLUGIN"}, "region": region}
