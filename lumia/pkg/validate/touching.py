"""Plugins that open files in the bot's `config/` themselves (rule LUM401, spec §7.1, §8)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lumia.manifest import hyphenated
from lumia.pkg.validate.finding import Finding, finding
from lumia.pkg.validate.world import Module, World

_OPENERS = frozenset(
    [
        "builtins.open",
        "pathlib.Path",
        "pathlib.PurePath",
        "os.open",
        "os.remove",
        "os.unlink",
        "os.rename",
        "os.replace",
        "os.listdir",
        "os.scandir",
        "os.path.join",
        "os.path.exists",
        "os.path.isfile",
        "shutil.copy",
        "shutil.copyfile",
        "shutil.move",
        "shutil.rmtree",
        "aiofiles.open",
        "tomlkit.toml_file.TOMLFile",
        "glob.glob",
    ]
)
_JOINING = frozenset({"pathlib.Path", "pathlib.PurePath", "os.path.join"})
_WALKING = frozenset({"iterdir", "glob", "rglob", "walk"})
_SETTINGS = re.compile(r"(?:\.{1,2}/|\x02/)*config/[\w.*\x00-]+\.toml")
_FOLDER = re.compile(r"(?:\.{1,2}/|\x02/)*config/?")
_UNKNOWN, _OWN, _ROOT = "\0", "\1", "\2"
_ROOTS = ("LUMIA_ROOT", "BOT_ROOT", "getcwd()", ".cwd()", "find_root(", "current().root")


def touching(world: World, module: Module) -> Iterator[Finding]:
    """Yield a finding for each path that surely leads to a file of settings of the bot."""
    paths = _Paths(world, module)
    outer: set[ast.AST] = set()
    for node in ast.walk(module.source.tree):
        text = None
        walked = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WALKING
        if node in outer:
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            outer |= set(ast.walk(node)) - {node}
            text = paths.text(node)
        elif isinstance(node, ast.Call):
            text = _opened(world, module, paths, node)
            if walked and isinstance(node.func, ast.Attribute):
                folder = paths.text(node.func.value)
                text = folder if _FOLDER.fullmatch(folder) else None
        if text is not None and (_SETTINGS.fullmatch(text) or (_FOLDER.fullmatch(text) and walked)):
            shown = text.replace(_UNKNOWN, "…").replace(f"{_ROOT}/", "")
            name = hyphenated(module.package.name)
            said = f"opens {shown} itself; settings are read and written with lumia.config.get({name!r})"
            yield finding("LUM401", module.file, getattr(node, "lineno", 1), said)


def _opened(world: World, module: Module, paths: _Paths, node: ast.Call) -> str | None:
    name = world.dotted(module, node)
    if name not in _OPENERS or not node.args:
        return None
    return "/".join(paths.text(each) for each in (node.args if name in _JOINING else node.args[:1]))


class _Paths:
    """Reads paths as far as they are written out: a character each for the unknown, own folder, root."""

    def __init__(self, world: World, module: Module) -> None:
        self._world, self._module = world, module
        self._assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(module.source.tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._assigned.setdefault(node.targets[0].id, []).append(node.value)

    def text(self, node: ast.expr, depth: int = 8) -> str:
        """Return the text of a path."""
        if depth < 0:
            return _UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else _UNKNOWN
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Add)):
            between = "/" if isinstance(node.op, ast.Div) else ""
            return f"{self.text(node.left, depth - 1)}{between}{self.text(node.right, depth - 1)}"
        if isinstance(node, ast.JoinedStr):
            return "".join(self._piece(each, depth) for each in node.values)
        if isinstance(node, ast.Name):
            return self._named(node.id, depth)
        return self._call(node, depth)

    def _piece(self, node: ast.expr, depth: int) -> str:
        return self.text(node.value if isinstance(node, ast.FormattedValue) else node, depth - 1)

    def _named(self, name: str, depth: int) -> str:
        known = self._assigned.get(name, [])
        if len(known) == 1:
            return self.text(known[0], depth - 1)
        return _UNKNOWN

    def _call(self, node: ast.expr, depth: int) -> str:
        said = ast.unparse(node)
        if "__file__" in said:
            above = (
                said.count(".parent")
                if "parents[" not in said
                else int((re.findall(r"parents\[(\d)\]", said) or "0")[0]) + 1
            )
            return _ROOT if above + said.count("dirname(") >= 3 else _OWN
        if any(word in said for word in _ROOTS):
            return _ROOT
        if isinstance(node, ast.Call) and self._world.dotted(self._module, node) in _JOINING and node.args:
            return "/".join(self.text(each, depth - 1) for each in node.args)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "joinpath":
            return "/".join(
                [self.text(node.func.value, depth - 1), *(self.text(each, depth - 1) for each in node.args)]
            )
        return _UNKNOWN
