"""Links that anybody may follow stand nowhere that is kept, and the bot still follows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.errors import MediaError
from lumia.media.links import guarded, is_sealed, link, with_links
from lumia.secrets import unsigned
from lumia.testing import Bot

SIGNED = {
    "qq": "https://multimedia.nt.qq.com.cn/download?appid=1407&fileid=EhQx&rkey=CAISKAB6JWENi5LM_xp9vumLbuThJSaYf",
    "qq file": "https://1.ftn.qq.com/ftn_handler/0a1b2c3d4e5f60718293a4b5c6d7e8f9/?fname=a.zip",
    "discord": "https://cdn.discordapp.com/attachments/1/2/cat.png?ex=66f1&is=66f0&hm=0f3a9c1de2b4f5a6978812345678abcd&",
    "slack": "https://slack-files.com/T024BE7LD-F0S43PZDF-8004f909b1",
    "s3": "https://b.s3.amazonaws.com/a?X-Amz-Credential=AKIA1234%2Fx&X-Amz-Signature=9a8b7c6d5e4f30211203",
    "telegram": "https://api.telegram.org/file/bot1234567890:AAaaBBbbCCccDDddEEeeFFffGGggHHhhIIi/photos/file_1.jpg",
}
SECRET = {
    "qq": "CAISKAB6", "qq file": "0a1b2c3d", "discord": "0f3a9c1d", "slack": "8004f909", "s3": "9a8b7c6d",
    "telegram": "AAaaBBbb",
}  # fmt: skip


@pytest.mark.parametrize("which", SIGNED)
def test_the_signature_of_a_link_is_hidden_wherever_it_is_shown(which: str) -> None:
    url, secret = SIGNED[which], SECRET[which]
    for text in (url, f"can't get {url}.", f"[CQ:image,file=a,url={url.replace('&', '&amp;')}]"):
        assert secret not in str(lumia.secrets.redact(text)) and url.partition("?")[0][:24] in text
    shown = lumia.secrets.redact({"said": [url]})
    assert secret not in str(shown)


def test_links_without_a_signature_stay() -> None:
    plain = "see https://example.org/a?page=2&sort=desc&author=ann&signed=no#token, design=1 and x?rkey=1234567"
    assert unsigned(plain).startswith("see https://example.org/a?page=2&sort=desc&author=ann&signed=no#token, design=1")
    assert unsigned("rkey=1234567 is no link") == "rkey=1234567 is no link"


def message(url: str, *, text: str = "look") -> dict[str, object]:
    return lumia.payloads.message(
        platform="toy", account="main", chat={"kind": "group", "id": "7"}, sender={"id": "5"}, message_id="m1",
        media=[{"kind": "image", "url": url, "ref": url}, {"kind": "image", "url": "https://a.b/c.png", "ref": "f2"}],
        segments=[{"type": "text", "data": {"text": text}}, {"type": "onebot.mface", "data": {"url": url}}],
    )  # fmt: skip


@pytest.mark.parametrize("which", ["qq", "discord", "s3"])
def test_a_message_keeps_its_links_sealed_and_what_was_written_as_it_was(which: str) -> None:
    url = SIGNED[which]
    with Bot():
        before = message(url, text=url)
        msg, raw = guarded(before, {"content": [{"url": url}], "n": 1})
        assert SECRET[which] not in str([msg["media"], msg["segments"][1:], raw])
        assert msg["segments"][0]["data"]["text"] == url and before["media"][0]["url"] == url  # type: ignore[index]
        assert is_sealed(msg["media"][0]["url"]) and link(msg["media"][0]) == url
        assert with_links(msg["media"][0])["ref"] == url
        assert msg["media"][1] == {"kind": "image", "url": "https://a.b/c.png", "ref": "f2"}
        assert guarded(before)[0]["media"] == msg["media"], "the same file is known again"
        assert lumia.payloads.validate("msg", msg) == msg


def test_another_bot_can_not_follow_a_sealed_link() -> None:
    with Bot():
        msg, _ = guarded(message(SIGNED["qq"]))
    with Bot():
        item = dict(msg["media"][0], url=msg["media"][0]["url"][:-8] + "AAAAAAA=")
        with pytest.raises(MediaError, match="another bot"):
            link(item)


JSON = st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(JSON)
def test_data_without_links_are_the_same_object(value: object) -> None:
    if "://" not in str(value):
        assert lumia.media.unsigned_links(value) is value
