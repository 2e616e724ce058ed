"""Huey as its guide sets it up: RedisHuey (blocking pop), a pipeline by `then`, no results since nobody reads them.

Huey has no acknowledgement: what a killed worker was executing is gone. Retries are for exceptions only.
"""

from __future__ import annotations

from typing import Any

from huey import RedisHuey
from redis import Redis

from bench.peers import load

huey: Any = RedisHuey("bench", url=load.URL, results=False)
_redis: Any = Redis.from_url(load.URL)


def _stage(number: int) -> Any:
    def stage(content: load.Content) -> tuple[load.Content]:
        if number == 3:
            _redis.incr(load.DONE)
            if "n" in content:
                _redis.publish(load.ENDED, content["n"])
        return (content,)  # a dictionary would become the next stage's keyword arguments

    stage.__module__ = "bench.peers.huey_app"  # part of a task's name, and "__main__" in the load program
    return huey.task(name=f"stage{number}")(stage)


STAGES = [_stage(number) for number in range(4)]


def send(content: load.Content) -> str:
    """Publish one message."""
    first, *others = STAGES
    task = first.s(content)
    for stage in others:
        task = task.then(stage)
    huey.enqueue(task)
    return content.get("n", "")


if __name__ == "__main__":
    load.main(send)
