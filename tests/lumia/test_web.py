"""Marks for what the gateway serves."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from lumia.errors import RegistrationError
from lumia.marks import marks_on


def test_a_route_says_its_path_and_its_methods() -> None:
    @lumia.web.route("/things/{id}", methods=["get", "POST"])
    async def things(request: Any) -> None:
        """Serve."""

    (mark,) = marks_on(things)
    assert (mark.kind, mark.id, mark.options["methods"]) == ("route", "/things/{id}", ["GET", "POST"])


def test_a_route_answers_get_unless_told_otherwise() -> None:
    @lumia.web.route("/things")
    async def things(request: Any) -> None:
        """Serve."""

    assert marks_on(things)[0].options["methods"] == ["GET"]


def test_a_websocket_says_its_path() -> None:
    @lumia.web.websocket("/live")
    async def live(websocket: Any) -> None:
        """Serve."""

    assert [(mark.kind, mark.id) for mark in marks_on(live)] == [("websocket", "/live")]


@pytest.mark.parametrize("path", ["things", "", None, 5])
def test_a_path_begins_with_a_slash(path: Any) -> None:
    for mark in (lumia.web.route, lumia.web.websocket):
        with pytest.raises(RegistrationError, match="starts with '/'"):
            mark(path)


def test_methods_given_as_one_text_are_not_taken_for_letters() -> None:
    with pytest.raises(RegistrationError, match=r"methods=\['POST'\]"):
        lumia.web.route("/things", methods="POST")
