"""One Celery worker that executes messages in its main thread, under cProfile when BENCH_PROFILE names a file.

Started by bench.profile. The solo pool shows the whole way of a message in one profile; the pool of a real worker
only hands the same work to another thread.
"""

from __future__ import annotations

import cProfile
import os
import sys
import time
from typing import Any

from celery import signals

from tasks.celery import app

FILE = os.environ.get("BENCH_PROFILE", "")
_profile = cProfile.Profile(time.thread_time)
"""Counts CPU time: by the clock, a send to Valkey would include what Valkey does on the same core meanwhile."""


@signals.worker_ready.connect
def _begin(**_: Any) -> None:
    if FILE:
        _profile.enable()


@signals.worker_shutting_down.connect
def _end(**_: Any) -> None:
    if FILE:
        _profile.disable()
        _profile.dump_stats(FILE)


if __name__ == "__main__":
    app.conf.worker_pool = "solo"
    events = ["-E"] if os.environ.get("BENCH_EVENTS") == "1" else []
    app.worker_main(["worker", "--loglevel", "WARNING", "--without-mingle", "--without-gossip", *events, *sys.argv[1:]])
