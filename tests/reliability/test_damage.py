"""Committed files that are damaged afterwards: noticed when they are read, named, and made again by `verify --repair`."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import crash
import pytest
from toys import Toy

from corpusflow import CorruptShardError

#: What reads every committed file: other thresholds on what is there, another Sink.
OTHER = [*crash.STAGES[:4], ("Keep", {"column": "toy.size", "op": ">=", "value": 1}), *crash.STAGES[5:], "Digits"]


@pytest.fixture(scope="module")
def whole(quick_root: Path) -> Iterator[Toy]:
    toy = Toy(quick_root)
    toy.corpus(crash.FILES)
    toy.run(crash.STAGES, crash.OUTPUT)
    yield toy
    toy.remove()


@pytest.fixture
def damaged(whole: Toy) -> Iterator[Callable[[], Path]]:
    """Copies of a finished run's folder."""
    made: list[Path] = []

    def copy() -> Path:
        made.append(whole.root / f"copy{len(made)}")
        shutil.copytree(whole.root / "run", made[-1])
        return made[-1]

    yield copy
    for folder in made:
        shutil.rmtree(folder)


def data_files(run: Path) -> list[Path]:
    return sorted(p for p in run.rglob("data/*/*") if p.is_file())


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


def check_flip(whole: Toy, run: Path, path: Path, rng: random.Random, expected: list[str]) -> bool:
    """Whether reading on in a run with one flipped bit says so; where it does not, the result is the right one."""
    flip(path, rng)
    with pytest.raises(CorruptShardError, match=path.name):
        crash.verify_all(run)
    noticed = ""
    try:
        whole.run(OTHER, crash.OUTPUT, run=run.name)
    except CorruptShardError as e:
        noticed = str(e)
    if noticed:
        assert path.name in noticed, f"{path} was damaged, the error names another file: {noticed}"
        assert "--repair" in noticed
        return True
    got = [r["id"] for r in whole.dumped(run.name)]
    assert got == expected, f"{path} was damaged and read as data"
    return False


def expected_ids(whole: Toy) -> list[str]:
    whole.run(OTHER, crash.OUTPUT, run="expected")
    return [r["id"] for r in whole.dumped("expected")]


def test_a_flipped_bit_is_noticed_or_harmless(whole: Toy, damaged: Callable[[], Path]) -> None:
    rng = random.Random(5)
    expected = expected_ids(whole)
    noticed = 0
    for _ in range(8):
        run = damaged()
        read = [p for p in data_files(run) if any(s in str(p) for s in ("Cut/wide", "Size/score", "Unique/score"))]
        noticed += check_flip(whole, run, rng.choice(read), rng, expected)
    assert noticed >= 4


@pytest.mark.slow
def test_a_flipped_bit_in_each_file(whole: Toy, damaged: Callable[[], Path]) -> None:
    rng = random.Random(6)
    expected = expected_ids(whole)
    for n in range(len(data_files(whole.root / "run"))):
        for _ in range(6):
            run = damaged()
            check_flip(whole, run, data_files(run)[n], rng, expected)
            shutil.rmtree(run)
            run.mkdir()


def test_a_lost_file_is_named(whole: Toy, damaged: Callable[[], Path]) -> None:
    run = damaged()
    path = next(p for p in data_files(run) if "Cut/wide" in str(p))
    path.unlink()
    with pytest.raises(CorruptShardError, match=f"{path.name} is named by a commit record but missing"):
        whole.run(OTHER, crash.OUTPUT, run=run.name)


def test_a_truncated_file_is_named(whole: Toy, damaged: Callable[[], Path]) -> None:
    run = damaged()
    path = next(p for p in data_files(run) if "Size/score" in str(p))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptShardError, match=f"{path.name} has .* bytes, its record says"):
        whole.run(OTHER, crash.OUTPUT, run=run.name)
