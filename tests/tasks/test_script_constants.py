"""Figures that Python and the scripts both know are the same in both."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lumia import dead, marks
from tasks import lists, wire
from tasks.scripts import source

TWICE: dict[str, Any] = {
    "AGED": lists.AGED,
    "LISTS": "{AGED, " + ", ".join(map(str, marks.PRIORITIES)) + "}",
    "NORMAL": marks.NORMAL,
    "QUEUE": f"'{marks.DEFAULT_QUEUE}'",
    "MAX_LETTERS": dead.MAX_LETTERS,
    "ALONE_AFTER": wire.ALONE_AFTER,
    "ALONE_START": int(wire.ALONE_START_SECONDS * 1000),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_figure_of_the_scripts_is_that_of_python(name: str) -> None:
    found = re.findall(rf"^local {name} = (.*)$", source("reap"), re.MULTILINE)
    assert found == [str(TWICE[name])]
