"""Executing one step in a process of its own: a step that was lost with its workers may be what killed them.

The worker claims the step, hands the claim to `python -m tasks.alone` and waits. The child commits with the claim's
token; when it dies instead, the worker commits that as a failed try. So the steps beside it are safe, and the next
death has its cause in the dead letter. A fork would be quicker, but not safe in a process with threads.
"""

from __future__ import annotations

import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from signal import Signals
from typing import IO, Any

from lumia import paths
from lumia.dead import Failure
from lumia.errors import StaleClaimError
from lumia.executor import StepListener
from lumia.journal import JournalEntry
from lumia.ports import Claim, Commit, Limits, StepRecord
from lumia.routes import Plan, PlanStep
from lumia.runtime import Runtime, open_bot
from tasks.queues import PRIVATE_PREFIX
from tasks.wire import ALONE_AFTER, ALONE_START_SECONDS, CLAIM_MARGIN_SECONDS

PAUSE_SECONDS = 1.0
"""When a step that has to wait for its turn to be alone is looked at again."""
CLOSE_SECONDS = 2.0
"""How long a child may take to unload its plugins."""
_BEGUN = b"begun\n"


class Alone:
    """Executes steps in processes of their own, one at a time for each worker process."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def wants(self, claim: Claim, limits: Limits) -> bool:
        """Tell whether `claim` is to be executed so; what needs this very process, or is given up, is not."""
        private = claim.plan.steps[claim.step].queue.startswith(PRIVATE_PREFIX)
        return ALONE_AFTER <= claim.losses < limits.max_losses and not private and not claim.arc

    def execute(self, bot: Runtime, claim: Claim, listener: StepListener) -> None:
        """Execute `claim` in a process of its own, or hand it back while another one is."""
        if not self._turn.acquire(blocking=False):
            _hand_back(bot, claim)
            return
        try:
            _executed(bot, claim, listener)
        finally:
            self._turn.release()


def _hand_back(bot: Runtime, claim: Claim) -> None:
    handler = claim.plan.steps[claim.step].handler
    entry = JournalEntry("step", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, handler)
    try:
        bot.transport.commit(
            claim, Commit("handback", StepRecord(handler, "handback"), entry, delay=PAUSE_SECONDS, free=True)
        )
    except StaleClaimError as error:
        bot.log.warning("discarded a stale result: %s", error)


def _executed(bot: Runtime, claim: Claim, listener: StepListener) -> None:
    step = claim.plan.steps[claim.step]
    bot.log.warning("run %s: %s was lost %d times, so it is executed alone", claim.run_id, step.handler, claim.losses)
    listener.started(claim, step)
    began = time.monotonic()
    told, ending = _told(bot, claim, step)
    seconds = time.monotonic() - began
    if told is None:
        bot.executor.fail(claim, f"{step.handler} {ending}, executed alone after it was lost {claim.losses} times",
                          seconds, listener)  # fmt: skip
    else:
        listener.ended(claim, step, told["outcome"], told["error"], seconds)


def _told(bot: Runtime, claim: Claim, step: PlanStep) -> tuple[dict[str, str] | None, str]:
    """Return what the child told of the step, or None and how it ended."""
    env = {**os.environ, "LUMIA_ROOT": str(bot.root)}
    child = subprocess.Popen([sys.executable, "-m", "tasks.alone"], cwd=paths.base(), env=env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, bufsize=0, start_new_session=True)  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    told, hung = b"", False
    try:
        with suppress(BrokenPipeError):
            child.stdin.write(dump(claim).encode() + b"\n")
            if _line(child.stdout, ALONE_START_SECONDS) == _BEGUN:
                told = _line(child.stdout, (step.timeout or bot.limits.step_timeout) + CLAIM_MARGIN_SECONDS)
        hung = not _ended(child) and not told
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
    return (json.loads(told), "") if told.endswith(b"\n") else (None, "hung" if hung else _ending(child.returncode))


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Wait for a child that has told all it had to tell; what is hung does not end."""
    try:
        child.wait(CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _ending(code: int) -> str:
    if code < 0:
        return f"killed its process ({Signals(-code).name})"
    return f"ended its process with exit code {code}"


def _line(pipe: IO[bytes], seconds: float) -> bytes:
    """Return the next line, empty when there is none within `seconds` or any more."""
    ready, _, _ = select.select([pipe], [], [], seconds)
    return pipe.readline() if ready else b""


def dump(claim: Claim) -> str:
    """Return a claim as JSON."""
    packed = {**asdict(replace(claim, failures=())), "plan": claim.plan.text}
    return json.dumps({**packed, "failures": [failure.packed() for failure in claim.failures]})


def load(text: str | bytes) -> Claim:
    """Return the claim that `dump` wrote."""
    data = json.loads(text)
    failures = tuple(map(Failure.unpacked, data.pop("failures")))
    return Claim(**{**data, "plan": Plan.parse(data["plan"]), "failures": failures})


# --- the child


class _Heard(StepListener):
    told: dict[str, str] | None = None

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        self.told = {"outcome": outcome, "error": error}


def main() -> None:
    """Execute the one step whose claim is on stdin."""
    tell = _teller()
    source = sys.stdin.buffer
    claim = load(source.readline())
    threading.Thread(target=_end_with_parent, args=(source,), daemon=True).start()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s alone: %(message)s")
    bot = open_bot(load="all")
    bot.limits = replace(bot.limits, fuse=False, batch=1)
    heard = _Heard()
    with bot.activated():
        tell(_BEGUN)
        bot.executor.process(claim, heard)
        tell(json.dumps(heard.told or {"outcome": "handback", "error": ""}).encode() + b"\n")
    bot.close()


def _teller() -> Callable[[bytes], Any]:
    """Keep stdout for what the parent is told; what handlers print goes to stderr."""
    own = os.dup(1)
    os.dup2(2, 1)
    return lambda line: os.write(own, line)


def _end_with_parent(source: IO[bytes]) -> None:
    source.read()
    os._exit(1)


if __name__ == "__main__":
    main()
