"""manifest.json: what is accepted, and that every refusal says where and why (spec §7.2)."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lumia.errors import ManifestError
from lumia.manifest import MAX_BYTES, Manifest, hyphenated, load_manifest, underscored

SPEC_EXAMPLE = """{
  "name": "heartflow",
  "display_name": "HeartFlow Main Responder",
  "description": "Multi-layer cognitive filter + heartflow LLM reply plugin",
  "author": "yourname",
  "license": "MIT",

  "main": "plugin.py",
  "min_core_version": "0.2.0",

  "dependencies": {
    "memory-graph": ">=0.2.0",
    "persona-loader": ">=0.1.0"
  },
  "provides": ["response"],
  "unique": ["response"],

  "source": {
    "type": "git",
    "url": "https://github.com/yourname/heartflow"
  },

  "config_schema": "config-schema.toml",
  "closed_source": false
}"""


def written(folder: Path, content: str | bytes) -> Path:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    (folder / "manifest.json").write_bytes(data)
    return folder


def refusal(folder: Path, content: str | bytes | dict[str, Any]) -> ManifestError:
    text = json.dumps(content) if isinstance(content, dict) else content
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(folder, text))
    assert str(folder / "manifest.json") in str(caught.value)
    assert caught.value.file == str(folder / "manifest.json")
    return caught.value


def test_the_example_of_the_specification_is_read(tmp_path: Path) -> None:
    manifest = load_manifest(written(tmp_path, SPEC_EXAMPLE))
    assert manifest.name == "heartflow"
    assert manifest.dependencies == {"memory-graph": ">=0.2.0", "persona-loader": ">=0.1.0"}
    assert manifest.provides == manifest.unique == ("response",)
    assert manifest.source is not None
    assert manifest.source.url == "https://github.com/yourname/heartflow"
    assert (manifest.main, manifest.min_core_version, manifest.closed_source) == ("plugin.py", "0.2.0", False)


def test_a_name_is_all_a_manifest_needs(tmp_path: Path) -> None:
    manifest = load_manifest(written(tmp_path, '{"name": "echo"}'))
    assert manifest == Manifest(name="echo", main="plugin.py")
    assert manifest.dependencies == {}
    assert not manifest.gateway


def test_the_additions_to_the_specification_are_read(tmp_path: Path) -> None:
    content = {
        "name": "memory-graph",
        "main": "plugin.pyc",
        "gateway": True,
        "commands": {"memory": "Look into the memory", "memory export": "Write it to a file"},
        "queues": ["heavy"],
        "permissions": ["mcp"],
    }
    manifest = load_manifest(written(tmp_path, json.dumps(content)))
    assert manifest.gateway
    assert list(manifest.commands) == ["memory", "memory export"]
    assert (manifest.queues, manifest.permissions) == (("heavy",), ("mcp",))
    content = {"name": "apart", "isolation": "process", "limits": {"memory_mb": 256, "seconds": 3}}
    manifest = load_manifest(written(tmp_path, json.dumps(content)))
    assert manifest.isolation == "process" and manifest.limits is not None
    assert (manifest.limits.memory_mb, manifest.limits.seconds, manifest.limits.concurrency) == (256, 3.0, 1)


def test_keys_of_an_authors_own_start_with_x(tmp_path: Path) -> None:
    content = {"name": "echo", "x-team": ["a"], "source": {"url": "ssh://git@host/echo", "x-branch": "main"}}
    manifest = load_manifest(written(tmp_path, json.dumps(content)))
    assert manifest.source is not None
    assert manifest.source.type == "git"


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    assert load_manifest(written(tmp_path, b'\xef\xbb\xbf{"name": "echo"}')).name == "echo"


def test_a_manifest_cannot_be_changed(tmp_path: Path) -> None:
    manifest = load_manifest(written(tmp_path, '{"name": "echo"}'))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(manifest, "name", "other")  # noqa: B010 (the type checker would refuse the plain assignment)


@pytest.mark.parametrize(
    "key, meant",
    [("dependancies", "dependencies"), ("min_core", "min_core_version"), ("provide", "provides")],
)
def test_an_unknown_key_is_answered_with_the_closest_one(tmp_path: Path, key: str, meant: str) -> None:
    error = refusal(tmp_path, {"name": "echo", key: "0.2.0"})
    assert f"unknown field {key!r}; did you mean {meant!r}?" in str(error)
    assert "x-" in str(error)


def test_an_unknown_key_like_no_other_is_to_be_removed(tmp_path: Path) -> None:
    assert "unknown field 'zzzz'; remove it" in str(refusal(tmp_path, {"name": "echo", "zzzz": 1}))


def test_an_unknown_key_of_the_source_is_compared_with_the_keys_of_a_source(tmp_path: Path) -> None:
    content = {"name": "echo", "source": {"url": "https://host/echo", "typ": "git"}}
    assert "unknown field 'source.typ'; did you mean 'type'?" in str(refusal(tmp_path, content))


def test_a_version_is_refused_because_the_tag_is_the_version(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"name": "echo", "version": "1.0.0"})
    assert "remove the field 'version'" in str(error)
    assert "git tag v1.2.3" in str(error)


def test_every_wrong_field_is_named_at_once(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"gateway": "yes", "dependencies": {"memory-graph": "^1.2"}, "unique": ["a", 3]})
    for part in ("'name' is missing", "'gateway'", "'dependencies.memory-graph'", "'>=0.2.0'", "'unique.1'"):
        assert part in str(error)


@pytest.mark.parametrize(
    "field, value, part",
    [
        ("name", "memory_graph", "single hyphens"),
        ("name", "Echo", "a-z"),
        ("name", "3d", "starting with a letter"),
        ("name", "a--b", "single hyphens"),
        ("name", "a" * 65, "at most 64"),
        ("name", "еcho", "no plugin name"),  # a Cyrillic е
        ("name", "class", "reserved"),
        ("name", "lumia", "reserved"),
        ("name", 7, "valid string"),
        ("main", "../evil/plugin.py", "'plugin.py' or 'plugin.pyc'"),
        ("main", "sub/plugin.py", "in the plugin's folder"),
        ("min_core_version", "new", "'0.2.0'"),
        ("dependencies", {"Memory": ""}, "no plugin name"),
        ("dependencies", {"memory": "*"}, "no version range"),
        ("dependencies", ["memory"], "valid dictionary"),
        ("provides", "response", "valid tuple"),
        ("provides", [""], "no name"),
        ("source", {"type": "svn", "url": "https://host/x"}, "'source.type'"),
        ("source", {"url": "--upload-pack=evil"}, "no git URL"),
        ("source", {"url": "ext::sh -c evil"}, "no git URL"),
        ("config_schema", "../secrets.toml", "inside the plugin's folder"),
        ("config_schema", "/etc/passwd", "inside the plugin's folder"),
        ("config_schema", "C:\\schema.toml", "inside the plugin's folder"),
        ("commands", {"Send!": "help"}, "no command name"),
        ("closed_source", 1, "valid boolean"),
        ("isolation", "thread", "'process'"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(tmp_path: Path, field: str, value: Any, part: str) -> None:
    error = refusal(tmp_path, {"name": "echo", field: value})
    assert f"'{field}" in str(error)
    assert part in str(error)


@pytest.mark.parametrize(
    "content, line, part",
    [
        ('{\n  "name": "echo",\n}', 3, "line 3, column 1"),
        ("", 1, "line 1, column 1"),
        ('{"name": "ec\0ho"}', 1, "Invalid control character"),
        ('{"name": "echo"} x', 1, "Extra data"),
        ('["echo"]', None, "a manifest is a JSON object"),
        ('{"name": "echo", "name": "other"}', None, "'name' is given twice"),
        ('{"name": "echo", "x-size": NaN}', None, "NaN is no JSON"),
        ('{"name": "echo", "x-size": ' + "9" * 5000 + "}", None, "digits"),
        ("[" * 200_000, None, "nested too deeply"),
        ('{"name": "echo", "description": "a\\u0000b"}', None, "'description' holds the invisible character U+0000"),
        ('{"name": "echo", "author": "\\ud800"}', None, "U+D800"),
        ('{"name": "echo", "commands": {"a": "\\u001b[2J"}}', None, "'commands.a' holds the invisible"),
        ('{"name": "echo", "provides": ["\\u202e"]}', None, "'provides[0]' holds the invisible"),
        (b"\xff\xfe{\x00}\x00", None, "not UTF-8 at byte 0"),
        (b" " * (MAX_BYTES + 1), None, f"at most {MAX_BYTES}"),
    ],
)
def test_what_is_no_proper_json_is_refused_with_its_place(
    tmp_path: Path, content: str | bytes, line: int | None, part: str
) -> None:
    error = refusal(tmp_path, content)
    assert part in str(error)
    assert error.line == line


def test_texts_in_other_scripts_are_fine(tmp_path: Path) -> None:
    content = {"name": "echo", "display_name": "回声　插件", "description": "Ünïcode 👩‍💻"}
    assert load_manifest(written(tmp_path, json.dumps(content))).display_name == "回声　插件"


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"manifest\.json: can't be read: No such file"):
        load_manifest(tmp_path)


def test_a_folder_in_the_manifests_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(ManifestError, match="no ordinary file"):
        load_manifest(tmp_path)


def test_something_that_is_no_mapping_is_no_manifest() -> None:
    with pytest.raises(ValidationError, match="valid dictionary"):
        Manifest.model_validate("echo")


def test_names_are_spelled_with_hyphens_outside_and_underscores_inside() -> None:
    assert underscored("memory-graph") == "memory_graph"
    assert hyphenated("memory_graph") == "memory-graph"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([*Manifest.model_fields, "x-own", "versions"])


# The first draw of a text builds Unicode tables, which a busy machine takes a second for.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(FIELDS, JSON))
def test_whatever_the_file_holds_the_answer_is_a_manifest_or_a_manifest_error(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    with contextlib.suppress(ManifestError):
        assert load_manifest(written(folder, json.dumps(content))).name == content["name"]


@given(st.binary())
def test_any_bytes_are_answered_with_a_manifest_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    with pytest.raises(ManifestError):
        load_manifest(written(tmp_path_factory.getbasetemp(), content))
