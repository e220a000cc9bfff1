"""Stage names to classes.

A provider is an importable package named by an entry point of the group `corpusflow.stages`; ours is `stages`. A stage's
name is its module path below the package (`quality.gopher` is `stages/quality/gopher.py`) and the module says which class
it is with ``STAGE = Gopher``. A stage from a user's own file is ``./my_stage.py:MyFilter``.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Final

from corpusflow.errors import ConfigError
from corpusflow.stage import Composite, Score, Stage
from corpusflow.storage import storage_for

GROUP: Final = "corpusflow.stages"
#: Set in the provider package's __init__, so that a stranger's package of the same name is recognised.
MARKER: Final = "__corpusflow_stages__"


@cache
def providers() -> tuple[tuple[str, ModuleType], ...]:
    """(entry point name, package) of every installed provider, ours first.

    Raises:
        ConfigError: the package found under a provider's name is not the provider.
    """
    points = sorted(entry_points(group=GROUP), key=lambda p: (p.name != "builtin", p.name))
    return tuple((p.name, _load_provider(p)) for p in points)


def _load_provider(point: EntryPoint) -> ModuleType:
    package, origin = point.value, _origin(point)
    if origin is not None and package not in sys.modules:
        _pass_over_strangers(package, origin)
    module = importlib.import_module(package)
    if hasattr(module, MARKER):
        return module
    if origin is None or any(name.startswith(package + ".") for name in sys.modules):
        raise ConfigError(
            f"the package {package!r} at {_where(module)} is not the provider of corpusflow stages {point.name!r}",
            hint=f"run from another folder, or rename {_where(module)}; a provider of your own says {MARKER} = True",
        )
    del sys.modules[package]  # imported before anybody asked us
    _pass_over_strangers(package, origin)
    return importlib.import_module(package)


def _pass_over_strangers(package: str, origin: str) -> None:
    """Put folders that hold another package of this name behind the provider's on the path, without importing it.

    They stay there: child processes are given this path. Ray puts the driver's working directory in front for its workers.
    """
    home = os.path.realpath(os.path.dirname(origin))
    places = [os.path.realpath(p or os.getcwd()) for p in sys.path]
    ours = places.index(home) if home in places else len(places)
    strangers = [
        p
        for p, place in zip(sys.path[:ours], places, strict=False)
        if os.path.isdir(os.path.join(place, package)) or os.path.isfile(os.path.join(place, f"{package}.py"))
    ]
    if not strangers and ours < len(places):
        return
    rest = [p for p in sys.path if p not in strangers]
    sys.path[:] = [*rest, *([] if ours < len(places) else [home]), *strangers]
    importlib.invalidate_caches()


def _origin(point: EntryPoint) -> str | None:
    """Folder of the provider's package as its distribution installed it, or beside our own package."""
    candidates = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), point.value)]
    if point.dist is not None:
        candidates.append(str(point.dist.locate_file(point.value)))
    for folder in candidates:
        init = os.path.join(folder, "__init__.py")
        if os.path.isfile(init) and MARKER.encode() in storage_for(init).get(init):
            return folder
    return None


def _where(module: ModuleType) -> str:
    """The package's __init__ file, or what stands for it where the folder has none."""
    return module.__file__ or os.path.join(next(iter(module.__path__), "an unknown place"), "__init__.py")


@cache
def stage_names() -> tuple[str, ...]:
    """All names a config may use, sorted. Modules and packages whose name starts with `_` or `kernels` hold no stage."""
    return tuple(sorted(_modules()))


@cache
def _modules() -> dict[str, str]:
    """Stage name -> module path."""
    found: dict[str, str] = {}
    for _, package in providers():
        for name in _walk(package):
            found.setdefault(name.removeprefix(package.__name__ + "."), name)
    return found


def _walk(package: ModuleType) -> Iterator[str]:
    for item in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        leaf = item.name.rpartition(".")[2]
        if leaf.startswith("_") or leaf == "kernels":
            continue
        if item.ispkg:
            for sub in pkgutil.iter_modules([os.path.join(p, leaf) for p in package.__path__], item.name + "."):
                if not sub.ispkg and not sub.name.rpartition(".")[2].startswith("_"):
                    yield sub.name


def find(name: str) -> type[Stage]:
    """The class behind a name of the config.

    Raises:
        ConfigError: no such stage, or the file or module does not define it.
    """
    if name.startswith("./") or name.endswith(".py") or ".py:" in name:
        return from_file(name)
    module_name = _modules().get(name)
    if module_name is None:
        close = difflib.get_close_matches(name, stage_names(), 3, 0.6)
        raise ConfigError(
            f"unknown stage {name!r}",
            hint=f"did you mean {' or '.join(close)}?" if close else "`corpusflow stages` lists them all",
        )
    try:
        module = importlib.import_module(module_name)
    except ImportError as e:
        raise ConfigError(
            f"stage {name} needs {e.name or e}, which cannot be imported: {e}",
            hint="install it, or the extra of corpusflow that the stage's docs name",
        ) from e
    stage = getattr(module, "STAGE", None)
    if not (isinstance(stage, type) and issubclass(stage, Stage)):
        raise ConfigError(
            f"{module.__file__} does not say which class is the stage", hint="add a line: STAGE = YourClass"
        )
    return stage


def from_file(reference: str) -> type[Stage]:
    """The stage that ``./my_stage.py:MyFilter`` names.

    Raises:
        ConfigError: no file, no such name in it, or it is not a stage.
    """
    path, _, attribute = reference.rpartition(":")
    if not path or not attribute:
        raise ConfigError(f"stage {reference!r} names a file but no class in it", hint=f"write {reference}:YourStage")
    storage = storage_for(path)
    if not storage.exists(path):
        raise ConfigError(f"stage file {path} does not exist", hint="relative paths start at " + os.getcwd())
    code = storage.get(path)
    module_name = "corpusflow_user_" + hashlib.sha256(code).hexdigest()[:16]
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"{path} is not a Python file", hint="its name must end in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as e:
            del sys.modules[module_name]
            raise ConfigError(f"{path} cannot be imported: {type(e).__name__}: {e}") from e
    stage = getattr(module, attribute, None)
    if not (isinstance(stage, type) and issubclass(stage, Stage)):
        known = [
            n
            for n, v in vars(module).items()
            if isinstance(v, type) and issubclass(v, Stage) and v.__module__ == module_name
        ]
        raise ConfigError(
            f"{path} has no stage called {attribute!r}",
            hint=f"it defines {', '.join(known)}"
            if known
            else "subclass corpusflow.Score, or use @corpusflow.document_score",
        )
    return stage


def score_for(column: str) -> tuple[str, type[Stage], int] | None:
    """(stage name, its class, index of the Score among its parts) of the Score that adds a signal, by default parameters.

    Looked for in the family the signal is named after: `quality.words` in `stages/quality/`.
    """
    family = column.partition(".")[0] + "."
    for name in stage_names():
        if not name.startswith(family):
            continue
        cls = find(name)
        for i, part in enumerate(_default_parts(cls)):
            if isinstance(part, Score) and column in part.outputs():
                return name, cls, i
    return None


@cache
def _default_parts(cls: type[Stage]) -> tuple[Stage, ...]:
    try:
        stage = cls()
    except TypeError:  # it has required parameters, so it cannot be inserted without being asked for
        return ()
    return stage.expand() if isinstance(stage, Composite) else (stage,)
