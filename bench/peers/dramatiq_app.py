"""Dramatiq as its guide sets it up: a Redis broker with the default middleware, a pipeline of four actors.

Acknowledgement after the actor, retries and dead letters are its defaults. The default retries of an actor stay on.
"""

from __future__ import annotations

from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers import load

broker: Any = RedisBroker(url=load.URL)
dramatiq.set_broker(broker)


def _stage(number: int) -> Any:
    def stage(content: load.Content) -> load.Content:
        if number == 3:
            broker.client.incr(load.DONE)
            if "n" in content:
                broker.client.publish(load.ENDED, content["n"])
        return content

    return dramatiq.actor(actor_name=f"stage{number}", queue_name="bench")(stage)


STAGES = [_stage(number) for number in range(4)]


def send(content: load.Content) -> str:
    """Publish one message."""
    first, *others = STAGES
    dramatiq.pipeline([first.message(content), *(stage.message() for stage in others)]).run()
    return content.get("n", "")


if __name__ == "__main__":
    load.main(send)
