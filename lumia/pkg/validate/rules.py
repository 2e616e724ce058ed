"""The rules of the validator; each has a page docs/rules/<id>.md with a bad and a good example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Rule:
    """One rule. title: one line, as the heading of its page."""

    id: str
    title: str
    severity: Literal["error", "warning"] = "error"


_ALL = (
    Rule("LUM001", "The manifest can't be used"),
    Rule("LUM002", "A file the manifest names is missing"),
    Rule("LUM003", "A source file can't be parsed"),
    Rule("LUM004", "ruff isn't installed, or can't read its settings", "warning"),
    Rule("LUM005", "A file isn't formatted"),
    Rule("LUM101", "A Box holds another type than the handler declares"),
    Rule("LUM102", "The content of a Box is used in a way its type can't"),
    Rule("LUM103", "A declared Box type can't be checked"),
    Rule("LUM104", "A bare value where a Box belongs"),
    Rule("LUM105", "A Box is made or used wrongly"),
    Rule("LUM106", "The meta of a Box isn't JSON"),
    Rule("LUM107", "A stored value isn't JSON"),
    Rule("LUM108", "A message has no such key"),
    Rule("LUM201", "A live resource is passed on bare"),
    Rule("LUM202", "A resource holds its own Box"),
    Rule("LUM203", "A live resource is asked to leave its process"),
    Rule("LUM204", "A live resource is closed before its run begins"),
    Rule("LUM205", "A live resource is serialised"),
    Rule("LUM301", "A handler has the wrong signature"),
    Rule("LUM302", "A mark has a wrong id or option"),
    Rule("LUM303", "Two marks or handlers clash"),
    Rule("LUM304", "next, stop or intercept where it has no meaning"),
    Rule("LUM305", "The manifest and the marks disagree"),
    Rule("LUM306", "Another plugin is imported without depending on it"),
    Rule("LUM307", "A service is provided that the manifest doesn't list"),
    Rule("LUM308", "A Python package is imported that nobody brings"),
    Rule("LUM401", "The config folder is touched directly"),
    Rule("LUM402", "A setting is used that isn't declared"),
    Rule("LUM403", "The settings of another plugin are declared"),
)
RULES: Mapping[str, Rule] = {rule.id: rule for rule in _ALL}
