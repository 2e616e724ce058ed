"""Secrets don't get into what is kept: by key, by value, in Boxes and in store values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.box import Box
from lumia.redaction import HIDDEN, cleaned, cleaned_stored, cleaned_wire, shown

SECRET = 'tops"ecret\\ü-4711'
KEY = b"k" * 32
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
)


def redact(text: str) -> str:
    return text.replace(SECRET, HIDDEN)


@dataclass
class Account:
    user: str
    password: str


@given(DATA, st.text(max_size=5), st.text(max_size=5))
def test_a_known_secret_is_found_wherever_it_stands(data: Any, before: str, after: str) -> None:
    hiding = {"a": [data, {"b": f"{before}{SECRET}{after}"}]}
    found, changed = cleaned(hiding, redact)
    assert changed and SECRET not in json.dumps(found, ensure_ascii=False).replace('\\"', '"').replace("\\\\", "\\")


@given(DATA, st.sampled_from(["api_key", "botToken", "Authorization", "password", "client_secret", "Set-Cookie"]))
def test_a_text_under_a_key_that_speaks_of_a_secret_is_hidden(data: Any, key: str) -> None:
    found, changed = cleaned([data, {key: "value 17"}], redact)
    assert changed and found[1] == {key: HIDDEN}


@given(st.lists(st.integers() | st.sampled_from(["hello", "ünïcode", "a\nb"]) | st.booleans()))
def test_data_without_secrets_are_the_same_object(data: list[Any]) -> None:
    found, changed = cleaned(data, redact)
    assert found is data and not changed


@given(DATA)
def test_what_is_clean_stays_clean(data: Any) -> None:
    once, _ = cleaned(data, redact)
    assert cleaned(once, redact)[0] == once


def test_a_setting_whose_name_is_a_secret_is_hidden_as_a_whole() -> None:
    assert cleaned("abc", redact, "webhook/sources.api_token") == (HIDDEN, True)
    assert cleaned(["a", "b"], redact, "chat/bot_secrets") == (HIDDEN, True)
    assert cleaned("", redact, "webhook/api_token") == ("", False)
    assert cleaned("abc", redact, "webhook/api_key_env") == ("abc", False)


@pytest.mark.parametrize(
    "stored, clean",
    [
        (["value", json.dumps({"password": "p", "n": 1})], ("value", json.dumps({"password": HIDDEN, "n": 1}))),
        (["list", [json.dumps(SECRET), "1"]], ("list", [json.dumps(HIDDEN), "1"])),
        (["hash", {"api_key": '"p"', "n": "1"}], ("hash", {"api_key": json.dumps(HIDDEN), "n": "1"})),
    ],
)
def test_store_values_are_cleaned_inside_their_texts(stored: Any, clean: Any) -> None:
    assert cleaned_stored(stored, redact) == (clean, True)
    assert cleaned_stored(["none", None], redact) == (["none", None], False)


def test_a_json_result_loses_its_secrets_and_a_clean_one_is_kept_as_it_is() -> None:
    wire = Box.any({"token": "abc", "n": 1}).dump(KEY)
    shown, changed = cleaned_wire(wire, redact, KEY)
    assert changed and Box.load(shown, KEY).into() == {"token": HIDDEN, "n": 1}
    clean = Box.any({"n": 1}).dump(KEY)
    assert cleaned_wire(clean, redact, KEY) == (clean, False)


@pytest.mark.parametrize("value", [Account("ann", "p"), (SECRET, 1), {"deep": {1, SECRET}}])
def test_other_results_are_left_out_when_a_secret_is_in_them(value: Any) -> None:
    shown, changed = cleaned_wire(Box.any(value).dump(KEY), redact, KEY)
    assert changed and Box.load(shown, KEY).into() == HIDDEN


def test_other_results_without_secrets_are_kept() -> None:
    wire = Box.any(("ann", {1, 2})).dump(KEY)
    assert cleaned_wire(wire, redact, KEY) == (wire, False)


def test_a_box_is_shown_without_secrets_and_what_is_no_json_is_only_named() -> None:
    told = {"note": f"it is {HIDDEN}", "password": HIDDEN}
    assert shown(Box.any({"note": f"it is {SECRET}", "password": "x"}), redact) == told
    assert (
        shown(Box.load(Box.any(Account("ann", SECRET)).dump(KEY), KEY), redact) == f"<{__name__}.Account, kept as dill>"
    )
