"""The Bot API server of the tests, with python-telegram-bot as its client: it is right if a stranger's client works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import httpx
import pytest
import telegram
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, RetryAfter, TimedOut
from telegram.request import HTTPXRequest

from tests.peers.telegram import Fault, TelegramServer
from tests.peers.telegram_chats import ANN, GROUP
from tests.support.wait import until

T = TypeVar("T")


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    with TelegramServer() as running:
        yield running


def using(server: TelegramServer, work: Callable[[telegram.Bot], Awaitable[T]], token: str = "") -> T:
    """Run `work` with a client of that library."""

    async def run() -> T:
        request = HTTPXRequest(httpx_kwargs={"trust_env": False})
        polling = HTTPXRequest(httpx_kwargs={"trust_env": False})
        base, files = f"{server.url}/bot", f"{server.url}/file/bot"
        bot = telegram.Bot(token or server.token, base, files, request, polling)
        async with bot:
            return await work(bot)

    return asyncio.run(run())


def test_a_client_learns_who_it_is_and_a_wrong_token_is_told(server: TelegramServer) -> None:
    async def me(bot: telegram.Bot) -> telegram.User:
        return await bot.get_me()

    found = using(server, me)
    assert (found.username, found.can_read_all_group_messages) == ("lumia_bot", False)
    with pytest.raises(InvalidToken):
        using(server, me, "123456789:AAwrongwrongwrongwrong")


def test_messages_are_sent_quoted_edited_and_taken_back(server: TelegramServer) -> None:
    asked = server.say("hello", chat=GROUP)["message"]

    async def work(bot: telegram.Bot) -> None:
        entities = [telegram.MessageEntity("bold", 3, 2)]
        made = await bot.send_message(GROUP["id"], "😀 hi @ann_lee", entities=entities, reply_parameters=
                                      telegram.ReplyParameters(asked["message_id"]))  # fmt: skip
        assert made.reply_to_message is not None and made.reply_to_message.text == "hello"
        assert {entity.type: text for entity, text in made.parse_entities().items()} == {
            "bold": "hi", "mention": "@ann_lee"}  # fmt: skip
        edited = await bot.edit_message_text("other", GROUP["id"], made.message_id)
        assert isinstance(edited, telegram.Message) and edited.text == "other"
        with pytest.raises(BadRequest, match="not modified"):
            await bot.edit_message_text("other", GROUP["id"], made.message_id)
        assert await bot.delete_message(GROUP["id"], made.message_id)
        with pytest.raises(BadRequest, match="not found"):
            await bot.delete_message(GROUP["id"], made.message_id)

    using(server, work)
    assert server.sent == []


@pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")
def test_what_telegram_refuses_is_refused(server: TelegramServer) -> None:
    server.chats.blocked.add(ANN["id"])
    new = server.migrate(-45)
    server.script("sendMessage", Fault.flood(7))

    async def work(bot: telegram.Bot) -> None:
        with pytest.raises(RetryAfter) as flood:
            await bot.send_message(-1, "x")
        assert "7" in str(flood.value)
        with pytest.raises(Forbidden, match="blocked"):
            await bot.send_message(ANN["id"], "x")
        with pytest.raises(ChatMigrated) as moved:
            await bot.send_message(-45, "x")
        assert moved.value.new_chat_id == new
        for text, why in (("x" * 4097, "too long"), (" ", "empty")):
            with pytest.raises(BadRequest, match=why):
                await bot.send_message(-1, text)
        with pytest.raises(BadRequest, match=r"(?i)can't parse entities"):
            await bot.send_message(-1, "x", entities=[telegram.MessageEntity("bold", 0, 2)])
        with pytest.raises(BadRequest, match="thread not found"):
            await bot.send_message(-1, "x", message_thread_id=5)
        with pytest.raises(BadRequest, match=r"(?i)chat not found"):
            await bot.send_message("@nobody", "x")

    using(server, work)


def test_files_go_there_and_back(server: TelegramServer) -> None:
    file_id = server.file(b"\x89PNG...", "photos/file_1.png")

    async def work(bot: telegram.Bot) -> None:
        made = await bot.send_photo(-1, b"\x89PNG\r\n--x\r\n", caption="see", filename="a.png")
        assert (made.caption, len(made.photo)) == ("see", 2)
        file = await bot.get_file(file_id)
        assert bytes(await file.download_as_bytearray()) == b"\x89PNG..."

    using(server, work)
    assert server.of("sendPhoto")[0].files == {"photo": ("a.png", b"\x89PNG\r\n--x\r\n")}


def test_polling_confirms_by_the_offset_and_a_second_poller_ends_the_first(server: TelegramServer) -> None:
    first, second = server.say("one"), server.say("two")

    async def work(bot: telegram.Bot) -> None:
        found = await bot.get_updates(limit=1)
        assert [update.update_id for update in found] == [first["update_id"]]
        found = await bot.get_updates(offset=first["update_id"] + 1)
        assert [update.update_id for update in found] == [second["update_id"]]
        assert await bot.get_updates(offset=second["update_id"] + 1) == ()
        waiting = asyncio.create_task(bot.get_updates(offset=second["update_id"] + 1, timeout=20))
        while len(server.of("getUpdates")) < 4:
            await asyncio.sleep(0.01)
        threading.Timer(0.05, server.say, ["three"]).start()
        assert [update.message.text for update in await waiting if update.message] == ["three"]
        beaten = asyncio.create_task(bot.get_updates(offset=2000, timeout=20))
        while len(server.of("getUpdates")) < 5:
            await asyncio.sleep(0.01)
        await bot.get_updates(offset=2000)
        with pytest.raises(Conflict):
            await beaten

    using(server, work)
    assert server.updates.confirmed == 2000


def test_a_call_that_gets_no_answer_may_have_worked(server: TelegramServer) -> None:
    server.script("sendMessage", Fault(cut="before"), Fault(cut="after"), Fault.garbage())

    async def work(bot: telegram.Bot) -> None:
        for _ in range(3):
            with pytest.raises((telegram.error.NetworkError, TimedOut)):
                await bot.send_message(-1, "x")

    using(server, work)
    assert server.texts == ["x"]


class Hook(ThreadingHTTPServer):
    """A webhook's other end: answers with the statuses it was told, then 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.statuses: list[int] = []
        self.got: list[tuple[str, bytes]] = []


class _Taking(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers["X-Telegram-Bot-Api-Secret-Token"], data))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


def test_a_webhook_gets_each_update_until_it_answers_2xx(server: TelegramServer) -> None:
    with Hook() as hook:
        thread = threading.Thread(target=hook.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        hook.statuses = [500, 503]

        async def work(bot: telegram.Bot) -> telegram.WebhookInfo:
            with pytest.raises(BadRequest, match=r"(?i)an https url"):
                await bot.set_webhook("http://example.org/")
            with pytest.raises(BadRequest, match="unallowed"):
                await bot.set_webhook("https://example.org/", secret_token="no good")
            await bot.set_webhook(f"http://127.0.0.1:{hook.server_port}/x", secret_token="s3cret")
            with pytest.raises(Conflict, match="webhook is active"):
                await bot.get_updates()
            update = server.say("hi")
            await asyncio.to_thread(until, lambda: update["update_id"] in server.updates.delivered)
            info = await bot.get_webhook_info()
            await bot.delete_webhook()
            return info

        info = using(server, work)
        hook.shutdown()
        thread.join()
    assert [secret for secret, _ in hook.got] == ["s3cret"] * 3
    assert info.pending_update_count == 0
    assert info.last_error_message == "Wrong response from the webhook: 503 Service Unavailable"


def test_it_knows_no_other_methods(server: TelegramServer) -> None:
    with httpx.Client(trust_env=False, base_url=server.url) as client:
        assert client.post(f"/bot{server.token}/makeTea").json()["error_code"] == 404
        assert client.post("/nothing").status_code == 404
