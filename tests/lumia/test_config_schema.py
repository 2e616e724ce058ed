"""Schemas from files and declarations: what they take, what they refuse, and how they complement each other."""

from __future__ import annotations

import datetime as dt
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest

from lumia import config
from lumia.config import field, load_schema
from lumia.config_field import Field, Findings, fit, shorten
from lumia.config_schema import Schema, complete, declared_schema, evaluate, merged, secrets_in, verified
from lumia.errors import ConfigSchemaError

SPEC = """\
[trigger_threshold]
type = "float"
default = 0.65
description = "Score threshold above which the bot engages"
min = 0.0
max = 1.0

[attention_window]
type = "int"
default = 120
description = "Seconds the bot remains attentive after speaking"

[planner_model]
type = "str"
default = "deepseek-chat"
description = "Model identifier for the Planner layer"
"""


def from_text(folder: Path, text: str) -> Schema:
    path = folder / "config-schema.toml"
    path.write_text(text)
    return load_schema(path)


def test_the_schema_file_of_the_specification_is_read_as_it_stands(tmp_path: Path) -> None:
    fields = dict(from_text(tmp_path, SPEC).leaves())
    assert fields[("trigger_threshold",)] == Field(
        "float", 0.65, "Score threshold above which the bot engages", min=0.0, max=1.0
    )
    assert fields[("attention_window",)].default == 120
    assert fields[("planner_model",)].default == "deepseek-chat"


def test_sections_secrets_choices_and_tables_can_be_described(tmp_path: Path) -> None:
    schema = from_text(
        tmp_path,
        '[s]\ndescription = "Some"\n[s.description]\ntype = "str"\n'.replace('description = "Some"\n', "")
        + '[s.type]\ntype = "str"\nchoices = ["a", "b"]\ndefault = "a"\n'
        + '[t]\ntype = "table"\n[t.fields.key]\ntype = "str"\nsecret = true\n[e]\ndescription = "Empty"\n',
    )
    fields = dict(schema.leaves())
    assert set(fields) == {("s", "description"), ("s", "type"), ("t",)}
    assert fields[("s", "type")].choices == ("a", "b")
    assert fields[("t",)].fields == {"key": Field("str", secret=True)}
    assert schema.private
    assert [(keys, section.description) for keys, section in schema.sections()] == [
        ((), ""),
        (("s",), ""),
        (("e",), "Empty"),
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a = 1\n", r"config-schema\.toml: a is no setting without `type`, one of str, int"),
        ("[a]\ndefault = 1\n", r"a is no setting without `type`"),
        ('[a]\ntype = "strng"\n', r"a has the type 'strng'; allowed are str, int, float, bool, table, list\[str\]"),
        ('[a]\ntype = "int"\nrange = 1\n', r"a has the attribute 'range'; allowed are type, default"),
        ('[a]\ntype = "int"\ndefault = "x"\n', r"a has the default 'x', which is not allowed: it must be int"),
        ('[a]\ntype = "int"\ndefault = 9\nmax = 5\n', r"default 9, which is not allowed: it must be int of at most 5"),
        ('[a]\ntype = "int"\nmin = 9\nmax = 5\n', r"a has min 9 above max 5"),
        ('[a]\ntype = "float"\nmin = nan\nmax = 5\n', r"a has min nan above max 5"),
        ('[a]\ntype = "int"\nmin = "9"\n', r"a has a min or max that is no number"),
        ('[a]\ntype = "int"\nmin = true\n', r"a has a min or max that is no number"),
        ('[a]\ntype = "str"\nmin = 1\n', r"a has min or max, which a str has not"),
        ('[a]\ntype = "str"\nchoices = []\n', r"a has the choices \(\); give a list of at least one str"),
        ('[a]\ntype = "str"\nchoices = "ab"\n', r"a has the choices 'ab'; give a list"),
        ('[a]\ntype = "str"\nchoices = [1]\n', r"a has the choices \(1,\); give a list"),
        ('[a]\ntype = "bool"\nchoices = [true]\n', r"a has the choices"),
        ('[a]\ntype = "int"\ndescription = 5\n', r"a needs text as description and true or false as secret"),
        ('[a]\ntype = "int"\nsecret = "yes"\n', r"a needs text as description and true or false as secret"),
        ('[a]\ntype = "table"\nfields = 1\n', r"a has `fields` that are no table"),
        ('[a]\ntype = "table"\n[a.fields]\n', r"a has `fields`: they belong to a table and name at least one"),
        ('[a]\ntype = "int"\n[a.fields.b]\ntype = "int"\n', r"a has `fields`: they belong to a table"),
        ('[a]\ntype = "table"\n[a.fields.b]\ndefault = 1\n', r"a\.b is no setting without `type`"),
        ('[a]\ntype = "table"\n[a.fields.b.c]\ntype = "int"\n', r"a\.b has no `type`"),
        ('[a]\ntype = "table"\n[a.fields.b-c]\ntype = "int"\n', r"a\.b-c is no usable name"),
        ('[a]\ntype = "table"\ndefault = {x = {y = 1}}\n[a.fields.b]\ntype = "int"\n', "a has the default .*keys b"),
        ('["a b"]\ntype = "int"\n', r"a b is no usable name: take letters, digits and _"),
        ('[class]\ntype = "int"\n', r"class is no usable name"),
        ('[_a]\ntype = "int"\n', r"_a is no usable name"),
        ("a = 1\nb =\n", r"no valid TOML in UTF-8: .*line 2"),
        ("a = " + "[" * 5000, r"no valid TOML in UTF-8"),
    ],
)  # fmt: skip
def test_a_wrong_schema_file_is_refused_with_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigSchemaError, match=message):
        from_text(tmp_path, text)


def test_a_schema_file_that_is_absent_or_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigSchemaError, match="can't be read: No such file"):
        load_schema(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe4\n")
    with pytest.raises(ConfigSchemaError, match="no valid TOML in UTF-8"):
        load_schema(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"a": 1}, r"declare\('p'\): a is 1; make it with lumia\.config\.field"),
        ({"a b": field(int)}, "a b is no usable name"),
        ({"a.": field(int)}, "a. is no usable name"),
        ({1: field(int)}, "1 is no usable name"),
        ({"a": field(list)}, r"a has the type \"<class 'list'>\""),
        ({"a": field([])}, r"a has the type '\[\]'"),
        ({"a": field(bytes)}, "a has the type"),
        ({"a": field(int, default=1.5)}, "a has the default 1.5"),
        ({"a": field(int, min=True)}, "min or max that is no number"),
        ({"a": field(int), "a.b": field(int)}, "a is a setting, so it can't be the section of a.b"),
        ({"a.b": field(int), "a": field(int)}, "a is a section, so it can't be a setting too"),
        ({"a": field(dict, fields={"x y": field(int)})}, "a.x y is no usable name"),
        ([], "needs a dict of names"),
    ],
)
def test_a_wrong_declaration_is_refused_with_plugin_and_key(fields: Any, message: str) -> None:
    with pytest.raises(ConfigSchemaError, match=message):
        declared_schema("p", fields)


def test_python_types_and_their_names_mean_the_same() -> None:
    for type_, name in ((str, "str"), (bool, "bool"), (list[int], "list[int]"), (dict, "table")):
        assert field(type_).type == field(name).type == name
    assert field(str, choices=["a"]).choices == ("a",)


def test_a_default_that_is_left_out_is_the_types_empty_value() -> None:
    empty = {"str": "", "int": 0, "float": 0.0, "bool": False, "list[str]": [], "table": {}}
    assert {name: Field(name).initial for name in empty} == empty


def test_a_default_left_out_must_come_from_somewhere_when_empty_is_not_allowed() -> None:
    declared = declared_schema("p", {"port": field(int, min=1)})
    with pytest.raises(ConfigSchemaError, match="port has no default, and the empty value 0, which is not allowed"):
        complete(declared)
    complete(merged(declared, declared_schema("q", {"port": field(int, default=5)})))
    inner = declared_schema("p", {"t": field(dict, fields={"port": field(int, min=1)})})
    with pytest.raises(ConfigSchemaError, match=r"t\.port has no default"):
        complete(inner)


# --- File and declaration ---------------------------------------------------------------------------------------------


def test_file_and_declaration_of_the_specification_complement_each_other(tmp_path: Path) -> None:
    declared = declared_schema(
        "heartflow",
        {
            "trigger_threshold": field(float, default=0.65, desc="Engagement trigger threshold"),
            "attention_window": field(int, default=120, desc="Attention window in seconds"),
            "main_model": field(str, default="deepseek-reasoner"),
        },
    )
    both = dict(merged(from_text(tmp_path, SPEC), declared).leaves())
    assert list(both) == [("trigger_threshold",), ("attention_window",), ("planner_model",), ("main_model",)]
    assert both[("trigger_threshold",)].max == 1.0
    assert both[("trigger_threshold",)].description == "Score threshold above which the bot engages"


@pytest.mark.parametrize(
    "one, other, about",
    [
        (field(int), field(float), "a: type is 'int' in one and 'float' in the other"),
        (field(int, default=1), field(int, default=2), "a: default is 1 in one and 2 in the other"),
        (field(int, default=0, min=0), field(int, default=0, min=-1), "a: min is 0"),
        (field(int, max=5), field(int, max=6), "a: max is 5"),
        (field(str, "x", choices=("x",)), field(str, "x", choices=("x", "y")), "a: choices is"),
        (
            field(dict, fields={"x": field(int, default=1)}),
            field(dict, fields={"x": field(int, default=2)}),
            r"a\.x: default is 1 in one and 2 in the other",
        ),
    ],
)
def test_a_disagreement_is_an_error_naming_both_sources_and_the_key(one: Field, other: Field, about: str) -> None:
    first, second = declared_schema("first", {"a": one}), declared_schema("second", {"a": other})
    with pytest.raises(ConfigSchemaError, match=rf"declare\('first'\) and declare\('second'\) disagree about {about}"):
        merged(first, second)


def test_a_section_and_a_setting_of_one_name_disagree() -> None:
    section, setting = declared_schema("p", {"a.b": field(int)}), declared_schema("q", {"a": field(int)})
    for one, other in ((section, setting), (setting, section)):
        with pytest.raises(ConfigSchemaError, match="one says it is a section, the other a setting"):
            merged(one, other)


def test_what_only_one_says_is_taken_and_the_whole_is_checked_again() -> None:
    ranged, valued = (
        declared_schema("p", {"s.a": field(int, min=1, max=5)}),
        declared_schema("q", {"s.a": field(int, 9)}),
    )
    with pytest.raises(
        ConfigSchemaError, match=r"s\.a has the default 9, which is not allowed: it must be int from 1 to 5"
    ):
        merged(ranged, valued)
    inner = declared_schema("q", {"t": field(dict, fields={"x": field(int)})})
    bare = declared_schema("p", {"t": field(dict, secret=True)})
    for both in (merged(bare, inner), merged(inner, bare), merged(inner, inner)):
        assert dict(both.leaves())[("t",)].fields == {"x": Field("int")}


# --- Fitting values ---------------------------------------------------------------------------------------------------


class Colour(StrEnum):
    RED = "red"


DAY = dt.date(2026, 1, 2)


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    "made, value, plain",
    [
        (Field("float"), 3, 3.0),
        (Field("str"), Colour.RED, "red"),
        (Field("int"), Level.LOW, 1),
        (Field("list[float]"), (1, 2.5), [1.0, 2.5]),
        (Field("list[str]"), [], []),
        (Field("float", max=float("inf")), float("inf"), float("inf")),
        (Field("table"), {"a": [1, {"b": DAY}], "c": True}, {"a": [1, {"b": DAY}], "c": True}),
        (Field("table", fields={"n": Field("int", 4)}), {"x": {}}, {"x": {"n": 4}}),
    ],
)  # fmt: skip
def test_fitting_values_become_plain_ones(made: Field, value: object, plain: object) -> None:
    found = Findings()
    fitted = fit(made, value, ("a",), found)
    assert (fitted, type(fitted), found.faults) == (plain, type(plain), [])


@pytest.mark.parametrize(
    "made, value, must",
    [
        (Field("int"), True, "int"),
        (Field("int"), 1.0, "int"),
        (Field("bool"), 1, "true or false"),
        (Field("float"), "1", "float"),
        (Field("str"), None, "str"),
        (Field("str"), "\ud800", "text that UTF-8 can hold (this has a lone surrogate)"),
        (Field("int"), 2**63, "a number of at most 64 bits"),
        (Field("float"), 10**400, "a number of at most 64 bits"),
        (Field("float"), float("nan"), "a number"),
        (Field("float", min=0.0, max=1.0), 1.1, "float from 0.0 to 1.0"),
        (Field("int", min=1), 0, "int of at least 1"),
        (Field("str", "a", choices=("a", "b")), "c", "one of 'a', 'b'"),
        (Field("list[int]", max=3), [1, 9], "list of int, each of at most 3"),
        (Field("list[str]"), "abc", "list of str"),
        (Field("table"), [], "table"),
        (Field("table"), {"a": None}, "made of what TOML can hold"),
        (Field("table"), {1: 1}, "a table whose keys are text"),
        (Field("table", fields={"n": Field("int")}), {1: {}}, "a table whose keys are text"),
        (Field("table", fields={"n": Field("int")}), 5, "table of tables with the keys n"),
        (Field("table", fields={"n": Field("int")}), {"x": 5}, "table with the keys n"),
        (Field("table", fields={"n": Field("int")}), {"x": {"n": "q"}}, "int"),
    ],
)
def test_a_value_that_does_not_fit_is_a_fault_that_tells_what_it_must_be(made: Field, value: object, must: str) -> None:
    found = Findings()
    fit(made, value, ("a",), found)
    assert [fault.must.startswith(must) for fault in found.faults] == [True]


def test_a_table_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = [endless]
    found = Findings()
    assert fit(Field("table"), endless, ("a",), found) == {}
    assert found.faults[0].must == "nested at most 32 levels deep"


def test_a_secret_is_not_shown_in_a_fault() -> None:
    found = Findings()
    fit(Field("str", secret=True), 12345, ("a",), found)
    fit(Field("str"), 12345, ("bot_token",), found)
    fit(Field("int"), "12345", ("max_tokens",), found)
    assert [fault.shown for fault in found.faults] == ["***", "***", "'12345'"]


def test_long_and_unprintable_values_are_shortened_in_messages() -> None:
    assert len(shorten("x" * 500)) == 80
    assert shorten("\ud800").isascii()


def test_a_section_that_is_no_table_is_one_fault_and_its_settings_keep_their_defaults() -> None:
    found = Findings()
    schema = declared_schema("p", {"s.a": field(int, 3)})
    assert evaluate(schema, {"s": 5, "u": 1}, found) == {("s", "a"): 3}
    assert [(fault.keys, fault.shown) for fault in found.faults] == [(("s",), "5")]
    assert found.unknown == [("u",)]


def test_unknown_keys_are_found_at_every_level() -> None:
    schema = declared_schema("p", {"s.a": field(int), "t": field(dict, fields={"x": field(int)})})
    found = Findings()
    evaluate(schema, {"b": 1, "s": {"c": 1}, "t": {"e": {"y": 1}}}, found)
    assert found.unknown == [("b",), ("s", "c"), ("t", "e", "y")]


def test_secrets_are_found_in_lists_and_tables() -> None:
    schema = declared_schema(
        "p",
        {
            "keys": field(list[str], secret=True),
            "password": field(str),
            "s": field(dict, fields={"token": field(str), "n": field(int)}),
            "name": field(str, "visible"),
        },
    )
    values = evaluate(
        schema, {"keys": ["k1", "k2"], "password": "pw", "s": {"x": {"token": "tk"}, "y": {}}}, Findings()
    )
    assert list(secrets_in(schema, values)) == ["k1", "k2", "pw", "tk"]


def test_verifying_a_field_twice_changes_nothing() -> None:
    once = verified(Field("float", 1, min=0, max=2), "test", ("a",))
    assert once == verified(once, "test", ("a",)) == Field("float", 1.0, min=0.0, max=2.0)


def test_the_module_names_what_authors_use() -> None:
    assert all(hasattr(config, name) for name in config.__all__)
