"""A plain annotated function as a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lumia.cli.signature import as_typer, help_text


def run(fn: Callable[..., Any], *args: str) -> Result:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command("it")(as_typer(fn))
    return CliRunner().invoke(app, list(args))


def test_what_stands_before_the_slash_is_an_argument_even_with_a_default() -> None:
    def it(text: str = "-", /, group: str = "") -> None:
        print(text, group)

    assert run(it).stdout == "- \n"
    assert run(it, "hi", "--group", "lab").stdout == "hi lab\n"


def test_a_star_takes_any_number_of_arguments() -> None:
    def it(*numbers: int, sign: str = "+") -> None:
        print(sign.join(map(str, numbers)))

    assert run(it, "1", "2", "3").stdout == "1+2+3\n"
    assert (run(it).exit_code, run(it, "x").exit_code) == (0, 2)


def test_a_flag_that_is_true_has_a_no_form_and_a_false_one_has_not() -> None:
    def it(color: bool = True, quiet: bool = False) -> None:
        print(color, quiet)

    assert run(it, "--no-color", "--quiet").stdout == "False True\n"
    assert run(it, "--no-quiet").exit_code == 2


def test_underscores_become_hyphens_and_a_trailing_one_vanishes() -> None:
    def it(message_id: str = "", json_: bool = False) -> None:
        print(message_id, json_)

    assert run(it, "--message-id", "7", "--json").stdout == "7 True\n"


def test_a_string_in_annotated_is_the_help_of_its_parameter() -> None:
    def it(name: Annotated[str, "Who it is."], age: Annotated[int, "In years."] = 3) -> None:
        """Tell."""

    shown = run(it, "--help").stdout
    assert "Who it is." in shown
    assert "In years." in shown


def test_a_parameter_that_is_described_for_typer_is_left_as_it_is() -> None:
    def it(verbose: Annotated[bool, typer.Option("--loud", "-l")] = False) -> None:
        print(verbose)

    assert run(it, "-l").stdout == "True\n"


@pytest.mark.parametrize("answer, code", [(None, 0), (0, 0), (3, 3), (False, 0), (True, 1), ("text", 0)])
def test_a_returned_number_is_the_exit_code(answer: object, code: int) -> None:
    assert run(lambda: answer).exit_code == code


def test_indented_lines_of_a_docstring_stay_as_they_stand() -> None:
    text = help_text("Do it\nwell.\n\nExample:\n  lumia it\n  lumia it --twice")
    assert text == "Do it\nwell.\n\n\b\nExample:\n  lumia it\n  lumia it --twice"
