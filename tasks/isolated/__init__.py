"""Isolated plugins on Celery: a worker per plugin, which executes its steps in child processes (docs/isolation.md)."""
