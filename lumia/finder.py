"""One import finder for every plugin, so a plugin's modules have the same names in every process (DESIGN §3).

`handlers.<name>` and `adapters.<name>` are the first-party plugins in the base, `lumia_plugins.<name>` those in a bot
root's `plugins/`, whatever the working folder is. It must be installed before the first dill load: dill stores a class
as module and name.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import MAGIC_NUMBER, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

ROOT_NAMESPACE = "lumia_plugins"
PLACES: Mapping[str, str] = {"handlers": "handlers", "adapters": "adapters", "plugins": ROOT_NAMESPACE}
NAMESPACES = frozenset(PLACES.values())
_MANIFEST = "manifest.json"


class _Source(SourceFileLoader):
    """Validates cached bytecode by content: an edit within the same second and of the same length counts, too."""

    def path_stats(self, path: str) -> Mapping[str, float]:
        content = Path(path).read_bytes()
        return {"mtime": int.from_bytes(hashlib.sha256(content).digest()[:4], "little"), "size": len(content)}


class _Compiled(SourcelessFileLoader):
    """Names the file that is really there in tracebacks, not the one of the author's machine."""

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            code = super().get_code(fullname)
        except ImportError as error:
            if Path(self.path).read_bytes()[:4] == MAGIC_NUMBER:
                raise
            here = f"{sys.version_info[0]}.{sys.version_info[1]}"
            reason = f"{Path(self.path).name} is bytecode of another version of Python than {here}, which runs here"
            raise ImportError(reason, name=fullname, path=self.path) from error
        return None if code is None else _located(code, self.path)


def _located(code: CodeType, file: str) -> CodeType:
    inner = tuple(_located(const, file) if isinstance(const, CodeType) else const for const in code.co_consts)
    return code.replace(co_filename=file, co_consts=inner)


class _Bare(SourceFileLoader):
    """The package of a plugin folder without `__init__.py`; package data stays readable by importlib.resources."""

    def get_code(self, fullname: str) -> CodeType:
        return compile("", f"<{fullname}>", "exec")


class PluginFinder(MetaPathFinder):
    """Serves the three namespaces from the folders it was told; the folder told last is searched first."""

    def __init__(self) -> None:
        self._folders: dict[str, list[str]] = {namespace: [] for namespace in NAMESPACES}
        self._served: dict[str, Path] = {}

    def add(self, namespace: str, folder: Path) -> None:
        """Search `folder` for the plugins of `namespace`, before all folders added earlier."""
        folders, name = self._folders[namespace], str(folder)
        folders[:] = [name, *(other for other in folders if other != name)]

    def remove(self, namespace: str, folder: Path) -> None:
        """Search `folder` no more."""
        folders = self._folders[namespace]
        folders[:] = [other for other in folders if other != str(folder)]

    def serve(self, package: str, folder: Path) -> None:
        """Serve `package` (like `lumia_plugins.echo`) from exactly this folder, until it is forgotten."""
        self._served[package] = folder

    def forget(self, package: str) -> dict[str, ModuleType]:
        """Take the package and its modules out of `sys.modules`, with what `serve` said; return the modules."""
        self._served.pop(package, None)
        names = [name for name in list(sys.modules) if f"{name}.".startswith(f"{package}.")]
        modules = {name: sys.modules.pop(name) for name in names}
        namespace, _, name = package.partition(".")
        if namespace in sys.modules:
            vars(sys.modules[namespace]).pop(name, None)
        return modules

    def restore(self, modules: Mapping[str, ModuleType]) -> None:
        """Put modules back that `forget` returned."""
        sys.modules.update(modules)
        for name, module in modules.items():
            parent, _, last = name.rpartition(".")
            if parent in NAMESPACES and parent in sys.modules:
                setattr(sys.modules[parent], last, module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a namespace, a plugin's package or a module in it; None for everything else."""
        namespace, _, inner = fullname.partition(".")
        if namespace not in NAMESPACES:
            return None
        if not inner:
            spec = ModuleSpec(namespace, None, is_package=True)
            spec.submodule_search_locations = self._folders[namespace]
            return spec
        if "." in inner:
            return _module_spec(fullname, path or ())
        folder = self.folder(fullname)
        return _package_spec(fullname, folder) if folder else None

    def folder(self, package: str) -> Path | None:
        """Return the folder that `package` is served from, None when there is no such plugin."""
        served = self._served.get(package)
        if served is not None and served.is_dir():
            return served
        namespace, _, name = package.partition(".")
        found = (_plugin_folder(Path(folder), name) for folder in self._folders[namespace])
        return next((folder for folder in found if folder), None)


def _plugin_folder(parent: Path, name: str) -> Path | None:
    """Return the first folder, by name, that holds a manifest and is spelled `name` (hyphens count as underscores)."""
    if not parent.is_dir():
        return None
    spelled = sorted(entry for entry in parent.iterdir() if entry.name.replace("-", "_") == name)
    return next((entry for entry in spelled if (entry / _MANIFEST).is_file()), None)


def _file_finder(folder: str) -> FileFinder:
    # Made anew for each look: the one Python keeps per folder would miss files written within the same clock tick.
    return FileFinder(
        folder,
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_Source, SOURCE_SUFFIXES),
        (_Compiled, BYTECODE_SUFFIXES),
    )


def _module_spec(fullname: str, path: Sequence[str]) -> ModuleSpec | None:
    specs = (_file_finder(folder).find_spec(fullname) for folder in path)
    return next((spec for spec in specs if spec), None)


def _package_spec(fullname: str, folder: Path) -> ModuleSpec | None:
    init = _file_finder(str(folder)).find_spec("__init__")
    if init is None or init.origin is None:
        spec = ModuleSpec(fullname, _Bare(fullname, str(folder / "__init__.py")), origin=str(folder), is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec
    loader = _Compiled if init.origin.endswith(tuple(BYTECODE_SUFFIXES)) else _Source
    inside = [str(folder)]
    return spec_from_file_location(
        fullname, init.origin, loader=loader(fullname, init.origin), submodule_search_locations=inside
    )


FINDER = PluginFinder()


def install(base: Path, root: Path | None = None) -> None:
    """Make the plugins of `base` and of the bot root importable; calling it again adds, and never doubles, anything."""
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
    FINDER.add("handlers", base.absolute() / "handlers")
    FINDER.add("adapters", base.absolute() / "adapters")
    if root is not None:
        FINDER.add(ROOT_NAMESPACE, root.absolute() / "plugins")


def uninstall(base: Path, root: Path | None = None) -> None:
    """Search `base` and `root` no more; modules already imported stay."""
    FINDER.remove("handlers", base.absolute() / "handlers")
    FINDER.remove("adapters", base.absolute() / "adapters")
    if root is not None:
        FINDER.remove(ROOT_NAMESPACE, root.absolute() / "plugins")
