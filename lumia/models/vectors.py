"""The offline embedding: hashed words and character trigrams, so texts that share wording lie near each other.

It knows no meaning: `car` and `automobile` are far apart. It is the same on every machine, in every process.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

from lumia.models.messages import clean
from lumia.models.words import fold, words

DIMENSIONS = 256
_LONGEST = 8000
_NOTHING = "\x00nothing"


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return a vector of 256 numbers and length 1 per text.

    A text without a single letter or digit gets a fixed unit vector of its own, since a zero vector has no direction
    and pgvector's cosine distance of it is not a number.
    """
    return [_vector(clean(text)[:_LONGEST]) for text in texts]


def _vector(text: str) -> list[float]:
    vector = [0.0] * DIMENSIONS
    counted = Counter(_features(text)) or Counter([(_NOTHING, 1.0)])
    for (feature, weight), count in counted.items():
        index, sign = _place(feature)
        vector[index] += sign * weight * math.sqrt(count)
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else _vector("")


def _features(text: str) -> Iterator[tuple[str, float]]:
    telling = words(text)
    for word in telling:
        yield word, 1.0
        padded = f"<{word}>"
        for start in range(len(padded) - 2):
            yield padded[start : start + 3], 0.3
    if not telling:  # only common words or signs: compare those rather than nothing
        for word in fold(text).split():
            yield f"common {word}", 0.5


@lru_cache(20_000)
def _place(feature: str) -> tuple[int, int]:
    digest = blake2b(feature.encode(), digest_size=4).digest()
    return int.from_bytes(digest[:2], "little") % DIMENSIONS, 1 if digest[2] & 1 else -1
