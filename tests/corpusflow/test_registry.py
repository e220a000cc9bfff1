"""Stage names to classes: registered packages, a user's file, and strangers of the same name in the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command import ROOT
from toys import STAGES, Toy

from corpusflow import ConfigError, Score
from corpusflow.registry import find, from_file, score_for, stage_names

MINE = '''
import corpusflow

@corpusflow.document_score(adds={"my.n": "int32"})
def n(text: str) -> int:
    """Characters."""
    return len(text)

NOT_A_STAGE = 3
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_registered_stages() -> None:
    names = stage_names()
    assert names == tuple(sorted(names))
    assert {"ingest.warc", "quality.gopher", "dedup.exact", "export.parquet"} <= set(names)
    assert not [n for n in names if "._" in n or n.startswith("kernels")]
    assert find("quality.gopher").__module__ == "stages.quality.gopher"


@pytest.mark.parametrize(
    ("name", "says", "hint"),
    [
        ("quality.gofer", "unknown stage 'quality.gofer'", "did you mean quality.gopher"),
        ("gopher", "unknown stage 'gopher'", "did you mean quality.gopher"),
        ("zzz", "unknown stage 'zzz'", "corpusflow stages"),
        ("./nothing.py:X", "does not exist", "relative paths start at"),
        ("./nothing.py", "names a file but no class", ":YourStage"),
    ],
)
def test_unknown_names(name: str, says: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        find(name)
    assert hint in str(caught.value.hint)


def test_a_file_of_ones_own(mine: Path) -> None:
    stage = find(f"{mine}:n")
    assert issubclass(stage, Score)
    assert stage is from_file(f"{mine}:n"), "read once"
    other = mine.with_name("copy.py")
    other.write_text(MINE)
    assert from_file(f"{other}:n") is stage, "the same bytes are the same code, wherever they lie"
    mine.write_text(MINE.replace("len(text)", "len(text) + 1"))
    assert from_file(f"{mine}:n") is not stage


@pytest.mark.parametrize(
    ("code", "name", "says", "hint"),
    [
        (MINE, "m", "has no stage called 'm'", "it defines n"),
        (MINE, "NOT_A_STAGE", "has no stage called 'NOT_A_STAGE'", "it defines n"),
        ("x = 1\n", "n", "has no stage called 'n'", "document_score"),
        ("import nothing_of_that_name\n", "n", "cannot be imported: ModuleNotFoundError", ""),
        ("def broken(:\n", "n", "cannot be imported: SyntaxError", ""),
        ("raise RuntimeError('at import')\n", "n", "cannot be imported: RuntimeError: at import", ""),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, code: str, name: str, says: str, hint: str) -> None:
    (tmp_path / "f.py").write_text(code)
    with pytest.raises(ConfigError, match=says) as caught:
        find(f"{tmp_path}/f.py:{name}")
    assert hint in str(caught.value.hint or "")


def test_the_score_of_a_signal() -> None:
    found = score_for("quality.words")
    assert found is not None
    assert found[0] == "quality.signals"
    assert score_for("quality.nothing") is None
    assert score_for("nobody.makes") is None


# ---- strangers ----

STRANGERS = {
    "package": {"stages/__init__.py": "raise RuntimeError('a stranger was imported')\n"},
    "folder": {"stages/notes.txt": "no package\n", "stages/quality/gopher.py": "raise RuntimeError('a stranger')\n"},
    "module": {"stages.py": "raise RuntimeError('a stranger was imported')\n"},
}


@pytest.mark.parametrize("kind", STRANGERS)
@pytest.mark.parametrize("how", ["command", "script", "-c"])
def test_a_stranger_called_stages_in_the_working_directory(toy: Toy, tmp_path: Path, kind: str, how: str) -> None:
    for name, text in STRANGERS[kind].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    script = "from corpusflow.registry import find\nprint(find('quality.gopher').__module__)\n"
    (tmp_path / "script.py").write_text(script)
    command = {
        "script": [sys.executable, "script.py"],
        "-c": [sys.executable, "-c", script],
        "command": [sys.executable, "-m", "corpusflow", "stages", "quality.gopher"],
    }[how]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "quality.gopher" in done.stdout
    assert "stranger" not in done.stderr


def test_a_provider_without_the_marker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from corpusflow import registry

    (tmp_path / "unmarked").mkdir()
    (tmp_path / "unmarked" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("mine", "unmarked", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    registry.providers.cache_clear()
    try:
        with pytest.raises(ConfigError, match=r"'unmarked' at .* is not the provider") as caught:
            registry.providers()
        assert "__corpusflow_stages__ = True" in str(caught.value.hint)
    finally:
        registry.providers.cache_clear()


def test_toys_are_a_users_file() -> None:
    assert find(f"{STAGES}:Size").__name__ == "Size"
