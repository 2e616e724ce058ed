"""Settings files are changed in place: values round-trip, comments and everything else stay."""

from __future__ import annotations

import datetime as dt
import string
import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from lumia.config_edit import drop, generated, incomplete, put, same, upgraded
from lumia.config_field import UNSET, Field
from lumia.config_schema import Schema, complete, declared_schema, verified
from lumia.errors import ConfigError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text(string.ascii_letters, min_size=1, max_size=6)
INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
TIMES = st.one_of(st.times(), st.datetimes()).map(lambda time: time.replace(fold=0))  # TOML has no fold
SCALARS = st.one_of(TEXT, INTS, FLOATS, st.booleans(), st.dates(), TIMES)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TABLES = st.dictionaries(NAMES, VALUES, max_size=4)

SAMPLE = """\
# the first line

rate = 3   # keep me
names = [
    "a",  # first
]

# about the table
[limits]
low = 1  # kept too

[limits.inner]
deep = true
# the last line
"""


def comments(text: str) -> list[str]:
    """Return the comments of a file in which no value holds a `#`."""
    return sorted(line[line.index("#") :].strip() for line in text.splitlines() if "#" in line)


@given(TABLES, st.lists(NAMES, min_size=1, max_size=3), VALUES)
@settings(max_examples=150, deadline=None)
def test_any_value_can_be_put_anywhere_and_is_read_back_equal(
    data: dict[str, Any], keys: list[str], value: Any
) -> None:
    text = tomlkit.dumps(data)
    expected = tomllib.loads(text)
    inner = expected
    for key in keys[:-1]:
        if not isinstance(inner.get(key), dict):
            if key in inner:
                return  # a section can't stand where a plain value is: the schema rules that out
            inner[key] = {}
        inner = inner[key]
    inner[keys[-1]] = value
    assert same(tomllib.loads(put(text, tuple(keys), value)), expected)


@given(
    st.sampled_from([("rate",), ("limits", "low"), ("limits", "inner", "deep"), ("new",), ("limits", "more")]),
    st.one_of(INTS, FLOATS, st.booleans(), st.text(string.ascii_letters)),
)
def test_every_comment_survives_a_change(keys: tuple[str, ...], value: Any) -> None:
    assert comments(put(SAMPLE, keys, value)) == comments(SAMPLE)


def test_only_the_changed_line_differs() -> None:
    assert put(SAMPLE, ("limits", "low"), 2) == SAMPLE.replace("low = 1", "low = 2")


def test_a_value_that_is_there_already_leaves_the_text_as_it_is() -> None:
    assert put(SAMPLE, ("names",), ["a"]) is SAMPLE


def test_a_new_setting_joins_the_others_and_parts_no_comment_from_its_table() -> None:
    assert "# about the table\n[limits]" in put(SAMPLE, ("new",), 1)


@pytest.mark.parametrize(
    "text",
    [
        "w.x = 1\nb = 2\n",
        "w = {x = 1}\nb = 2\n",
        "b = 2\n[w]\nx = 1\n",
        "[w]\nx = 1",
        "[z]\na = 1\n[w.k]\nq = 1\n",
        "[z]\na = 1\n[w.k]\nq = 1\n[y]\n[w.j]\nr = 2\n",
        "[w] # only a header\n[z]\n",
        "",
        "# a comment\n",
    ],
)
@pytest.mark.parametrize("value", [5, "a\nb", [1, 2], {"q": 1}, {}, [{"a": 1}], dt.date(2026, 1, 2)])
def test_every_way_to_write_a_table_takes_new_and_changed_settings(text: str, value: Any) -> None:
    expected = tomllib.loads(text)
    expected.setdefault("w", {})["new"] = value
    once = put(text, ("w", "new"), value)
    assert tomllib.loads(once) == expected
    expected["w"]["new"] = "other"
    assert tomllib.loads(put(once, ("w", "new"), "other")) == expected


def test_a_table_is_changed_entry_by_entry() -> None:
    text = '[s.a]\nx = 1  # one\n\n[s.b]\nx = 2  # two\n\n[s."c d"]\nx = 3  # three\n'
    changed = put(text, ("s",), {"a": {"x": 1}, "c d": {"x": 4}, "e": {}})
    assert tomllib.loads(changed) == {"s": {"a": {"x": 1}, "c d": {"x": 4}, "e": {}}}
    assert "x = 1  # one" in changed
    assert "x = 4  # three" in changed


def test_the_last_entry_of_a_table_can_go_and_the_table_stays() -> None:
    assert tomllib.loads(drop("[s.a]\nx = 1\n", ("s", "a"))) == {"s": {}}
    assert tomllib.loads(put("[s.a]\nx = 1\n", ("s",), {})) == {"s": {}}


def test_dropping_what_is_not_there_changes_nothing() -> None:
    assert drop(SAMPLE, ("limits", "nothing")) is SAMPLE


def test_dropping_a_setting_keeps_the_comments_of_others() -> None:
    changed = drop(SAMPLE, ("rate",))
    assert "rate" not in tomllib.loads(changed)
    assert set(comments(changed)) >= {"# kept too", "# about the table", "# the last line"}


def test_an_entry_can_not_be_put_into_what_is_no_table() -> None:
    with pytest.raises(ConfigError, match=r"a is no table, so it can't hold b; edit the file by hand"):
        put("a = 1\n", ("a", "b"), 1)


# --- Generating -------------------------------------------------------------------------------------------------------

RANGES = {"int": st.integers(-1000, 1000), "float": st.floats(-1e6, 1e6)}
DEFAULTS = {"str": TEXT, "bool": st.booleans(), **RANGES}


@st.composite
def fields(draw: st.DrawFn) -> Field:
    item = draw(st.sampled_from(["str", "int", "float", "bool"]))
    many = item != "bool" and draw(st.booleans())
    default = draw(st.lists(DEFAULTS[item], max_size=3) if many else DEFAULTS[item])
    values: list[Any] = default if many else [default]  # type: ignore[assignment]
    bounded = item in RANGES and draw(st.booleans())
    return Field(
        f"list[{item}]" if many else item,
        draw(st.sampled_from([UNSET, default])) if not bounded else default,
        draw(st.text(max_size=40)),
        min=min([*values, 0]) if bounded else None,
        max=max([*values, 0]) if bounded else None,
    )


@given(st.dictionaries(NAMES.map(str.lower).map("k_{}".format), fields(), max_size=6), st.booleans())
@settings(deadline=None)
def test_a_generated_file_parses_to_the_defaults_and_describes_them(declared: dict[str, Field], nested: bool) -> None:
    schema = complete(declared_schema("p", {f"s.{name}" if nested else name: item for name, item in declared.items()}))
    text = generated("p", schema)
    data = tomllib.loads(text)
    section = data.get("s", {}) if nested else data
    assert same(section, {name: field.initial for name, field in declared.items()})
    assert not incomplete(data, text, schema)
    assert upgraded(text, schema) == text


def test_the_file_tells_type_range_default_and_description_in_comments() -> None:
    schema = declared_schema(
        "p",
        {
            "threshold": Field("float", 0.65, "Engagement\n  threshold", min=0, max=1),
            "mode": Field("str", "a", choices=("a", "b")),
            "words": Field("list[int]", [1], "Numbers \x07 of luck", min=1),
            "least": Field("int", 0, max=3),
            "on": Field("bool"),
        },
    )
    assert generated("p", schema) == (
        "# Settings of p. A running bot sees changes within a second; comments and order are kept.\n\n"
        "# float from 0.0 to 1.0, default 0.65\nthreshold = 0.65  # Engagement threshold\n\n"
        "# one of 'a', 'b', default \"a\"\nmode = \"a\"\n\n"
        "# list of int, each of at least 1, default [1]\nwords = [1]  # Numbers ? of luck\n\n"
        "# int of at most 3, default 0\nleast = 0\n\n"
        "# true or false, default false\non = false\n"
    )


TABLE = verified(
    Field("table", description="Where from", fields={"token": Field("str", description="Key"), "n": Field("int", 4)}),
    "test",
    ("sources",),
)


def test_a_table_without_entries_is_shown_as_a_commented_sample_once() -> None:
    schema = Schema({"sources": TABLE, "free": Field("table"), "n": Field("int")}, "test")
    text = generated("p", schema)
    assert '# Where from\n# [sources.NAME]\n# token = ""  # Key: str\n# n = 4  # int\n' in text
    assert "# [free]\n" in text
    assert tomllib.loads(text) == {"n": 0}
    assert not incomplete({"n": 0}, text, schema)
    assert upgraded(text, schema) == text


def test_a_table_with_default_entries_is_written_out() -> None:
    schema = Schema({"t": Field("table", {"a": {"x": 1}})}, "test")
    assert tomllib.loads(generated("p", schema)) == {"t": {"a": {"x": 1}}}


def test_an_upgrade_adds_what_is_missing_and_keeps_every_line() -> None:
    schema = declared_schema(
        "p",
        {
            "rate": Field("int", 1),
            "fresh": Field("int", 7, "New one"),
            "limits.low": Field("int", 0),
            "limits.high": Field("int", 9),
            "other.x": Field("int", 5),
        },
    )
    text = upgraded(SAMPLE, schema)
    data = tomllib.loads(text)
    assert (data["rate"], data["fresh"], data["other"]) == (3, 7, {"x": 5})
    assert data["limits"] == {"low": 1, "high": 9, "inner": {"deep": True}}
    assert "fresh = 7  # New one\n" in text
    rest = iter(text.splitlines())
    assert all(line in rest for line in SAMPLE.splitlines())  # in the same order


@pytest.mark.parametrize(
    "text",
    ["# title\n\n[z]\na = 1\n", "[z]\na = 1\n", "# close\n[z]\na = 1\n", "z.a = 1\n", "z = {a = 1}\n", "[z.k]\n"],
)
def test_an_upgrade_serves_files_in_any_form(text: str) -> None:
    schema = declared_schema("p", {"top": Field("str", "x"), "z.a": Field("int", 2), "z.b": Field("str", "y")})
    data = tomllib.loads(upgraded(text, schema))
    assert data["top"] == "x"
    assert data["z"]["b"] == "y"
    assert data["z"]["a"] == tomllib.loads(text)["z"].get("a", 2)


def test_a_title_stays_above_and_a_tables_comment_stays_with_it() -> None:
    schema = declared_schema("p", {"top": Field("int", 1)})
    assert upgraded("# title\n\n[z]\n", schema).startswith("# title\n\n# int, default 1\ntop = 1\n")
    assert "# close\n[z]" in upgraded("# close\n[z]\n", schema)
