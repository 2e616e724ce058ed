"""Chats as the Bot API server keeps them: what people said, what the bot made, and what it refuses to make."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]
GROUP: dict[str, Any] = {"id": -1001234567890, "type": "supergroup", "title": "Tea room"}
ANN: dict[str, Any] = {"id": 7001, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann_lee"}
_FOUND = re.compile(
    r"(?P<mention>(?<!\w)@[A-Za-z]\w{3,31})|(?P<bot_command>(?<!\S)/\w+(?:@\w+)?)|(?P<url>https?://\S+)"
)
_MEDIA = ("photo", "document", "voice", "video", "audio", "animation", "sticker")
_OTHER = ("location", "venue", "contact", "poll", "dice")
_NOW = 1_790_000_000


class Refusal(Exception):
    """An answer with `ok: false`."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


def units(text: str) -> int:
    """Return the length in UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


class Chats:
    """Every message by chat and id. blocked: chats that refuse the bot; moved: groups that became supergroups."""

    def __init__(self, me: Mapping[str, Any]) -> None:
        self.me = me
        self.messages: dict[tuple[int, int], Message] = {}
        self.blocked: set[int] = set()
        self.moved: dict[int, int] = {}
        self.topics: set[int] = set()
        self.unparsable = ""
        self._made: list[tuple[int, int]] = []
        self._lock = threading.Lock()
        self._last = 100

    def made(self) -> list[Message]:
        """Return what the bot made and nobody deleted."""
        return [self.messages[key] for key in list(self._made) if key in self.messages]

    def said(
        self, text: str, chat: Mapping[str, Any] | None, sender: Mapping[str, Any] | None, **fields: Any
    ) -> Message:
        """Return a message of somebody, kept in its chat. A private chat unless one is given."""
        who = dict(sender or ANN)
        place = dict(chat) if chat else {"id": who["id"], "type": "private", "first_name": who["first_name"]}
        return self._kept(place, {"from": who, **({"text": text, **_entities(text)} if text else {}), **fields})

    def _kept(self, chat: dict[str, Any], fields: Mapping[str, Any]) -> Message:
        with self._lock:
            self._last += 1
            message = {"message_id": self._last, "date": _NOW + self._last, "chat": chat, **fields}
            self.messages[chat["id"], message["message_id"]] = message
            return message

    def migrate(self, old: int) -> tuple[int, Message, Message]:
        """Move a group; returns its new id and the service messages of both chats."""
        new = -1_000_000_000_000 - abs(old)
        self.moved[old] = new
        before = self._kept({"id": old, "type": "group", "title": "Tea"}, {"from": ANN, "migrate_to_chat_id": new})
        after = self._kept(
            {"id": new, "type": "supergroup", "title": "Tea"}, {"from": ANN, "migrate_from_chat_id": old}
        )
        return new, before, after

    # --- methods of the Bot API

    def sendmessage(self, params: Mapping[str, Any], _: Any) -> Message:
        """Make a text message."""
        text = str(params.get("text", ""))
        entities = self._checked(
            text, params.get("entities") or (), 4096, "message text is empty", "message is too long"
        )
        return self._send(params, {"text": text, **entities})

    def _checked(self, text: str, entities: Any, limit: int, empty: str, long: str) -> dict[str, Any]:
        if empty and not text.strip():
            raise Refusal(400, f"Bad Request: {empty}")
        if units(text) > limit:
            raise Refusal(400, f"Bad Request: {long}")
        if self.unparsable and self.unparsable in text and entities:
            raise Refusal(400, "Bad Request: can't parse entities: this server was told so")
        given = list(entities)
        for entity in given:
            if entity["offset"] < 0 or entity["length"] < 1 or entity["offset"] + entity["length"] > units(text):
                raise Refusal(400, "Bad Request: can't parse entities: out of the text")
        found = _entities(text).get("entities", [])
        taken = {(entity["offset"], entity["type"]) for entity in given}
        every = given + [entity for entity in found if (entity["offset"], entity["type"]) not in taken]
        return {"entities": sorted(every, key=lambda one: (one["offset"], -one["length"]))} if every else {}

    def _send(self, params: Mapping[str, Any], content: Mapping[str, Any]) -> Message:
        chat = self._chat(params.get("chat_id"))
        thread = params.get("message_thread_id")
        if thread is not None and thread not in self.topics:
            raise Refusal(400, "Bad Request: message thread not found")
        topic: dict[str, Any] = {"message_thread_id": thread, "is_topic_message": True} if thread else {}
        direct = params.get("direct_messages_topic_id")
        if bool(chat.get("is_direct_messages")) != (direct is not None):
            raise Refusal(400, "Bad Request: a topic of direct messages is named where there are none, or the reverse")
        topic |= {"direct_messages_topic": {"topic_id": direct}} if direct is not None else {}
        message = self._kept(chat, {"from": dict(self.me), **self._answered(chat, params), **content, **topic})
        self._made.append((chat["id"], message["message_id"]))
        return message

    def _chat(self, given: Any) -> dict[str, Any]:
        chat_id = int(given) if isinstance(given, int) or str(given).lstrip("-").isdigit() else 0
        if not chat_id:
            raise Refusal(400, "Bad Request: chat not found")
        if chat_id in self.moved:
            raise Refusal(400, "Bad Request: group chat was upgraded to a supergroup chat",
                          migrate_to_chat_id=self.moved[chat_id])  # fmt: skip
        if chat_id in self.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        known = [message["chat"] for (place, _), message in self.messages.items() if place == chat_id]
        kind = "private" if chat_id > 0 else "supergroup" if chat_id <= -1_000_000_000_000 else "group"
        name = {"first_name": "Ann"} if chat_id > 0 else {"title": "Tea room"}
        return dict(known[-1]) if known else {"id": chat_id, "type": kind, **name}

    def _answered(self, chat: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
        reply = params.get("reply_parameters") or {}
        if not reply:
            return {}
        found = self.messages.get((chat["id"], reply["message_id"]))
        if found is None and not reply.get("allow_sending_without_reply"):
            raise Refusal(400, "Bad Request: message to be replied not found")
        return {"reply_to_message": {k: v for k, v in found.items() if k != "reply_to_message"}} if found else {}

    def _file(self, kind: str, params: Mapping[str, Any], files: Mapping[str, tuple[str, bytes]]) -> Message:
        given = files.get(kind)
        if given is None and not params.get(kind):
            raise Refusal(400, f"Bad Request: there is no {kind} in the request")
        size = len(given[1]) if given else 0
        if size > (10 if kind == "photo" else 50) * 1024 * 1024:
            raise Refusal(413, "Request Entity Too Large")
        caption = str(params.get("caption", ""))
        entities = self._checked(caption, params.get("caption_entities") or (), 1024, "", "message caption is too long")
        about = {"file_id": str(params.get(kind) or f"sent-{size}"), "file_unique_id": "u1", "file_size": size}
        shape = {"width": 90, "height": 90, "duration": 1, "is_animated": False, "is_video": False, "type": "regular"}
        item: Any = [{**about, "width": 9, "height": 9}, {**about, **shape}] if kind == "photo" else {**about, **shape}
        said = {"caption": caption} if caption else {}
        return self._send(params, {kind: item, **said,
                                   **({"caption_entities": entities["entities"]} if entities else {})})  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        kind = name.removeprefix("send")
        if name.startswith("send") and kind in _MEDIA:
            return lambda params, files: self._file(kind, params, files)
        if name.startswith("send") and kind in _OTHER:
            return lambda params, files: self._send(params, {kind: _item(kind, params)})
        raise AttributeError(name)

    def editmessagetext(self, params: Mapping[str, Any], _: Any) -> Message:
        """Change a text of the bot."""
        message = self._mine(params, "edit")
        if "text" not in message:
            raise Refusal(400, "Bad Request: there is no text in the message to edit")
        text = str(params.get("text", ""))
        entities = self._checked(text, params.get("entities") or (), 4096, "message text is empty", "MESSAGE_TOO_LONG")
        if message.get("text") == text and message.get("entities", []) == entities.get("entities", []):
            raise Refusal(400, "Bad Request: message is not modified: specified new message content and reply markup "
                               "are exactly the same as a current content and reply markup of the message")  # fmt: skip
        message.pop("entities", None)
        message.update({"text": text, "edit_date": _NOW, **entities})
        return message

    def editmessagecaption(self, params: Mapping[str, Any], _: Any) -> Message:
        """Change the caption of a file of the bot."""
        message, text = self._mine(params, "edit"), str(params.get("caption", ""))
        given = params.get("caption_entities") or ()
        entities = self._checked(text, given, 1024, "", "message caption is too long")
        message.pop("caption_entities", None)
        message.update({"caption": text, "edit_date": _NOW})
        message.update({"caption_entities": entities["entities"]} if entities else {})
        return message

    def deletemessage(self, params: Mapping[str, Any], _: Any) -> bool:
        """Take a message back."""
        message = self._mine(params, "delete")
        del self.messages[message["chat"]["id"], message["message_id"]]
        return True

    def _mine(self, params: Mapping[str, Any], what: str) -> Message:
        found = self.messages.get((self._chat(params.get("chat_id"))["id"], int(params.get("message_id") or 0)))
        if found is None:
            raise Refusal(400, f"Bad Request: message to {what} not found")
        if what == "edit" and found["from"]["id"] != self.me["id"]:
            raise Refusal(400, "Bad Request: message can't be edited")
        return found

    def sendchataction(self, params: Mapping[str, Any], _: Any) -> bool:
        """Show that the bot is at it."""
        return bool(self._chat(params.get("chat_id")))

    def answercallbackquery(self, params: Mapping[str, Any], _: Any) -> bool:
        """Take a button's answer."""
        if not params.get("callback_query_id"):
            raise Refusal(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        return True


def _item(kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
    about = {key: value for key, value in params.items() if key not in ("chat_id", "reply_parameters")}
    if kind == "poll":
        options = [{"text": one["text"], "voter_count": 0} for one in about["options"]]
        return {"id": "1", "is_anonymous": True, "total_voter_count": 0, "is_closed": False, "type": "regular",
                "allows_multiple_answers": False, **about, "options": options}  # fmt: skip
    if kind == "venue":
        return {"location": {key: about.pop(key) for key in ("latitude", "longitude")}, **about}
    return {"value": 4, **about} if kind == "dice" else about


def _entities(text: str) -> dict[str, Any]:
    """Return the entities that Telegram finds by itself."""
    found = [
        {"type": match.lastgroup, "offset": units(text[: match.start()]), "length": units(match[0])}
        for match in _FOUND.finditer(text)
    ]
    return {"entities": found} if found else {}
