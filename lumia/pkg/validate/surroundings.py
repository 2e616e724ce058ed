"""A plugin and its surroundings: other plugins, Python packages, services, settings."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from tomllib import TOMLDecodeError, loads

from lumia.finder import NAMESPACES
from lumia.manifest import Manifest, hyphenated
from lumia.pkg.validate.distributions import bringing, brought_by
from lumia.pkg.validate.finding import Finding, finding
from lumia.pkg.validate.frame import Frame, Run
from lumia.pkg.validate.package import schema_file
from lumia.pkg.validate.touching import touching
from lumia.pkg.validate.types import Lit, Ref, Type
from lumia.pkg.validate.world import Module, Package


def check_surroundings(run: Run, own: Package, manifest: Manifest | None, folder: Path) -> list[Finding]:
    """Return what is wrong between a plugin and what is around it."""
    found = [one for module in own.modules.values() if module.source.loaded for one in _module(run, module, manifest)]
    found += _services(run, manifest)
    found += _settings(run, own, manifest, folder)
    return found


def _module(run: Run, module: Module, manifest: Manifest | None) -> Iterator[Finding]:
    seen: set[str] = set()
    for node, optional in _imports(module.source.tree.body, False):
        for dotted in _dotted(node):
            space, _, rest = dotted.partition(".")
            name = rest.partition(".")[0]
            if optional or dotted in seen:
                continue
            seen.add(dotted)
            if space in NAMESPACES and name:
                yield from _plugin_import(module, node, space, name, manifest)
            elif manifest is not None and not _brought(module, space, manifest):
                text = (
                    f"neither Python nor Lumia brings {space!r}; name the package that does in the manifest: "
                    f'"python_dependencies": ["{bringing(space) or space}"]'
                )
                yield finding("LUM308", module.file, node.lineno, text)
    if "config" in module.source.text:
        yield from touching(run.world, module)


def _imports(body: list[ast.stmt], optional: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield the imports that Python makes when it loads the module; optional: those in a `try` or under a condition."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, optional
        elif isinstance(node, ast.Try):
            yield from _imports([*node.body, *node.orelse, *(one for each in node.handlers for one in each.body)], True)
        elif isinstance(node, (ast.If, ast.With)):
            yield from _imports([*node.body, *getattr(node, "orelse", [])], True)


def _dotted(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.level or not node.module:
        return []
    if node.module in NAMESPACES:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [node.module]


def _plugin_import(
    module: Module, node: ast.stmt, space: str, name: str, manifest: Manifest | None
) -> Iterator[Finding]:
    if name == module.package.name or manifest is None or hyphenated(name) in manifest.dependencies:
        return
    if space in ("handlers", "adapters") and not _is_plugin(space, name):
        return
    text = (
        f'imports the plugin {hyphenated(name)!r} without depending on it; name it in the manifest\'s "dependencies", '
        "or meet through events and services"
    )
    yield finding("LUM306", module.file, node.lineno, text)


def _is_plugin(space: str, name: str) -> bool:
    from lumia.paths import base

    return (base() / space / name).is_dir()


def _brought(module: Module, top: str, manifest: Manifest) -> bool:
    if top in sys.stdlib_module_names or top in ("lumia", "__main__") or _named(top, manifest):
        return True
    if any(each.split(".")[0] == top for each in module.package.modules) and top == module.package.name:
        return True
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return True


def _named(top: str, manifest: Manifest) -> bool:
    """A package may bring modules of other names, and other packages; where that isn't known, any may be it."""
    brought = brought_by(manifest.python_dependencies)
    return brought is None or top in brought


def _services(run: Run, manifest: Manifest | None) -> Iterator[Finding]:
    for name, frame, node in run.provided:
        if (
            manifest is None
            or not frame.module.package.own
            or not frame.module.source.loaded
            or name in manifest.provides
        ):
            continue
        text = f'service {name!r} isn\'t in the manifest; add "provides": ["{name}"]'
        yield finding("LUM307", frame.module.file, getattr(node, "lineno", 1), text)


def _settings(run: Run, own: Package, manifest: Manifest | None, folder: Path) -> Iterator[Finding]:
    declared = _declared(run, own)
    for plugin, _, module, line in declared:
        if manifest is not None and plugin != manifest.name:
            own_way = f"lumia.config.declare({manifest.name!r}, …)"
            text = f"declares settings of {plugin!r}; a plugin declares its own: {own_way}"
            yield finding("LUM403", module.file, line, text)
    if manifest is None:
        return
    keys = _schema_keys(schema_file(folder, manifest))
    for _, names, _, _ in declared:
        keys = None if keys is None or names is None else keys | names
    if keys is None:
        return
    for plugin, attr, frame, node in run.settings:
        if plugin == manifest.name and frame.module.package.own and frame.module.source.loaded and attr not in keys:
            if attr.startswith("_") or hasattr(_settings_class(), attr):
                continue
            has = f"; there are {', '.join(sorted(keys)[:8])}" if keys else "; the plugin declares none"
            text = f"{plugin} has no setting {attr!r}{has}"
            yield finding("LUM402", frame.module.file, getattr(node, "lineno", 1), text)


def _settings_class() -> type:
    from lumia.config_store import Settings

    return Settings


def _schema_keys(file: Path) -> set[str] | None:
    if not file.is_file():
        return set()
    try:
        return set(loads(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, TOMLDecodeError):
        return None


def _declared(run: Run, own: Package) -> list[tuple[str, set[str] | None, Module, int]]:
    found = []
    for module in own.modules.values():
        if not module.source.loaded or "declare" not in module.source.text:
            continue
        for node in ast.walk(module.source.tree):
            if not isinstance(node, ast.Call) or len(node.args) < 2:
                continue
            if run.world.dotted(module, node) != "lumia.config.declare":
                continue
            with_names = Frame(run, module, quiet=True)
            plugin = with_names.value(node.args[0]).type
            if not isinstance(plugin, Lit):
                plugin = _static(run, module, node.args[0])
            fields = node.args[1]
            names = None
            if isinstance(fields, ast.Dict) and all(isinstance(key, ast.Constant) for key in fields.keys):
                names = {str(key.value) for key in fields.keys if isinstance(key, ast.Constant)}
            if isinstance(plugin, Lit):
                found.append((str(plugin.value), names, module, node.lineno))
            else:
                found.append((hyphenated(own.name), None, module, node.lineno))
    return found


def _static(run: Run, module: Module, node: ast.expr) -> Type:
    found = run.world.find(module, node)
    return Lit(found.value) if isinstance(found, ast.Constant) and isinstance(found.value, str) else Ref("?")
