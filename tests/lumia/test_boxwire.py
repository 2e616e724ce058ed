"""How a Box travels: exactness of JSON, copies by dill, signatures, damage, meta and sizes."""

from __future__ import annotations

import base64
import collections
import datetime as dt
import decimal
import enum
import hashlib
import hmac
import importlib
import io
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lumia.box import Box, limit, set_limit
from lumia.boxwire import GENERATION, burst, generation_of, joined
from lumia.errors import BoxError, BoxSignatureError, BoxTooLargeError, BoxTypeError

SECRET = b"s" * 32

any_text = st.text(st.characters(exclude_categories=()))  # NUL and lone surrogates included
json_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
json_values = st.recursive(
    json_scalars, lambda inner: st.lists(inner) | st.dictionaries(any_text, inner), max_leaves=20
)
dill_values = st.recursive(
    json_scalars | st.binary() | st.complex_numbers(allow_nan=False) | st.fractions() | st.datetimes() | st.uuids(),
    lambda inner: st.tuples(inner, inner) | st.lists(inner) | st.dictionaries(st.integers() | any_text, inner),
    max_leaves=10,
)


class Colour(enum.IntEnum):
    RED = 1


class Loud(str):
    __slots__ = ()


class Pair(collections.namedtuple("Pair", "a b")):
    __slots__ = ()


@dataclass
class Point:
    x: int
    tags: list[str] = field(default_factory=list)


class Stubborn:
    """Can be written and never read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("not a number",)


def same(left: object, right: object) -> bool:
    """Equal in value and in every type inside."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        pairs = zip(left.items(), right.items(), strict=False)
        return len(left) == len(right) and all(same(a, b) for a, b in pairs)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right) if isinstance(left, float) else left == right


def travelled(box: Box[Any]) -> Box[Any]:
    wire = box.dump(SECRET)
    return Box.load(wire.encode().decode(), SECRET)  # as through Redis


@given(json_values)
@example("\ud83d\ude00")
@example({"\ud83d\ude00": "\ud83d", "\x00": "\x00"})
@example(["\ude00\ud83d", -0.0, 10**400, True, 1, 1.0])
def test_a_json_value_comes_back_exactly(value: Any) -> None:
    box = Box.any(value)
    assert same(box.into(), value)
    assert same(travelled(box).into(), value)


@given(dill_values)
def test_any_copyable_value_comes_back_exactly(value: Any) -> None:
    box = Box.any(value)
    assert not box.is_arc
    assert same(box.into(), value)
    assert same(travelled(box).into(), value)


@given(json_values, st.dictionaries(st.text(), json_values))
def test_meta_comes_back_exactly(value: Any, meta: dict[str, Any]) -> None:
    try:
        box = Box.any(value, meta=meta)
    except BoxError:
        # the one thing JSON can't carry: a high and a low surrogate that are two characters in Python
        assert not same(json.loads(json.dumps(meta)), meta)
        return
    assert same(travelled(box).meta, meta)
    assert same(box.clone().meta, meta)


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 1.5, -0.0, "", "\ud800", "小明", "\x00", [], {}, [[1, {"a": None}]], {"a": 10**500}],
    ids=ascii,
)
def test_json_exact_values_travel_as_json(value: Any) -> None:
    box = Box.any(value)
    assert box.transport == "json"
    assert json.loads(box.dump(b"")) == {"j": value}
    assert box.inner_type() is travelled(box).inner_type() is type(value)


@pytest.mark.parametrize(
    "value",
    [
        (1, 2), {1: "a"}, {None: 1}, {"a": {1}}, float("inf"), Colour.RED, Loud("x"), [Loud("x")], {Loud("k"): 1},
        b"bytes", Pair(1, 2), "\ud83d\ude00", collections.OrderedDict(a=1), collections.Counter("aab"), 10**5000,
        decimal.Decimal("1.0"), dt.date(2026, 1, 1), Point(1, ["a"]), [[(1,)]], {"deep": [{"er": {2}}]},
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_json_would_change_travel_as_dill(value: Any) -> None:
    box = Box.any(value)
    assert box.transport == "dill"
    assert same(travelled(box).into(), value)
    assert box.inner_type() is travelled(box).inner_type() is type(value)


def test_nan_stays_a_nan() -> None:
    assert str(travelled(Box.any({"score": float("nan")})).into()) == "{'score': nan}"


def test_a_list_that_holds_itself_is_copied_with_its_shape() -> None:
    knot: list[Any] = [1]
    knot.append(knot)
    copy = travelled(Box.any(knot)).into()
    assert copy[1] is copy
    assert copy is not knot


def test_a_stream_in_memory_is_a_value_with_its_position() -> None:
    stream = io.BytesIO(b"abcdef")
    stream.seek(2)
    box = Box.any(stream)
    assert (box.transport, travelled(box).into().read()) == ("dill", b"cdef")


def test_nesting_too_deep_to_copy_is_refused_with_the_way_out() -> None:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(BoxError, match=r"nested too deeply.*make it flatter"):
        Box.any(value)


def test_what_can_be_written_but_not_read_is_no_copy() -> None:
    box = Box.any(Stubborn())
    assert box.is_arc


def test_the_box_keeps_what_it_was_given_when_the_original_changes() -> None:
    for value in ({"a": [1]}, {"a": [1], "b": (2,)}):
        box = Box.any(value)
        value["a"].append(2)  # type: ignore[attr-defined]
        assert box.into()["a"] == [1]


def test_every_into_gives_a_copy_of_its_own() -> None:
    for value in ({"a": [1]}, {"a": [1], "b": (2,)}):
        box = Box.any(value)
        box.into()["a"].append(2)  # type: ignore[attr-defined]
        assert box.into()["a"] == [1]
        assert box.into() is not box.into()
        assert box.clone().into() is not box.clone().into()


def test_the_wire_of_json_is_compact_and_readable() -> None:
    assert Box.any({"text": "小明", "n": [1, 2]}).dump(SECRET) == '{"j":{"text":"小明","n":[1,2]}}'
    assert Box.any("a", meta={"account": "1"}).dump(SECRET) == '{"j":"a","m":{"account":"1"}}'


def test_the_wire_of_dill_names_the_class_and_carries_a_signature_over_everything_else() -> None:
    wire = Box.any(Point(1), meta={"account": "1"}).dump(SECRET)
    fields = json.loads(wire)
    assert list(fields) == ["d", "t", "m", "s"]
    assert fields["t"] == f"{__name__}.Point"
    signed = wire[: wire.index(',"s":')].encode()
    assert fields["s"] == hmac.new(SECRET, b"lumia.box.dill.v1\0" + signed, hashlib.sha256).hexdigest()
    assert b"Point" in base64.b64decode(fields["d"])


@given(st.data())
def test_any_changed_byte_of_signed_dill_is_refused(data: st.DataObject) -> None:
    wire = Box.any((1, "a"), meta={"account": "é"}).dump(SECRET).encode()
    place = data.draw(st.integers(0, len(wire) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != wire[place]))
    changed = (wire[:place] + bytes([other]) + wire[place + 1 :]).decode("utf-8", "surrogateescape")
    with pytest.raises(BoxError):
        Box.load(changed, SECRET)


@pytest.mark.parametrize("cut", [0, 1, 10, 70, -1])
def test_a_shortened_or_lengthened_dill_box_is_refused(cut: int) -> None:
    wire = Box.any((1,)).dump(SECRET)
    for changed in (wire[:cut], wire + wire[:cut] + " ", "\ud800" + wire):
        with pytest.raises(BoxError):
            Box.load(changed, SECRET)


KNOT: dict[str, Any] = {}
KNOT["a"] = KNOT


class Bomb:
    went_off: list[str] = []  # noqa: RUF012

    def __reduce__(self) -> tuple[Any, ...]:
        return self.went_off.append, ("boom",)


def test_foreign_dill_is_refused_before_any_of_its_code_runs() -> None:
    wire = Box.any((Bomb,)).dump(b"another bot's secret")
    Bomb.went_off.clear()
    with pytest.raises(BoxSignatureError, match=r"signed with this bot's secret.*same key"):
        Box.load(wire, SECRET)
    assert Bomb.went_off == []


def test_load_verifies_and_only_into_rebuilds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone_plugin.py").write_text("class Thing: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    wire = Box.any(importlib.import_module("gone_plugin").Thing()).dump(SECRET)
    del sys.modules["gone_plugin"].Thing
    box = Box.load(wire, SECRET)
    assert repr(box) == "<Box dill gone_plugin.Thing>"
    with pytest.raises(BoxTypeError, match=r"gone_plugin.Thing that can't be rebuilt here \(AttributeError"):
        box.into()
    with pytest.raises(BoxTypeError):
        box.inner_type()
    sys.modules.pop("gone_plugin")


def test_an_empty_secret_neither_signs_nor_verifies() -> None:
    with pytest.raises(BoxSignatureError, match="needs the bot's secret"):
        Box.any((1,)).dump(b"")
    head = '{"d":"","t":"tuple"'
    seal = hmac.new(b"", b"lumia.box.dill.v1\0" + head.encode(), hashlib.sha256).hexdigest()
    with pytest.raises(BoxSignatureError):
        Box.load(f'{head},"s":"{seal}"}}', b"")


@pytest.mark.parametrize(
    "wire",
    [
        '{"j":', '{"j":}', '{"j":1', '{"j":1}}', '{"j":1,"d":"x"}', '{"j":1,"m":[]}', '{"j":1,"m":{}', '{"j":NaN}',
        '{"j":[Infinity]}', '{"j":1,"m":{"a":NaN}}', '{"j":1,"m":{}} ', '{"j":"\x00"}', '{"j":' + "[" * 100_000,
    ],
    ids=lambda wire: ascii(wire[:20]),
)  # fmt: skip
def test_a_damaged_json_box_is_refused(wire: str) -> None:
    with pytest.raises(BoxError, match="can't be read back"):
        Box.load(wire, SECRET)


@pytest.mark.parametrize("wire", ["", "null", "{}", "5", '"j"', '{"d":"gASVAA=="}', "\ud800", '{ "j":1}'], ids=ascii)
def test_what_is_no_box_is_refused(wire: str) -> None:
    with pytest.raises(BoxSignatureError, match="neither plain JSON nor dill"):
        Box.load(wire, SECRET)


@pytest.mark.parametrize(
    "meta,place",
    [
        ({"a": (1,)}, r"meta\['a'\] is a tuple"),
        ({1: "a"}, "the key 1 of meta is a int, which JSON can't carry exactly there"),
        ({"a": [{"b": {2}}]}, r"meta\['a'\]\[0\]\['b'\] is a set"),
        ({"a": ["ok", float("nan")]}, r"meta\['a'\]\[1\] is a float"),
        ({"x": 1, "a": "\ud83d\ude00"}, r"meta\['a'\] is a str, which JSON can't carry"),
        ({"\ud83d\ude00": 1}, r"the key '.ud83d.ude00' of meta is a str, which JSON can't carry"),
        (KNOT, r"meta(\['a'\]){20} is nested too deeply"),
    ],
)
def test_meta_that_is_not_json_is_refused_by_its_place(meta: dict[Any, Any], place: str) -> None:
    with pytest.raises(BoxError, match=place):
        Box.any(1, meta=meta)
    box = Box.any(1)
    box.meta.update(meta)
    for passing in (lambda: box.dump(SECRET), box.clone):
        with pytest.raises(BoxError, match=place):
            passing()


def test_meta_that_is_no_dict_is_refused() -> None:
    with pytest.raises(BoxError, match="meta of a Box is a dict of JSON values, got a list"):
        Box.any(1, meta=["account"])  # type: ignore[arg-type]


def test_meta_of_a_clone_is_its_own() -> None:
    given: dict[str, Any] = {"seen": ["a"]}
    box = Box.any(1, meta=given)
    given["seen"].append("x")
    clone = box.clone()
    clone.meta["seen"].append("b")
    assert (box.meta, clone.meta) == ({"seen": ["a"]}, {"seen": ["a", "b"]})


@pytest.fixture
def small_limit() -> Iterator[None]:
    before = limit()
    set_limit(100)
    yield
    set_limit(before)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(
    "value",
    ["x" * 93, "小" * 31 + "xx", b"x" * 100, ["y"] * 24 + ["\ud800"]],
    ids=["ascii", "utf-8", "dill", "escaped"],
)
def test_a_box_over_the_limit_is_refused_with_size_limit_and_way_out(value: Any) -> None:
    set_limit(1000)
    size = len(Box.any(value).dump(SECRET).encode())
    set_limit(size - 1)
    with pytest.raises(BoxTooLargeError, match=rf"takes {size} bytes, more than {size - 1} .*lumia\.blobs"):
        Box.any(value)
    set_limit(size)
    Box.any(value)


@pytest.mark.usefixtures("small_limit")
def test_the_limit_is_the_wire_size_meta_included() -> None:
    fits = Box.any("x" * 92)
    assert len(fits.dump(SECRET)) == 100
    with pytest.raises(BoxTooLargeError):
        Box.any("x" * 92, meta={"a": 1})
    fits.meta["a"] = 1
    with pytest.raises(BoxTooLargeError):
        fits.dump(SECRET)


@given(dill_values | json_values, st.dictionaries(st.text("aé\0"), st.integers()))
def test_the_size_is_counted_exactly(value: Any, meta: dict[str, Any]) -> None:
    box = Box.any(value, meta=meta)
    text = json.dumps(meta, ensure_ascii=False, separators=(",", ":")) if meta else ""
    assert box._content.size(text) == len(box.dump(SECRET).encode())


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "1000"])
def test_a_limit_that_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(BoxError, match="max_bytes"):
        set_limit(size)
    assert limit() == 1 << 20


def test_an_instance_of_a_plugin_class_loads_in_another_process_that_can_import_it(tmp_path: Path) -> None:
    (tmp_path / "some_plugin.py").write_text("class Note:\n    def __init__(self, text): self.text = text\n")
    script = """
        import sys
        from lumia.box import Box
        if sys.argv[1] == "write":
            from some_plugin import Note
            print(Box.any(Note("kept")).dump(b"s" * 32))
        else:
            note = Box.load(sys.stdin.read().strip(), b"s" * 32).into()
            from some_plugin import Note
            print(type(note) is Note, note.text)
    """

    def run(mode: str, given: str = "", path: str = str(tmp_path)) -> subprocess.CompletedProcess[str]:
        folder = str(Path(__file__).parents[2])
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), mode], input=given, text=True, capture_output=True,
            env={"PYTHONPATH": f"{folder}:{path}"}, check=False,
        )  # fmt: skip

    wire = run("write").stdout
    assert json.loads(wire)["t"] == "some_plugin.Note"
    assert run("read", wire).stdout == "True kept\n"
    assert "BoxTypeError: a Box holds a some_plugin.Note" in run("read", wire, path="").stderr


def test_json_boxes_never_load_dill() -> None:
    script = (
        "import sys, lumia.box as b; x = b.Box.any({'a': [1, 'x']}, meta={'k': 1}); y = b.Box.load(x.dump(b's'), b's');"
        "y.expecting(dict, 'h').into(), y.clone(); b.Box.any(open('/dev/null')).drop(); b.Box.any([sys.stdout]);"
        "print([name for name in sys.modules if name.partition('.')[0] in ('dill', 'asyncio')])"
    )
    folder = Path(__file__).parents[2] / "lumia"
    bare = (
        f"import sys, types; m = types.ModuleType('lumia'); m.__path__ = [{str(folder)!r}]; sys.modules['lumia'] = m;"
    )
    ran = subprocess.run([sys.executable, "-c", bare + script], text=True, capture_output=True, check=True)
    assert ran.stdout == "[]\n"


class TestReload:
    """Instances made before a reload don't pass as the new class (DESIGN §3)."""

    @pytest.fixture
    def plugin(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        (tmp_path / "reloaded_plugin.py").write_text("class Thing:\n    size = 1\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        yield importlib.import_module("reloaded_plugin")
        sys.modules.pop("reloaded_plugin")

    def test_within_a_process_by_the_identity_of_the_class(self, plugin: Any) -> None:
        box = Box.any(plugin.Thing())
        assert box.expecting(plugin.Thing, "p.handle").into().size == 1
        importlib.reload(plugin)
        with pytest.raises(BoxTypeError, match=r"p\.handle.*an earlier version of reloaded_plugin\.Thing.*loaded anew"):
            box.expecting(plugin.Thing, "p.handle").into()
        assert Box.any(plugin.Thing()).expecting(plugin.Thing, "p.handle").into().size == 1

    def test_an_instance_older_than_its_module_has_a_class_of_its_own(self, plugin: Any) -> None:
        old = plugin.Thing()
        importlib.reload(plugin)
        with pytest.raises(BoxTypeError, match="both have this name but are different classes"):
            travelled(Box.any(old)).expecting(plugin.Thing, "p.handle").into()

    def test_between_processes_by_the_generation_of_the_plugin(self, plugin: Any) -> None:
        setattr(plugin, GENERATION, "7")
        wire = Box.any(plugin.Thing()).dump(SECRET)
        assert json.loads(wire)["g"] == "7"
        box = Box.load(wire, SECRET).expecting(plugin.Thing, "p.handle")
        assert box.into().size == 1
        setattr(plugin, GENERATION, "8")
        with pytest.raises(BoxTypeError, match=r"of generation 7, while this process runs generation 8"):
            box.into()

    def test_a_module_belongs_to_the_generation_of_its_package(self, plugin: Any) -> None:
        setattr(plugin, GENERATION, 3)
        assert generation_of("reloaded_plugin.models.inner") == "3"
        assert generation_of("builtins") == ""


@given(st.lists(st.tuples(json_values, st.dictionaries(any_text, json_scalars, max_size=3)), min_size=1, max_size=5))
def test_a_burst_is_one_box_with_the_list_of_all_contents(parts: list[tuple[Any, dict[str, Any]]]) -> None:
    boxes = [Box.any(value, meta=meta) for value, meta in parts]
    plain = [(box, value, meta) for box, (value, meta) in zip(boxes, parts, strict=True) if box.transport == "json"]
    if not plain:
        return
    first, *more = (box.dump(SECRET) for box, _, _ in plain)
    wire = burst(first)
    for one in more:
        wire = joined(wire, one)
    assert wire == burst(first, *more)
    found = Box.load(wire, SECRET)
    assert found.into() == [value for _, value, _ in plain]
    assert found.meta == {name: item for _, _, meta in plain for name, item in meta.items()}
    assert Box.load(found.dump(SECRET), SECRET).into() == found.into()


DAMAGED = ('{"c":[]}', '{"c":[{"j":1}', '{"c":[{"j":1}]}x', '{"c":[{"d":"x"}]}', '{"c":[{"j":1},]}', '{"c":[')


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_damaged_burst_is_named(damaged: str) -> None:
    with pytest.raises(BoxError, match="can't be read back"):
        Box.load(damaged, SECRET)
