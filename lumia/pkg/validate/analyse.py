"""Layers 2 and 3: the types of Boxes and live resources, in one reading of the plugin (spec §14.1)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from lumia.manifest import Manifest, underscored
from lumia.pkg.validate import calls, stmts  # fill the tables of Frame
from lumia.pkg.validate.finding import Finding
from lumia.pkg.validate.flow import ORDER, follow_all
from lumia.pkg.validate.frame import Frame, Run
from lumia.pkg.validate.marks import check_marks
from lumia.pkg.validate.messages import add_messages
from lumia.pkg.validate.reach import boxy_functions
from lumia.pkg.validate.source import Source
from lumia.pkg.validate.surroundings import check_surroundings
from lumia.pkg.validate.types import Ref
from lumia.pkg.validate.world import Function, Package, World

__all__ = ["analyse", "calls", "stmts"]


def analyse(
    folder: Path, name: str, manifest: Manifest | None, sources: Sequence[Source],
    others: Sequence[tuple[str, Path, Sequence[Source]]],
) -> list[Finding]:  # fmt: skip
    """Return the findings of one plugin; others: name, folder and sources of those it depends on."""
    world = World()
    for other, place, theirs in others:
        world.add(other, place, theirs, own=False)
    own = world.add(name, folder, sources, own=True)
    if manifest is None or all(underscored(each) in world.packages for each in manifest.dependencies):
        add_messages(world)  # else what is depended on may have put keys of its own into them
    world.link()
    run = Run(world)
    for package in world.packages.values():
        for key in sorted(package.modules, key=lambda each: (each == "plugin", each)):
            if package.modules[key].source.loaded:
                run.module_scope(package.modules[key])
    follow_all(run)
    _read_rest(run, own)
    follow_all(run)
    found = [one for one in run.findings if not (run.loose and one.rule == "LUM108")]
    return [*found, *check_marks(run, own, manifest, folder), *check_surroundings(run, own, manifest, folder)]


def _read_rest(run: Run, own: Package) -> None:
    """Read every function that no handler led to, with what its annotations say."""
    handlers = {handler.function.node for handler in run.handlers if handler.kind in ORDER}
    for module in own.modules.values():
        if not module.source.loaded:
            continue
        functions = [
            *module.functions.values(),
            *(one for info in module.classes.values() for one in info.methods.values()),
        ]
        for function in functions:
            if function.node not in handlers and _concerns(run, function):
                _read(run, function)


def _concerns(run: Run, function: Function) -> bool:
    """Tell whether a function does anything a rule is about."""
    if function.node in boxy_functions(run):
        return True
    imports = function.module.imports
    for node in ast.walk(function.node):
        if isinstance(node, ast.Name) and node.id in imports:
            target = imports[node.id]
            if isinstance(target, Ref) and target.name.partition(".")[0] in _CONCERN:
                return True
    return False


def _read(run: Run, function: Function) -> None:
    frame = Frame(run, function.module, function)
    frame.bind_declared()
    run.following.add(function.node)
    try:
        frame.run_body(function.body)
    except RecursionError:
        return
    finally:
        run.following.discard(function.node)


_CONCERN = frozenset({"lumia", "dill", "pickle", "copy", "json", "marshal", "cloudpickle"})
