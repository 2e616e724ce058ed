"""Delivering one send: each message to the platform is an effect, and what became of the send is counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lumia import payloads, system
from lumia.adapters import receipts, sends
from lumia.adapters.receipts import Receipt
from lumia.adapters.sends import FAILED, HELD, REJECTED, RETRYING, SENT, UNKNOWN, Send
from lumia.box import Box
from lumia.context import StepContext, here
from lumia.effects import effect
from lumia.errors import EffectError, NotDoneError, PayloadError, RejectedError, RetryAfterError, UnknownSendError
from lumia.flow import PERMANENT
from lumia.journal import described
from lumia.marks import Retry

RETRY = Retry(attempts=12, backoff=1.0, max_delay=120.0)
"""How a delivery is tried again: for about ten minutes, then it is a dead letter."""
MAX_NONCE = 25


class Outgoing:
    """A send as its delivery sees it.

    action: send, edit or delete. thread, reply_to, message_id: None where there is none; message_id is what an edit or
    a delete is about. segments: always there; a plain text is one segment. run_id: of the run tree that said it.
    """

    def __init__(self, call: Mapping[str, Any], policy: str) -> None:
        said: Mapping[str, Any] = call["send"]
        self.send_id: str = call["send_id"]
        self.adapter: str = call["adapter"]
        self.account: str = call["account"]
        self.platform: str = call["platform"]
        self.action: str = call["action"]
        self.kind: str = call["kind"]
        self.chat: str = call["chat"]
        self.thread: str | None = call.get("thread")
        self.run_id: str = call.get("run_id") or ""
        self.reply_to: str | None = said.get("reply_to")
        self.message_id: str | None = said.get("message_id")
        self.text = "" if self.action == "delete" else payloads.text_of(said)
        self.segments: list[dict[str, Any]] = said.get("segments") or (
            [{"type": "text", "data": {"text": self.text}}] if self.text else []
        )
        self.policy = policy
        self.receipts: list[Receipt] = []
        self.unsure: Exception | None = None

    @property
    def where(self) -> str:
        """Return the chat as people read it."""
        return f"{self.kind} {self.chat} by {self.adapter}/{self.account}"

    def nonce(self, n: int = 0) -> str:
        """Return at most 25 characters that name part `n` of this send, the same at every try."""
        text = f"{self.send_id}.{n}"
        return text if len(text) <= MAX_NONCE else hashlib.sha256(text.encode()).hexdigest()[:MAX_NONCE]

    def part(self, n: int, call: Callable[..., Mapping[str, Any]], *args: Any) -> Receipt | None:
        """Send one message by `call(*args)`, which returns {"message_id": …}; a retry does not send it again.

        Returns its receipt, None where the call gave no message id. A `NotDoneError` says that nothing was sent, and so
        does a `PayloadError`: what can't be asked for is found out before it is asked. After any other error nobody
        knows: with the policy `hold` that is an `UnknownSendError`, else it is tried again.
        """
        try:
            result = effect(f"{self.action} {n}", self._called, n, call, args, policy=self.policy, kind="send")
        except UnknownSendError as error:
            raise UnknownSendError(f"may have arrived in {self.where}: {error}") from error
        except Exception as error:
            if error is self.unsure and self.policy == "hold":
                raise UnknownSendError(
                    f"may have arrived in {self.where}: {described(error)}; see `lumia effects list`"
                ) from error
            raise
        return self._receipt(n, result)

    def _called(self, n: int, call: Callable[..., Mapping[str, Any]], args: tuple[Any, ...]) -> Mapping[str, Any]:
        try:
            return call(*args)
        except NotDoneError:
            raise
        except PayloadError as error:
            raise RejectedError(str(error)) from error
        except Exception as error:
            self.unsure = error
            raise

    def _receipt(self, n: int, result: Any) -> Receipt | None:
        message_id = result.get("message_id") if isinstance(result, Mapping) else None
        if message_id in (None, ""):
            return None
        receipt = Receipt(
            self.platform, self.account, self.kind, self.chat, str(message_id), self.send_id, n, self.reply_to or "",
            self.thread or "", self.run_id, round(system.now(), 3),
        )  # fmt: skip
        self.receipts.append(receipt)
        return receipt


@contextmanager
def delivering(content: Box[Any], policy: str = "hold") -> Iterator[Outgoing]:
    """Give the send of `<adapter>.send` for a block; leaving it keeps the receipts and counts what became of the send.

    policy: what follows when a call's outcome is unknown: `hold` it for an operator, or `retry` it.
    """
    out = Outgoing(content.into(), policy)
    try:
        yield out
    except Exception as error:
        _settle(out, _state_after(error, out, here()), described(error), failed=True)
        raise
    _settle(out, SENT, "", failed=False)


def _settle(out: Outgoing, state: str, why: str, *, failed: bool) -> None:
    if out.action != "send":
        return
    now, step = system.now(), here()
    before = sends.find(out.send_id)
    send = before or Send(out.send_id, out.adapter, out.account, out.platform, out.kind, out.chat)
    after, ops = sends.moved(send, state, _cleaned(why, step), now, fresh=before is None)
    if failed and step is not None:
        ops.append(sends.named(after, step.claim.ledger.rpartition("/")[0]))
    if state != RETRYING:
        ops += [receipts.kept(one) for one in out.receipts]
    sends.write(ops, failed=failed)


def _cleaned(why: str, step: StepContext | None) -> str:
    if not why or step is None:
        return why
    from lumia.redaction import cleaned_error

    return cleaned_error(why, step.runtime.redact)[:500]


def _state_after(error: Exception, out: Outgoing, step: StepContext | None) -> str:
    if isinstance(error, EffectError):
        return HELD
    if isinstance(error, PERMANENT):
        return REJECTED
    last = step is None or step.claim.tries >= step.step.retry.attempts
    if isinstance(error, RetryAfterError) or not last:
        return RETRYING
    return UNKNOWN if error is out.unsure else FAILED
