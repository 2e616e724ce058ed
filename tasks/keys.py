"""Names in Redis that more than one kind of process knows; docs/redis.md lists all keys.

It imports nothing, so that `lumia status` may look without loading what a worker needs.
"""

PREFIX = "lumia:"
"""Before every key but the queues' lists, which Celery names."""
FAILURES = "failures"
"""JSON list of sentences: the plugins that the newest worker could not load or start; absent when all work."""
WORKERS = "workers"
"""Sorted set of executing processes by last heartbeat in seconds of the server's clock."""
BEAT = "beat"
"""JSON `{"pid", "at"}`: the beat's sign of life."""
SERVING = "serving"
"""Sorted set `<process> <queue>` by last word in seconds: who takes messages from which queue."""
