"""Findings as text, JSON and SARIF; the SARIF is checked against what the standard demands of a log."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from lumia.pkg.validate import Finding, Place
from lumia.pkg.validate.output import as_json, as_sarif, as_text

FOUND = [
    Finding("plugin.py", 5, 3, "LUM101", "this Box holds a str", "error", (Place("ledger/plugin.py", 9, "declares"),)),
    Finding("a b/ü.py", 1, 1, "F401", "`os` imported but unused", link="https://docs.astral.sh/ruff/rules/unused-import"),
    Finding("manifest.json", 1, 1, "LUM004", "no ruff", "warning"),
]  # fmt: skip
TEXT: dict[str, Any] = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
PHYSICAL: dict[str, Any] = {
    "type": "object",
    "required": ["artifactLocation"],
    "properties": {
        "artifactLocation": {
            "type": "object",
            "properties": {"uri": {"type": "string", "pattern": r"^[\x21-\x7e]+$"}, "uriBaseId": {"type": "string"}},
        },
        "region": {
            "type": "object",
            "properties": {
                "startLine": {"type": "integer", "minimum": 1},
                "startColumn": {"type": "integer", "minimum": 1},
            },
        },
    },
}
LOCATION: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": -1}, "physicalLocation": PHYSICAL, "message": TEXT},
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "shortDescription": TEXT,
        "help": TEXT,
        "helpUri": {"type": "string", "pattern": "^https://"},
        "defaultConfiguration": {"type": "object", "properties": {"level": LEVEL}},
    },
}
RESULT: dict[str, Any] = {
    "type": "object",
    "required": ["message", "ruleId", "ruleIndex"],
    "additionalProperties": False,
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": -1},
        "level": LEVEL,
        "message": TEXT,
        "locations": {"type": "array", "items": LOCATION},
        "relatedLocations": {"type": "array", "items": LOCATION, "uniqueItems": True},
    },
}
LOG: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "semanticVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
                                    "rules": {"type": "array", "items": RULE, "uniqueItems": True},
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "originalUriBaseIds": {"type": "object"},
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}


def test_text_names_place_rule_and_page() -> None:
    lines = as_text(FOUND).splitlines()
    assert lines[:3] == [
        "plugin.py:5:3: error LUM101 this Box holds a str",
        "    ledger/plugin.py:9: declares",
        "    see docs/rules/LUM101.md",
    ]
    assert "    see https://docs.astral.sh/ruff/rules/unused-import" in lines


def test_json_is_a_list_of_objects() -> None:
    rows = json.loads(as_json(FOUND))
    assert rows[0]["related"] == [{"file": "ledger/plugin.py", "line": 9, "text": "declares"}]
    assert [(row["rule"], row["severity"]) for row in rows] == [
        ("LUM101", "error"),
        ("F401", "error"),
        ("LUM004", "warning"),
    ]
    assert json.loads(as_json([])) == []


def test_sarif_keeps_to_the_standard() -> None:
    log = json.loads(as_sarif(FOUND))
    jsonschema.validate(log, LOG)
    jsonschema.validate(json.loads(as_sarif([])), LOG)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        for location in result["locations"]:
            assert location["physicalLocation"]["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
    assert run["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b/%C3%BC.py"
