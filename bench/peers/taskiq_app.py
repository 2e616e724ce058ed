"""Taskiq with the broker its documentation advises for reliability: Redis streams, acknowledged, and its pipelines.

A message is acknowledged when its result is saved (the default), which is after the next stage was sent. The lock of
the recovery has a timeout: without one, a worker killed while holding it blocks recovery for good (taskiq-redis#131).
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis
from taskiq_pipelines import Pipeline, PipelineMiddleware
from taskiq_redis import RedisStreamBroker

from bench.peers import load

broker: Any = RedisStreamBroker(load.URL, queue_name="bench", unacknowledged_lock_timeout=10.0)
broker.add_middlewares(PipelineMiddleware())
_redis: Any = Redis.from_url(load.URL)


def _stage(number: int) -> Any:
    async def stage(content: load.Content) -> load.Content:
        if number == 3:
            await _redis.incr(load.DONE)
            if "n" in content:
                await _redis.publish(load.ENDED, content["n"])
        return content

    return broker.task(task_name=f"stage{number}")(stage)


STAGES = [_stage(number) for number in range(4)]


def main() -> None:
    """Run the load program on one event loop."""
    first, *others = STAGES
    pipeline: Any = Pipeline(broker, first)
    for stage in others:
        pipeline = pipeline.call_next(stage)
    with asyncio.Runner() as loop:

        def send(content: load.Content) -> str:
            loop.run(pipeline.kiq(content))
            return content.get("n", "")

        loop.run(broker.startup())  # declares the consumer group, so that what is sent before a worker is not missed
        load.main(send)
        loop.run(broker.shutdown())


if __name__ == "__main__":
    main()
