"""Candidates as one packed value: hundreds of rows come in a fraction of the time that reading each takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .decay import DAY, HALF_LIFE_GROWTH, INSTANCE_HALF_LIFE_DAYS, MAX_HALF_LIFE_DAYS

NEIGHBOURS = 1
"""Turns before and after each that come along."""
PACKED = """
string_agg(int8send(i.number) || int8send(i.seq) || int4send(i.scope_id) || timestamptz_send(i.created_at)
    || timestamptz_send(i.last_accessed) || int4send(i.access_count) || float8send(i.relevance_score)
    || float8send(i.importance) || float8send(1 - (i.content_embedding <=> %(whitened)b)) || int4send(i.length)
    || int4send(CASE WHEN right(rtrim(right(i.content, 20)), 1) IN ('?', '？', '؟') THEN 1 ELSE 0 END
        + CASE WHEN i.sender = ANY(%(named)s::text[]) THEN 2 ELSE 0 END
        + CASE WHEN i.sender = %(asker)s::text THEN 4 ELSE 0 END), ''::bytea)
"""
"""SQL of the rows of memory_instances, `i`, as `unpacked` reads them."""
AROUND = f"""
pool CROSS JOIN LATERAL (SELECT * FROM memory_instances WHERE scope_id = pool.scope_id
    AND seq BETWEEN pool.seq - {NEIGHBOURS} AND pool.seq + {NEIGHBOURS} LIMIT {2 * NEIGHBOURS + 1}) i
"""
"""SQL of the rows of `pool` (scope_id, seq) with their neighbours, `i`; some come more than once. The limit takes
nothing away: it keeps the planner from reading the whole table."""
_ROW = np.dtype(
    [("number", ">i8"), ("seq", ">i8"), ("scope", ">i4"), ("created", ">i8"), ("accessed", ">i8"), ("uses", ">i4"),
     ("relevance", ">f8"), ("importance", ">f8"), ("cosine", ">f8"), ("length", ">i4"), ("flags", ">i4")]
)  # fmt: skip
_EPOCH = 946_684_800.0
"""Postgres counts microseconds since 2000."""
_QUESTION, _NAMED, _ASKER = 1, 2, 4


class Unpacked:
    """Rows of `PACKED`, each once, in the order of their numbers; columns as arrays."""

    def __init__(self, *packed: bytes | None) -> None:
        rows = np.frombuffer(b"".join(one for one in packed if one), _ROW)
        self.number, first = np.unique(rows["number"].astype(np.int64), return_index=True)
        rows = rows[first]
        self.seq: NDArray[np.int64] = rows["seq"].astype(np.int64)
        self.scope: NDArray[np.int64] = rows["scope"].astype(np.int64)
        self.cosine: NDArray[np.float64] = rows["cosine"].astype(np.float64)
        self.length: NDArray[np.int64] = rows["length"].astype(np.int64)
        self.importance: NDArray[np.float64] = rows["importance"].astype(np.float64)
        self.time: NDArray[np.float64] = _EPOCH + rows["created"] / 1e6
        flags = rows["flags"]
        self.question: NDArray[np.bool_] = (flags & _QUESTION) != 0
        self.named: NDArray[np.bool_] = (flags & _NAMED) != 0
        self.asker: NDArray[np.bool_] = (flags & _ASKER) != 0
        self._rows: Any = rows

    def strength(self, now: float) -> NDArray[np.float64]:
        """Return what is left of each instance's relevance: it halves in a week, more slowly the more often it was
        used."""
        days = np.maximum(0.0, now - (_EPOCH + self._rows["accessed"] / 1e6)) / DAY
        half_life = np.minimum(
            MAX_HALF_LIFE_DAYS, INSTANCE_HALF_LIFE_DAYS * HALF_LIFE_GROWTH ** self._rows["uses"].astype(float)
        )
        found: NDArray[np.float64] = self._rows["relevance"] * 0.5 ** (days / half_life)
        return np.clip(found, 0.0, 1.0)
