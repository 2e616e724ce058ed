"""Reading a persona: what a file may hold, and that what is wrong is told with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.persona_loader.persona import (
    HINT_LENGTH,
    MOST_BYTES,
    MOST_CHARACTERS,
    Persona,
    PersonaError,
    is_name,
    parse,
)


def read(text: str | bytes, ending: str = ".toml", name: str = "quiz") -> Persona:
    return parse(text if isinstance(text, bytes) else text.encode(), name, ending).persona


# --- what a file may hold


def test_a_toml_persona_is_its_prompt_style_and_examples() -> None:
    found = read(
        'prompt = """\nYou run a quiz.\nYou never give hints."""\nhint = "runs the quiz"\nstyle = "short"\n'
        'examples = ["Next!", {user = "hint please", reply = "No."}]\n'
    )
    assert found == Persona(
        "quiz",
        "You run a quiz.\nYou never give hints.\n\nHow you speak: short\n\n"
        "Examples of how you answer:\n- Next!\n- to “hint please” you say “No.”",
        "runs the quiz",
    )


def test_a_name_of_its_own_stands_wherever_the_text_says_name() -> None:
    found = read('name = "Mia"\nprompt = "You are {name}."\nhint = "{name}, a cat"\n')
    assert (found.name, found.prompt, found.hint) == ("quiz", "You are Mia.", "Mia, a cat")


def test_without_a_name_of_its_own_the_place_for_the_bots_name_stays() -> None:
    assert read('prompt = "You are {name}."').prompt == "You are {name}."


@pytest.mark.parametrize(
    "text, prompt, hint",
    [
        ("# A strict quiz master\n\nYou ask.\n", "# A strict quiz master\n\nYou ask.", "A strict quiz master"),
        ("You are kind.\nAlways.", "You are kind.\nAlways.", "You are kind."),
        ("+++\nhint = 'kind'\n+++\nYou are kind.", "You are kind.", "kind"),
        ("---\nhint: kind: very\nstyle: \"soft\"\n---\nYou are.", "You are.\n\nHow you speak: soft", "kind: very"),
        ("---\nJust text below a rule.", "---\nJust text below a rule.", "---"),
        ("你是一只猫。\n喵。", "你是一只猫。\n喵。", "你是一只猫。"),
    ],
)  # fmt: skip
def test_a_markdown_persona_is_its_text(text: str, prompt: str, hint: str) -> None:
    found = read(text, ".md")
    assert (found.prompt, found.hint) == (prompt, hint)


@pytest.mark.parametrize("ending", [".toml", ".md"])
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(ending: str) -> None:
    text = 'prompt = """\na\nb"""\n' if ending == ".toml" else "a\nb\n"
    assert read(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), ending) == read(text, ending)
    assert read(text, ending).prompt == "a\nb"


def test_a_long_first_line_makes_a_short_hint_on_one_line() -> None:
    hint = read("x" * 900 + "\nmore", ".md").hint
    assert len(hint) == HINT_LENGTH and hint.endswith("…")


def test_an_unknown_key_is_told_and_harms_nothing() -> None:
    parsed = parse(b'prompt = "a"\n\nstile = "short"\nfoo = 1\n', "quiz", ".toml")
    assert parsed.persona.prompt == "a"
    assert parsed.warnings == (
        "3: `stile` means nothing; did you mean `style`?",
        "4: `foo` means nothing; there are name, prompt, hint, style, examples",
    )


@pytest.mark.parametrize("ending, code", [(".toml", "toml"), (".md", "markdown")])
def test_the_documents_examples_are_personas(ending: str, code: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "personas.md"
    example = re.findall(rf"```{code}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)[0]
    assert parse(example.encode(), "quiz", ending).warnings == ()


# --- what is wrong


@pytest.mark.parametrize(
    "text, ending, line, why",
    [
        ("", ".toml", None, "empty"),
        (" \r\n\t", ".md", None, "empty"),
        (b"\xef\xbb\xbf", ".md", None, "empty"),
        ('prompt = "a"\nhint = \n', ".toml", 2, "no valid TOML"),
        ('prompt = "a', ".toml", 1, "no valid TOML"),
        ('hint = "a"\n', ".toml", None, "no `prompt`"),
        ('hint = "a"\nprompt = "  "\n', ".toml", 2, "no `prompt`"),
        ('prompt = "a"\n\nhint = 7\n', ".toml", 3, "`hint` is a number"),
        ('prompt = ["a"]', ".toml", 1, "`prompt` is a list"),
        ('prompt = "a"\nname = 2020-01-01\n', ".toml", 2, "`name` is a date"),
        ('prompt = "a"\nexamples = "b"\n', ".toml", 2, "`examples` is a text"),
        ('prompt = "a"\nexamples = [{user = "b"}]\n', ".toml", 2, "`examples` holds a table"),
        ("+++\nhint = 'a'\nText", ".md", 1, "no end"),
        ("+++\nhint = 'a'\nbad\n+++\nText", ".md", 3, "no valid TOML"),
        ("+++\nprompt = 'a'\n+++\nText", ".md", 2, "leave `prompt` out"),
        ("---\nhint: a\n- b\n---\nText", ".md", 3, "key: value"),
        ("---\nhint: a\n---\n \n", ".md", None, "no `prompt`"),
        (b"a\nb\n" + b"\xe4 caf\xe9", ".md", 3, "byte 0xe4 is no UTF-8"),
        ("你好".encode("utf-16"), ".md", 1, "UTF-16"),
        ("你好\n".encode("gbk"), ".toml", 1, "no UTF-8"),
        ("a = " + "[" * 50_000, ".toml", 1, "nested too deeply"),
        ("x" * (MOST_CHARACTERS + 1), ".md", None, "20,001 characters; at most 20,000"),
        ("x" * (MOST_BYTES + 1), ".md", None, "at most 20,000"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str | bytes, ending: str, line: int | None, why: str) -> None:
    with pytest.raises(PersonaError) as caught:
        read(text, ending)
    assert why in str(caught.value)
    assert caught.value.line == line


def test_a_persona_of_exactly_the_limit_is_taken_whatever_its_script() -> None:
    assert len(read("猫" * MOST_CHARACTERS, ".md").prompt) == MOST_CHARACTERS


def test_the_limit_counts_style_and_examples() -> None:
    with pytest.raises(PersonaError, match="at most 20,000"):
        read(f'prompt = "{"x" * 19_990}"\nstyle = "{"y" * 20}"\n')


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))),
       st.sampled_from([".toml", ".md"]))  # fmt: skip
def test_any_bytes_are_a_persona_or_a_told_error(data: bytes, ending: str) -> None:
    try:
        found = parse(data, "any", ending).persona
    except PersonaError:
        return
    assert found.prompt.strip() and len(found.prompt) <= MOST_CHARACTERS
    assert "\n" not in found.hint and len(found.hint) <= HINT_LENGTH
    assert "\x00" not in found.prompt


@given(st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=20))
def test_words_of_any_script_are_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", " a", "a ", "../a", "a/b", "a\\b", "a\nb", "a:b", "x" * 65, "\ud800", "@all"])
def test_what_could_be_mistaken_for_a_path_or_an_id_is_no_name(name: str) -> None:
    assert not is_name(name)
