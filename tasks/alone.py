"""Executing one step in a process of its own: a step that was lost with its workers may be what killed them.

The worker claims the step, hands the claim to `python -m tasks.alone` and waits. The child commits with the claim's
token; when it dies instead, the worker commits that as a failed try; when it never came to begin, which is no fault of
the step, the worker hands the step back. So the steps beside it are safe, and the next death has its cause in the dead
letter. A fork would be quicker, but not safe in a process with threads.
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
from dataclasses import asdict, dataclass, replace
from signal import Signals
from typing import IO, Any

from lumia import paths
from lumia.dead import Failure
from lumia.executor import StepListener
from lumia.flow import Deferred
from lumia.marks import PRIVATE_PREFIX
from lumia.ports import Claim, Limits
from lumia.routes import Plan, PlanStep
from lumia.runtime import Runtime, open_bot
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
            bot.executor.put_back(claim, PAUSE_SECONDS)
            return
        try:
            _executed(bot, claim, listener)
        finally:
            self._turn.release()


@dataclass(frozen=True)
class _Seen:
    """What the parent saw of a child. told: its word on the step, None when it didn't live to give one.

    begun: whether it came to executing the step. ending: how it ended, as the rest of a sentence.
    """

    begun: bool
    told: dict[str, str] | None = None
    ending: str = ""


def _executed(bot: Runtime, claim: Claim, listener: StepListener) -> None:
    step = claim.plan.steps[claim.step]
    bot.log.warning("run %s: %s was lost %d times, so it is executed alone", claim.run_id, step.handler, claim.losses)
    listener.started(claim, step)
    began = time.monotonic()
    seen = _seen(bot, claim, step)
    seconds = time.monotonic() - began
    if seen.told is not None:
        listener.ended(claim, step, seen.told["outcome"], seen.told["error"], seconds)
    elif seen.begun:
        bot.executor.fail(claim, f"{step.handler} {seen.ending}, executed alone after it was lost {claim.losses} times",
                          seconds, listener)  # fmt: skip
    elif claim.handbacks < bot.limits.handbacks:
        bot.executor.hand_back(claim, _unbegun(step, seen))
        listener.ended(claim, step, "handback", "", seconds)
    else:
        why = f"{_unbegun(step, seen)}, handed back {claim.handbacks} times; see the worker's log for its output"
        bot.executor.fail(claim, why, seconds, listener)


def _unbegun(step: PlanStep, seen: _Seen) -> str:
    return f"the process that was to execute {step.handler} alone {seen.ending}"


def _seen(bot: Runtime, claim: Claim, step: PlanStep) -> _Seen:
    """Have a child execute the step."""
    env = {**os.environ, "LUMIA_ROOT": str(bot.root)}
    try:
        child = subprocess.Popen([sys.executable, "-m", "tasks.alone"], cwd=paths.base(), env=env,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                 start_new_session=True)  # fmt: skip
    except OSError as error:
        return _Seen(False, ending=f"could not be made ({error})")
    assert child.stdin is not None and child.stdout is not None
    told, begun, hung = b"", False, False
    try:
        with suppress(BrokenPipeError):
            child.stdin.write(dump(claim).encode() + b"\n")
            begun = _line(child.stdout, ALONE_START_SECONDS) == _BEGUN
            if begun:
                told = _line(child.stdout, (step.timeout or bot.limits.step_timeout) + CLAIM_MARGIN_SECONDS)
        hung = not _ended(child) and not told
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
    if told.endswith(b"\n"):
        return _Seen(True, json.loads(told))
    if hung:
        return _Seen(begun, ending="hung" if begun else f"did not begin within {ALONE_START_SECONDS:g} s")
    return _Seen(begun, ending=_ending(child.returncode) + ("" if begun else " before it began"))


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
    more = {"plan": Plan.parse(data["plan"]), "failures": failures, "deferred": Deferred(**data["deferred"])}
    return Claim(**{**data, **more})


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
