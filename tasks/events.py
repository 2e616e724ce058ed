"""Task events for the steps that Celery does not see itself: the fused and the batched ones.

Celery reports the step whose message it delivered; the steps this process goes on with appear in Flower by these.
"""

from __future__ import annotations

import threading
from typing import Any

from lumia.executor import StepListener
from lumia.ports import Claim
from lumia.routes import PlanStep

_sending = threading.Lock()


class TaskEvents(StepListener):
    """Sends task-received, task-started and task-succeeded or -failed for every step but the delivered one."""

    def __init__(self, dispatcher: Any, delivered: Claim) -> None:
        self._dispatcher = dispatcher
        self._delivered = (delivered.run_id, delivered.step)
        self.failure = ""

    def started(self, claim: Claim, step: PlanStep) -> None:
        """Report a step that begins."""
        if self._silent(claim):
            return
        uuid = task_id(claim)
        self._send("task-received", uuid=uuid, name=step.handler, args=repr((claim.run_id, claim.step)), kwargs="{}",
                   root_id=claim.root_id, parent_id=None, retries=claim.attempt - 1)  # fmt: skip
        self._send("task-started", uuid=uuid)

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        """Report a step that has ended; the delivered one's failure is left for Celery to report."""
        if self._is_delivered(claim):
            self.failure = error
        elif not self._silent(claim):
            uuid = task_id(claim)
            if error:
                self._send("task-failed", uuid=uuid, exception=error.strip().splitlines()[-1], traceback=error)
            else:
                self._send("task-succeeded", uuid=uuid, result=repr(outcome), runtime=seconds)

    def _is_delivered(self, claim: Claim) -> bool:
        return (claim.run_id, claim.step) == self._delivered

    def _silent(self, claim: Claim) -> bool:
        return self._is_delivered(claim) or self._dispatcher is None or not self._dispatcher.enabled

    def _send(self, kind: str, **fields: Any) -> None:
        with _sending:
            self._dispatcher.send(kind, **fields)


def task_id(claim: Claim) -> str:
    """Return the id under which a step without a message of its own appears; each try has its own."""
    return f"{claim.run_id}.{claim.step}.t{claim.token}.{claim.attempt}"
