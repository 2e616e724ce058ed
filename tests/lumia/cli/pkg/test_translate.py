"""Short forms become commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.cli.pkg.app import COMMANDS
from lumia.cli.pkg.translate import ELSEWHERE, OPERATIONS, WORDS, UnknownOperationError, as_command

OPTIONS = st.sampled_from(["--yes", "-y", "--json", "--dry-run", "-n"])
NAMES = st.text("abcz@./-", min_size=1).filter(lambda word: not word.startswith("-"))


@pytest.mark.parametrize("short", OPERATIONS)
def test_each_short_form_is_a_command_there_is(short: str) -> None:
    [command] = as_command([short])
    assert command in COMMANDS or command == "--version"


@given(st.sampled_from(sorted(OPERATIONS)), st.lists(OPTIONS), st.lists(OPTIONS | NAMES))
def test_the_operation_may_stand_among_options_and_the_rest_stays_in_order(
    short: str, before: list[str], after: list[str]
) -> None:
    assert as_command([*before, short, *after]) == [OPERATIONS[short], *before, *after]


@given(st.lists(OPTIONS | NAMES))
def test_long_forms_stay_as_they_are(args: list[str]) -> None:
    assert as_command(args) == args


def test_what_follows_a_word_or_two_dashes_is_left_alone() -> None:
    assert as_command(["dev", "run", "-S"]) == ["dev", "run", "-S"]
    assert as_command(["-S", "--", "-U"]) == ["install", "--", "-U"]
    assert as_command(["install", "-S"]) == ["install", "-S"]


@pytest.mark.parametrize("short", [*ELSEWHERE, "-X", "-Sx", "-Uy"])
def test_unknown_short_forms_are_refused_with_a_way_out(short: str) -> None:
    with pytest.raises(UnknownOperationError, match=r"there is no -\w+; (here it is|did you mean|see) "):
        as_command([short, "name"])


@pytest.mark.parametrize("word", WORDS)
def test_another_tools_command_leads_to_the_one_here(word: str) -> None:
    assert word not in COMMANDS and WORDS[word] in COMMANDS
    with pytest.raises(UnknownOperationError, match=f"here it is `pkg {WORDS[word]}`"):
        as_command([word, "name"])
    assert as_command(["search", word]) == ["search", word]


def test_help_is_a_command_too() -> None:
    assert (as_command(["help"]), as_command(["help", "install"])) == (["--help"], ["install", "--help"])


def test_two_operations_at_once_are_refused() -> None:
    with pytest.raises(UnknownOperationError, match="-S and -R are two operations"):
        as_command(["-S", "-R", "name"])
