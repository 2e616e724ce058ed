"""Small sums, read by a parser of our own: no `eval`, exact fractions, bounded size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

_LONGEST = 60
_SUM = r"(?<![\w.])[-(\d][-+*/×÷().,\d\s]*[\d)](?![\w.]*\w)"
_OPERATION = r"[\d)]\s*[-+*/]\s*[-(]*\s*\d"
_DATE = r"\s*(?:\d{4}-\d{1,2}(?:-\d{1,2})?|\d{1,2}[-/]\d{1,2}[-/]\d{2,4})\s*"
_TOKEN = r"\d+(?:\.\d+)?|[-+*/()]"


def find(text: str) -> str | None:
    """Return the first sum in `text` (two numbers and a sign between them at least), or None."""
    for found in re.finditer(_SUM, text[:500]):
        written = found[0].replace("×", "*").replace("÷", "/").replace(",", "")
        if len(written) <= _LONGEST and re.search(_OPERATION, written) and not re.fullmatch(_DATE, written):
            return written
    return None


def work_out(written: str) -> str | None:
    """Return the value of a sum as text, or None when it has none (a division by zero, a missing bracket)."""
    try:
        value, rest = _terms(re.findall(_TOKEN, written))
    except (ZeroDivisionError, ValueError, IndexError):
        return None
    return None if rest else _written(value)


def _terms(tokens: list[str]) -> tuple[Fraction, list[str]]:
    value, tokens = _factors(tokens)
    while tokens and tokens[0] in "+-":
        right, rest = _factors(tokens[1:])
        value, tokens = (value + right if tokens[0] == "+" else value - right), rest
    return value, tokens


def _factors(tokens: list[str]) -> tuple[Fraction, list[str]]:
    value, tokens = _number(tokens)
    while tokens and tokens[0] in "*/":
        right, rest = _number(tokens[1:])
        value, tokens = (value * right if tokens[0] == "*" else value / right), rest
    return value, tokens


def _number(tokens: list[str]) -> tuple[Fraction, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first == "-":
        value, rest = _number(rest)
        return -value, rest
    if first != "(":
        from fractions import Fraction  # brings decimal with it: not for every greeting

        return Fraction(first), rest
    value, rest = _terms(rest)
    if rest[0] != ")":
        raise ValueError("a bracket is open")
    return value, rest[1:]


def _written(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.10g}"
