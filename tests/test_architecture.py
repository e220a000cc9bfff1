"""The direction of the data flow, read from the imports: which module may know which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import corpusflow

ROOT = Path(__file__).resolve().parent.parent
ENGINE = sorted((ROOT / "corpusflow").rglob("*.py"))
STAGES = sorted((ROOT / "stages").rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(module, names taken from it) of every import, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ()
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", tuple(a.name for a in node.names)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", ENGINE, ids=relative)
def test_the_engine_never_imports_a_stage(path: Path) -> None:
    assert not [m for m, _ in imports(path) if m.partition(".")[0] == "stages"]


@pytest.mark.parametrize("path", STAGES, ids=relative)
def test_stages_use_only_public_names(path: Path) -> None:
    for module, names in imports(path):
        if module.partition(".")[0] == "corpusflow":
            assert module == "corpusflow", f"import it from corpusflow itself: {module}"
            assert set(names) <= set(corpusflow.__all__)


@pytest.mark.parametrize("path", [p for p in STAGES if "kernels" in p.parts], ids=relative)
def test_kernels_know_no_stage(path: Path) -> None:
    for module, _ in imports(path):
        assert module.partition(".")[0] != "corpusflow"
        assert not module.startswith("stages.") or module.startswith("stages.kernels")


@pytest.mark.parametrize("path", [*ENGINE, *STAGES], ids=relative)
def test_ray_is_imported_in_one_place(path: Path) -> None:
    if relative(path) != "corpusflow/executors/ray.py":
        assert not [m for m, _ in imports(path) if m.partition(".")[0] == "ray"]


@pytest.mark.parametrize("path", [*ENGINE, *STAGES], ids=relative)
def test_only_storage_opens_paths(path: Path) -> None:
    if relative(path) in ("corpusflow/storage.py", "corpusflow/sandbox_child.py"):  # the child opens /dev/null
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("open", "io.open", "os.open", "gzip.open", "bz2.open", "lzma.open"), (
                f"line {node.lineno}: {called}: go through corpusflow.storage_for(path)"
            )
            assert called.rpartition(".")[2] not in ("read_text", "write_text", "read_bytes", "write_bytes")


def test_public_names_exist() -> None:
    for name in corpusflow.__all__:
        assert hasattr(corpusflow, name)


def test_tests_are_no_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py")), "--import-mode=importlib needs none"


def test_the_design_names_every_module() -> None:
    text = (ROOT / "corpusflow" / "DESIGN.md").read_text(encoding="utf-8")
    for path in (ROOT / "corpusflow").iterdir():
        name = f"{path.name}/" if path.is_dir() else path.stem
        if (path.suffix == ".py" or path.is_dir()) and not name.startswith("__"):
            assert f"`{name}`" in text, f"DESIGN.md does not say what {name} is for"
