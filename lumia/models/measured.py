"""What is measured of the embedding that comes with Lumia, shipped, so that no process has to embed 220 samples first.

`python -m lumia.models.measured` writes `measured.json` beside this file; `--check` only tells whether it is current.
It counts for one version of the model and for the samples it was made with; for others `calibration` and `leaning`
measure as they do for any model.
"""

from __future__ import annotations

import hashlib
import json
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lumia.models.calibration import Calibration, Scale
from lumia.models.kinds import CLOSED, OPEN
from lumia.models.known import EMBEDDED, EMBEDDED_PROVIDER
from lumia.models.leaning import Direction
from lumia.models.samples import UNRELATED

FILE = Path(__file__).with_name("measured.json")
INPUT_TYPES = ("query", "document")
_DIGITS = 7


def scale(model: str, input_type: str) -> Scale | None:
    """Return the shipped scale of `model`, None where there is none."""
    found = _of(model, input_type)
    if found is None:
        return None
    return Scale(model, int(found["dimension"]), Calibration(float(found["mean"]), float(found["std"])))


def direction(model: str, input_type: str) -> Direction | None:
    """Return the shipped direction of openness of `model`, None where there is none."""
    found = _of(model, input_type)
    return Direction(tuple(found["weights"]), float(found["offset"])) if found is not None else None


def samples() -> str:
    """Return the digest of the samples."""
    return hashlib.sha256(json.dumps([UNRELATED, OPEN, CLOSED], ensure_ascii=False).encode()).hexdigest()[:16]


def measure() -> dict[str, Any]:
    """Return what the installed model and the samples give, as the file holds it."""
    from lumia.models import calibration, embedded, leaning

    found: dict[str, Any] = {"model": EMBEDDED, "version": _version(), "samples": samples()}
    for input_type in INPUT_TYPES:

        def embed(texts: Any, query: bool = input_type == "query") -> list[list[float]]:
            return embedded.embed(texts, query=query)

        scaled, open_way = calibration.measure(EMBEDDED, embed), leaning.measure(embed)
        assert open_way is not None, "the model that is shipped tells the samples apart"
        found[input_type] = {
            "dimension": scaled.dimension, "mean": scaled.calibration.mean, "std": scaled.calibration.std,
            "offset": round(open_way.offset, _DIGITS), "weights": [round(one, _DIGITS) for one in open_way.weights],
        }  # fmt: skip
    return found


def _of(model: str, input_type: str) -> dict[str, Any] | None:
    if model != EMBEDDED:
        return None
    known = _shipped()
    return known.get(input_type) if known else None


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Any]:
    """Return the file's content, empty when it is not about the installed model and these samples."""
    try:
        found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if (found.get("version"), found.get("samples")) == (_version(), samples()) else {}


def _version() -> str:
    try:
        return version(EMBEDDED_PROVIDER)
    except PackageNotFoundError:
        return ""


def main(arguments: list[str]) -> int:
    """Write or check the file; return the exit code."""
    if "--check" in arguments:
        if _shipped():
            return 0
        sys.stderr.write(f"{FILE.name} is not current; run `python -m lumia.models.measured`\n")
        return 1
    FILE.write_text(json.dumps(measure()) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
