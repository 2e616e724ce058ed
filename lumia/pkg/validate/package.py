"""What can be said of a plugin from its manifest and its files, before any code is read (spec §7.2–7.3)."""

from __future__ import annotations

import os
from pathlib import Path

from lumia.errors import ManifestError
from lumia.manifest import DEFAULT_SCHEMA_FILE, MANIFEST_FILE, Manifest, load_manifest
from lumia.pkg.validate.finding import Finding, finding


def check_manifest(folder: Path) -> tuple[Manifest | None, list[Finding]]:
    """Return the manifest, None when it can't be used, and what is wrong with it and the files it names."""
    try:
        manifest = load_manifest(folder)
    except ManifestError as error:
        message = str(error).removeprefix(f"{folder / MANIFEST_FILE}: ")
        return None, [finding("LUM001", MANIFEST_FILE, error.line or 1, message)]
    return manifest, [*_entry(folder, manifest), *_settings(folder, manifest)]


def _entry(folder: Path, manifest: Manifest) -> list[Finding]:
    entry = folder / manifest.main
    if not entry.is_file():
        text = f"the manifest's main is {manifest.main!r}, which isn't in the plugin's folder"
        return [finding("LUM002", MANIFEST_FILE, line_of(folder, '"main"'), text)]
    if entry.suffix == ".pyc" and os.path.lexists(entry.with_suffix(".py")):
        text = "the manifest's main is 'plugin.pyc', but plugin.py is there too and would be imported; remove one"
        return [finding("LUM002", MANIFEST_FILE, line_of(folder, '"main"'), text)]
    return []


def _settings(folder: Path, manifest: Manifest) -> list[Finding]:
    named = manifest.config_schema
    if named and not (folder / named).is_file():
        text = f"the manifest names config_schema {named!r}, which isn't in the plugin's folder; write it, or say none"
        return [finding("LUM002", MANIFEST_FILE, line_of(folder, '"config_schema"'), text)]
    return []


def schema_file(folder: Path, manifest: Manifest | None) -> Path:
    """Return where the plugin's settings are described; there may be no such file."""
    return folder / ((manifest.config_schema if manifest else None) or DEFAULT_SCHEMA_FILE)


def line_of(folder: Path, text: str) -> int:
    """Return the line of the manifest that holds `text`, 1 when none does."""
    try:
        lines = (folder / MANIFEST_FILE).read_text("utf-8", "replace").splitlines()
    except OSError:
        return 1
    return next((number for number, line in enumerate(lines, 1) if text in line), 1)
