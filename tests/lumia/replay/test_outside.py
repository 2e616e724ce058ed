"""Tries that ended by the broker's absence, whatever it is called, are not run again by a replay."""

from __future__ import annotations

import pytest

from lumia import errors
from lumia.journal import described
from lumia.replay.records import OUTSIDE


def kinds(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(one for sub in kind.__subclasses__() if sub.__module__ == errors.__name__ for one in kinds(sub))]


@pytest.mark.parametrize("kind", kinds(errors.BackendUnavailableError))
def test_every_absence_of_the_broker_comes_from_outside(kind: type[Exception]) -> None:
    assert OUTSIDE.match(described(kind("Redis does not answer")))
