"""Task events for the steps that Celery does not see itself: the fused and the batched ones.

Celery reports the step whose message it delivered; the steps this process goes on with appear in Flower by these. They
are handed to Celery's dispatcher together when the message is done, because publishing them one by one would cost more
than executing the steps.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from celery.events.event import Event

from lumia.executor import StepListener
from lumia.ports import Claim
from lumia.routes import PlanStep

_sending = threading.Lock()
_UTC_OFFSET = -time.timezone // 3600


class TaskEvents(StepListener):
    """Collects task-received, task-started and task-succeeded or -failed of every step but the delivered one."""

    def __init__(self, dispatcher: Any, delivered: Claim) -> None:
        self._dispatcher = dispatcher
        self._delivered = (delivered.run_id, delivered.step)
        self._events: list[dict[str, Any]] = []
        self.failure = ""

    def started(self, claim: Claim, step: PlanStep) -> None:
        """Note a step that begins."""
        if self._silent(claim):
            return
        uuid = task_id(claim)
        arguments = repr((claim.run_id, claim.step))
        self._note("task-received", uuid=uuid, name=step.handler, args=arguments, kwargs="{}", root_id=claim.root_id,
                   parent_id=None, retries=claim.attempt - 1, eta=None, expires=None)  # fmt: skip
        self._note("task-started", uuid=uuid)

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        """Note a step that has ended; the delivered one's failure is left for Celery to report."""
        if self._is_delivered(claim):
            self.failure = error
        elif not self._silent(claim):
            uuid = task_id(claim)
            if error:
                self._note("task-failed", uuid=uuid, exception=error.strip().splitlines()[-1], traceback=error)
            else:
                self._note("task-succeeded", uuid=uuid, result=repr(outcome), runtime=seconds)

    def send(self) -> None:
        """Hand everything noted to Celery's dispatcher, which publishes it in one message."""
        if not self._events:
            return
        dispatcher = self._dispatcher
        with _sending:
            for event in self._events:
                event["clock"] = dispatcher.clock.forward()
            if "task" in dispatcher.buffer_group and dispatcher.on_send_buffered:
                dispatcher._group_buffer["task"].extend(self._events)
                dispatcher.on_send_buffered()
            else:
                dispatcher._publish(self._events, dispatcher.producer, "task.multi")

    def _is_delivered(self, claim: Claim) -> bool:
        return (claim.run_id, claim.step) == self._delivered

    def _silent(self, claim: Claim) -> bool:
        return self._is_delivered(claim) or self._dispatcher is None or not self._dispatcher.enabled

    def _note(self, kind: str, **fields: Any) -> None:
        dispatcher = self._dispatcher
        self._events.append(
            Event(kind, hostname=dispatcher.hostname, utcoffset=_UTC_OFFSET, pid=dispatcher.pid, **fields)
        )


def task_id(claim: Claim) -> str:
    """Return the id under which a step without a message of its own appears; each try has its own."""
    return f"{claim.run_id}.{claim.step}.t{claim.token}.{claim.attempt}"
