"""Charts are well-formed XML whose lengths and positions follow the figures."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from bench.svg import Bar, bars, lines, shown

NS = {"s": "http://www.w3.org/2000/svg"}


def test_a_bar_twice_as_high_is_twice_as_long() -> None:
    root = ET.fromstring(bars("Title", "unit", [Bar("a", 10, 9, 12), Bar("b", 5, 5, 5, ours=True)]))
    widths = [float(rect.attrib["width"]) for rect in root.findall("s:rect", NS)[1:]]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)


def test_labels_are_escaped() -> None:
    root = ET.fromstring(bars("a < b & c", "µs", [Bar("<peer>", 1, 1, 1)]))
    assert "<peer>" in [text.text for text in root.findall("s:text", NS)]
    assert root.findtext("s:title", namespaces=NS) == "a < b & c"


def test_a_line_chart_steps_by_powers_of_ten() -> None:
    root = ET.fromstring(lines("Title", "unit", {"cost": [(1, 5), (10, 5), (100, 10)]}))
    x, y = zip(*((float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.findall("s:circle", NS)), strict=True)
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)
    assert y[0] == y[1] > y[2]


def test_charts_of_nothing_and_of_zeros_are_drawn_all_the_same() -> None:
    for chart in (bars("t", "u", []), bars("t", "u", [Bar("a", 0, 0, 0)]), lines("t", "u", {}),
                  lines("t", "u", {"a": [(5, 0)]})):  # fmt: skip
        assert ET.fromstring(chart).tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize(
    "value, text",
    [(0, "0"), (0.01234, "0.0123"), (1.2345, "1.23"), (99.96, "100.0"), (837.6, "838"), (12345.6, "12,346")],
)
def test_figures_are_shown_with_three_digits_that_count(value: float, text: str) -> None:
    assert shown(value) == text
