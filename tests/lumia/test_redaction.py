"""Secrets don't get into what is kept: by key, by value, in Boxes and in store values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia import secrets
from lumia.box import Box
from lumia.journal import JournalEntry
from lumia.redaction import HIDDEN, cleaned, cleaned_entry, cleaned_error, cleaned_stored, cleaned_wire, shown

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


@pytest.mark.parametrize(
    "text, bare",
    [
        ("login failed: password=hunter2", "login failed: password=***"),
        ("token: abcdef, next", "token: ***, next"),
        ('{"api_key": "k-1", "who": "ann"}', '{"api_key": ***, "who": "ann"}'),
        ("got Authorization: Bearer abc.def", "got Authorization: ***"),
        ("sent with Bearer abcdefghijklmnop", "sent with Bearer ***"),
        ("GET https://bob:pw@host/x?token=abc&page=2", "GET https://bob:***@host/x?token=***&page=2"),
        ("    login(user, password='hunter2')", "    login(user, password=***)"),
        ("client_secret = swordfish\nnext line", "client_secret = ***\nnext line"),
        ("used token: 512 of 1000", "used token: 512 of 1000"),
        ("KeyError: 'password'", "KeyError: 'password'"),
        ("SecretError: the file can't be read", "SecretError: the file can't be read"),
        ("ValueError: no topic: tea", "ValueError: no topic: tea"),
        ("bearer authentication failed", "bearer authentication failed"),
        ("password_file=/etc/pw", "password_file=/etc/pw"),
    ],
)
def test_an_errors_text_loses_what_is_named_as_a_secret(text: str, bare: str) -> None:
    assert cleaned_error(text, lambda text: str(secrets.redact(text))) == bare


@given(
    st.sampled_from(["password", "api_key", "Authorization", "token", "db.passwd", "clientSecret"]),
    st.sampled_from(["=", ": ", " = ", '="', "='", '": "']),
    st.from_regex(r"[a-z]{3}[0-9a-z._/+-]{4,20}", fullmatch=True),
    st.text(max_size=20),
)
def test_no_value_of_a_named_secret_comes_through(name: str, mark: str, value: str, before: str) -> None:
    assert value not in cleaned_error(f"{before.replace(value, '')} {name}{mark}{value}", str)


def entry(box: Box[Any], **fields: Any) -> JournalEntry:
    return JournalEntry("step", "r1", detail={"box": box.dump(KEY)}, **fields)


def test_an_exported_entry_loses_the_secrets_of_its_box_and_says_so() -> None:
    box = Box.any({"text": "hi", "password": "hunter2"}, meta={"api_key": "k-1", "account": "a"})
    found = cleaned_entry(entry(box, reason="password=hunter2"), redact, KEY)
    kept = Box.load(found.detail["box"], KEY)
    assert kept.into() == {"text": "hi", "password": HIDDEN} and dict(kept.meta) == {"api_key": HIDDEN, "account": "a"}
    assert found.detail["redacted"] is True and found.reason == f"password={HIDDEN}"


def test_an_exported_entry_without_secrets_stays_as_it_is() -> None:
    plain = entry(Box.any({"text": "hi"}, meta={"account": "a"}), reason="too late")
    assert cleaned_entry(plain, redact, KEY) == plain


def test_an_exported_box_that_nobody_can_read_is_left_out() -> None:
    other = JournalEntry("step", "r1", detail={"box": '{"d":"AA","s":"00"}'})
    assert cleaned_entry(other, redact, KEY).detail == {"box": "", "redacted": True}
