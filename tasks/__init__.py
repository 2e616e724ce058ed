"""Lumia on Celery and Redis: the only package that imports celery and redis.

Celery takes its working directory off the path again after importing the app, so the absolute base is put there here:
prefork children and late imports find `tasks`, `handlers` and `adapters` wherever the process was started.
"""

from __future__ import annotations

import sys
from pathlib import Path

BASE = str(Path(__file__).resolve().parent.parent)
if BASE not in sys.path:
    sys.path.insert(0, BASE)
