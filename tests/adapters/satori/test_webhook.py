"""Posts of a Satori server: proven by their token, answered once stored; files on the way in."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import lumia
from lumia.gateway.settings import Settings
from tests.adapters.satori.conftest import SATORI, Seen, Start
from tests.peers.satori import META, Satori
from tests.support.gateway import served
from tests.support.wait import until

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
HOOK = {"mode": "webhook", "webhook_token": "h00k"}


def test_a_post_is_a_message_and_is_answered(satori: Satori, start: Start, seen: Seen) -> None:
    with start(**HOOK) as running:
        until(lambda: lumia.adapters.account("satori", "main").state == "listening")
        event, url = satori.say("hello, quote me"), f"{running.url}/satori/main"
        for _ in range(2):
            assert satori.post(url, "h00k", event).status_code == 204
        seen.wait(1)
        until(lambda: satori.messages["12"])
        assert satori.messages["12"][0]["content"] == '<quote id="m1"/>you said: hello, quote me'
        assert satori.post(url, "h00k", {"proxy_urls": []}, META).status_code == 204
        assert satori.post(url, "h00k", {}, 9).status_code == 204
    assert len(seen.all) == 1


def test_a_post_without_the_token_is_refused_and_counted(satori: Satori, start: Start, seen: Seen) -> None:
    with start(**HOOK) as running:
        event, url = satori.say("hello"), f"{running.url}/satori/main"
        assert satori.post(url, "t0ken", event).status_code == 403
        assert satori.post(url, "h00k2", event).status_code == 403
        assert running.client.post(url, json=event).status_code == 401
        assert satori.post(f"{running.url}/satori/nobody", "h00k", event).status_code == 404
        assert running.client.post(url, content=b"[", headers={"Authorization": "Bearer h00k"}).status_code == 400
        until(lambda: lumia.store.of("satori").get("refused", scope="main"))
    assert seen.all == []


def test_while_the_broker_is_away_nothing_is_accepted(satori: Satori, start: Start, seen: Seen) -> None:
    def away(*args: Any, **kwargs: Any) -> Any:
        raise lumia.errors.BackendUnavailableError("the broker is away")

    with start(**HOOK) as running, pytest.MonkeyPatch.context() as patched:
        event, url = satori.say("quiet"), f"{running.url}/satori/main"
        assert satori.post(url, "h00k", satori.say("quiet first")).status_code == 204
        patched.setattr(lumia.adapters, "submit", away)
        answer = satori.post(url, "h00k", event)
        assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (503, True)
        patched.undo()
        assert satori.post(url, "h00k", event).status_code == 204
        seen.wait(2)


def test_a_server_that_is_connected_to_takes_no_posts(satori: Satori, start: Start) -> None:
    with start(webhook_token="h00k") as running:
        assert satori.post(f"{running.url}/satori/main", "h00k", {}).status_code == 404


def test_files_are_fetched_before_the_message_goes_on(satori: Satori, start: Start, seen: Seen) -> None:
    satori.files["internal:mock/9/p"] = satori.files["https://hidden.example/q?at=a%2Fb&n=1"] = ("image/png", PNG)
    inline = base64.b64encode(PNG).decode()
    with start():
        satori.meta("https://hidden.example/")
        satori.say(content='<img src="internal:mock/9/p"/><img src="https://hidden.example/q?at=a%2Fb&amp;n=1"/>'
                           '<img src="internal:no"/>'
                           f'<img src="data:image/png;base64,{inline}"/><file src="internal:../../admin"/>'
                           f'<img src="{satori.url}/v1/proxy/internal:mock/9/p"/>quiet')  # fmt: skip
        (msg, _) = seen.wait(1)[0]
        satori.files["internal:mock/9/p"] = ("image/png", PNG + b"another")
        satori.say(content='<img src="internal:mock/9/p"/><img src="data:image/png;base64,!!"/>quiet')
        (later, _) = seen.wait(2)[1]
    assert later["media"][0]["blob"]["digest"] != msg["media"][0]["blob"]["digest"]
    assert "could not be stored" in later["media"][1]["error"]
    blobs = [one.get("blob") for one in msg["media"]]
    assert [bool(blob) for blob in blobs] == [True, True, False, True, False, False]
    assert blobs[0]["digest"] == blobs[1]["digest"] == blobs[3]["digest"]
    assert "leads out" in msg["media"][4]["error"]
    asked = [one for one in satori.asked if one.path.startswith("/v1/proxy/")]
    assert {one.headers.get("authorization") for one in asked} == {f"Bearer {satori.token}"} and len(asked) == 4


def test_wrong_settings_are_named_and_stop_no_other(caplog: Any) -> None:
    tables = {
        "typo": {"url": "ws://127.0.0.1"},
        "open": {"url": "http://127.0.0.1:1", "mode": "webhook"},
        "half": {"url": "http://127.0.0.1:1", "self_id": "1"},
        "good": {"url": "http://127.0.0.1:1", "enabled": False},
    }
    with served(SATORI, config={"satori": {"accounts": tables}}, settings=Settings(drain=1.0)):
        until(lambda: lumia.adapters.account("satori", "good").state == "disabled")
        states = {name: lumia.adapters.account("satori", name) for name in tables}
        assert {name for name, state in states.items() if state.state == "refused"} == {"typo", "open", "half"}
    for words in ("[accounts.typo] url is no", "[accounts.open] has no webhook_token", "[accounts.half] has a self_id"):
        assert words in caplog.text
