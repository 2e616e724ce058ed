"""Accounts: whose a connection is, what is wrong with the settings, who may report."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lumia
from adapters.onebot import accounts, checking, doorkeeper
from adapters.onebot.accounts import Account
from adapters.onebot.doorkeeper import Refusal, Visitor
from lumia.testing import Bot
from tests.support.gateway import ONEBOT


@contextmanager
def configured(**tables: dict[str, Any]) -> Iterator[None]:
    with Bot(ONEBOT, config={"onebot": {"accounts": tables}}):
        yield


def admit(self_id: str, token: str = "", *, local: bool = True) -> Account | Refusal:
    return doorkeeper.admit(Visitor(self_id, "universal", token), local=local)


def admitted(self_id: str, token: str = "", *, local: bool = True) -> str:
    found = admit(self_id, token, local=local)
    assert isinstance(found, Account), found
    return found.name


def refused(self_id: str, token: str = "", *, local: bool = True) -> int:
    found = admit(self_id, token, local=local)
    assert isinstance(found, Refusal), found
    return found.status


class TestAdmission:
    def test_the_token_and_the_number_decide(self) -> None:
        with configured(one={"access_token": "t1", "self_id": "1"}, two={"access_token": "t1", "self_id": "2"},
                        other={"access_token": "t2"}):  # fmt: skip
            assert (admitted("1", "t1"), admitted("2", "t1"), admitted("9", "t2")) == ("one", "two", "other")
            assert refused("3", "t1") == 403
            assert refused("1", "wrong") == 403
            assert refused("1") == 401

    def test_a_number_that_is_named_comes_before_any_number(self) -> None:
        with configured(any={"access_token": "t"}, one={"access_token": "t", "self_id": "1"}):
            assert (admitted("1", "t"), admitted("2", "t")) == ("one", "any")

    def test_a_template_serves_any_number_each_as_an_account(self) -> None:
        with configured(farm={"access_token": "t", "self_id": "*"}):
            assert (admitted("1", "t"), admitted("22", "t")) == ("farm.1", "farm.22")
            found = accounts.find("farm.22")
            assert found is not None
            assert found.self_id == "22"
            assert accounts.find("farm.x") is None

    def test_without_a_token_only_this_machine_may_come(self) -> None:
        with configured(main={}):
            assert admitted("1") == "main"
            assert refused("1", local=False) == 403

    def test_without_accounts_nobody_may(self) -> None:
        with configured():
            assert refused("1") == 401

    @pytest.mark.parametrize("self_id", ["", "abc", "1" * 30, "١٢٣"])
    def test_a_number_that_is_none_is_refused(self, self_id: str) -> None:
        with configured(main={}):
            assert refused(self_id) == 400

    def test_disabled_and_forward_accounts_take_no_connection(self) -> None:
        with configured(off={"enabled": False}, out={"mode": "forward", "url": "ws://x:1"}):
            assert refused("1") == 401

    def test_a_template_cannot_be_checked_itself(self) -> None:
        with configured(farm={"access_token": "t", "self_id": "*"}):
            assert "farm.<number>" in checking.check("farm").detail


class TestSignatures:
    @pytest.mark.parametrize("account", [Account("a", secret="s"), Account("a", token="s")])
    def test_the_raw_bytes_are_signed(self, account: Account) -> None:
        right = "sha1=" + hmac.new(b"s", b"{ }", hashlib.sha1).hexdigest()
        assert account.signed(b"{ }", right)
        assert not account.signed(b"{}", right)
        assert not account.signed(b"{ }", "")

    def test_without_a_key_nothing_is_right(self) -> None:
        assert not Account("a").signed(b"", "sha1=" + hmac.new(b"", b"", hashlib.sha1).hexdigest())


class TestProblems:
    @pytest.mark.parametrize(
        "table, wrong",
        [
            ({"mode": "telepathy"}, "mode is 'telepathy'"),
            ({"mode": "forward"}, "needs a url"),
            ({"mode": "forward", "url": "http://x"}, "needs a url"),
            ({"mode": "forward", "url": "ws://["}, "needs a url"),
            ({"mode": "forward", "url": "ws://x/?access_token=t"}, "url with a query or a password"),
            ({"mode": "forward", "url": "ws://me:t@x"}, "url with a query or a password"),
            ({"mode": "forward", "url": "ws://x:3001/api/"}, "ends in /api, where OneBot gives only actions"),
            ({"mode": "http", "url": "http://x"}, "neither secret nor access_token"),
            ({"on_unknown": "guess"}, "on_unknown is 'guess'"),
            ({"self_id": "me"}, "self_id is 'me'"),
            ({"access_token_env": "LUMIA_TEST_NOT_SET"}, "LUMIA_TEST_NOT_SET, which is not set"),
            ({"mode": "http", "url": "http://x", "secret": "s", "self_id": "*"}, "only mode"),
        ],
    )
    def test_each_is_named_and_the_other_accounts_go_on(self, table: dict[str, Any], wrong: str) -> None:
        with configured(bad=table, good={}):
            said = [f"{accounts.where(fault)}; {fault.fix}" for fault in accounts.faults()]
            assert any("[accounts.bad]" in one and wrong in one for one in said), said
            assert [account.name for account in accounts.accounts()] == ["good"]

    def test_a_path_with_events_alone_is_told_and_tried_since_napcat_gives_both_there(self) -> None:
        with configured(bot={"mode": "forward", "url": "ws://x:3001/event"}):
            assert [fault.what for fault in accounts.faults() if not fault.fatal] == [
                "has a url that ends in /event, where OneBot gives only events"
            ]
            assert [account.name for account in accounts.accounts()] == ["bot"]

    def test_two_that_nobody_can_tell_apart_are_named(self) -> None:
        with configured(one={"access_token": "t"}, two={"access_token": "t"}):
            assert [fault.account for fault in accounts.faults()] == ["two"]
            assert len(accounts.accounts()) == 2

    def test_the_doctor_hears_of_them(self) -> None:
        with configured(bad={"mode": "forward"}, open={}):
            found = list(checking.settings())
            assert [one.level for one in found] == ["fail", "risk"]

    def test_a_secret_may_come_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LUMIA_TEST_ONEBOT", "from outside")
        with configured(main={"access_token_env": "LUMIA_TEST_ONEBOT"}):
            assert admitted("1", "from outside") == "main"

    def test_the_only_account_sends_what_names_none(self) -> None:
        with configured(main={}):
            assert accounts.default() == "main"
        with configured(main={}, other={"self_id": "2"}):
            assert accounts.default() == ""

    def test_no_problem_tells_a_secret(self) -> None:
        with configured(one={"access_token": "s3cret-token", "mode": "x"}, two={"access_token": "s3cret-token"}):
            assert "s3cret" not in "".join(map(str, accounts.faults()))
            assert "s3cret" not in str(admit("1", "s3cret-tokem"))


def test_the_repository_folder_is_a_plugin() -> None:
    with Bot(ONEBOT):
        registered = [info for info in lumia.system.adapters.list() if info.id == "onebot"]
    assert [info.platform for info in registered] == ["qq"]
