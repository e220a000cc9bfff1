"""Sequences, packing, order and exact resumption."""

from __future__ import annotations

import os
import pickle
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError
from corpusflow.errors import CorruptShardError
from corpusflow.feed import Loader, Mixture, TokenDataset, TokenFiles
from corpusflow.feed.order import permuted


def test_reading_crosses_files(export: str) -> None:
    files = TokenFiles(export)
    assert np.array_equal(files.read(0, len(files)), np.arange(len(files)))
    for border in files.starts[1:-1]:
        assert files.read(int(border) - 3, 7).tolist() == list(range(border - 3, border + 4))
    with pytest.raises(IndexError):
        files.read(len(files) - 1, 2)


def test_more_files_than_a_process_may_open(tmp_path: Path, make_export: Callable[..., str]) -> None:
    folder = make_export(tmp_path / "many", [[[i, i + 1]] for i in range(600)])
    before = len(os.listdir("/proc/self/fd"))
    files = TokenFiles(folder)
    assert files.read(0, len(files)).tolist() == [t for i in range(600) for t in (i, i + 1)]
    assert len(os.listdir("/proc/self/fd")) - before <= 256
    assert files.read(2, 2).tolist() == [1, 2]  # of a file whose map was let go


def test_a_file_without_tokens(tmp_path: Path, make_export: Callable[..., str]) -> None:
    files = TokenFiles(make_export(tmp_path / "export", [[[1, 2]], [[]], [[3]]]))
    assert files.read(0, 3).tolist() == [1, 2, 3]
    assert files.trace(2).id == "train/2#0"


def test_an_export_made_anew_under_a_reader_is_noticed(tmp_path: Path, make_export: Callable[..., str]) -> None:
    files = TokenFiles(make_export(tmp_path / "export", [[[1, 2]], [[3, 4]]]))
    assert files.read(0, 2).tolist() == [1, 2]
    path = tmp_path / "export" / "train-00001-of-00002.bin"
    path.with_suffix(".new").write_bytes(np.array([5, 6], "<u2").tobytes())
    path.with_suffix(".new").replace(path)
    with pytest.raises(CorruptShardError, match="replaced"):
        files.read(2, 2)


def test_every_token_is_traced_to_its_document(export: str) -> None:
    files = TokenFiles(export)
    starts = files.document_starts
    for token in range(0, len(files), 7):
        span = files.trace(token)
        assert span.start <= token < span.start + span.length
        assert span.start in starts
        file, row = span.id.removeprefix("train/").split("#")
        assert starts[int(file) * 150 + int(row)] == span.start
    with pytest.raises(IndexError):
        files.trace(len(files))


def test_concatenated_windows_predict_each_token_once(export: str) -> None:
    data = TokenDataset(export, 16)
    targets = [t for i in range(len(data)) for t in data[i]["tokens"][1:].tolist()]
    assert targets == list(range(1, len(data) * 16 + 1))
    assert data.dropped == len(data.files) - len(targets) - 1 < 16


def test_segments_follow_the_documents(export: str) -> None:
    data = TokenDataset(export, 16, segments=True)
    starts = set(data.files.document_starts.tolist())
    for i in range(0, len(data), 5):
        item = data[i]
        changes = np.flatnonzero(np.diff(item["segments"])) + 1
        assert item["segments"][0] == 0
        assert [int(item["tokens"][c]) for c in changes] == [t for t in item["tokens"].tolist()[1:] if t in starts]


@pytest.mark.parametrize("mode", ["documents", "best_fit"])
def test_padded_modes_hold_every_token_once(export: str, mode: str) -> None:
    data = TokenDataset(export, 19, mode=mode, segments=True)  # type: ignore[arg-type]
    seen: Counter[int] = Counter()
    padding = 0
    for i in range(len(data)):
        item = data[i]
        real = item["segments"] >= 0
        seen.update(item["tokens"][real].tolist())
        padding += int((~real).sum())
        assert (item["tokens"][~real] == 2).all()
        tokens = item["tokens"]
        assert (tokens[1:][item["mask"]] == tokens[:-1][item["mask"]] + 1).all()
    assert seen == Counter(range(len(data.files)))
    assert padding == data.packing.padded


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3_000), st.integers(0, 2**63), st.integers(0, 5))
def test_order_is_a_permutation(count: int, seed: int, epoch: int) -> None:
    order = permuted(np.arange(count), count, seed, epoch)
    assert sorted(order.tolist()) == list(range(count))
    few = np.arange(count)[:: max(1, count // 20)][:20]  # made by another branch
    assert permuted(few, count, seed, epoch).tolist() == order[few].tolist()


def test_order_is_pinned_and_differs_by_seed_and_epoch() -> None:
    assert permuted(np.arange(10), 10, 7, 0).tolist() == PINNED
    orders = {tuple(permuted(np.arange(50), 50, s, e).tolist()) for s in range(4) for e in range(4)}
    assert len(orders) == 16


PINNED = [4, 2, 6, 8, 0, 3, 5, 9, 7, 1]


def test_order_passes_a_uniformity_test() -> None:
    counts = np.zeros((8, 8))
    for seed in range(40):
        order = permuted(np.arange(800), 800, seed, 0)
        np.add.at(counts, (np.arange(800) // 100, order // 100), 1)
    expected = counts.sum() / 64
    assert ((counts - expected) ** 2 / expected).sum() < 49 + 5 * np.sqrt(2 * 49)


def test_resuming_anywhere_repeats_and_misses_nothing(export: str) -> None:
    """More than 200 stops, ranks and batch sizes changing at each: the line of sequences is given out exactly once."""
    rng = random.Random(9)
    data = TokenDataset(export, 16)
    stops = 0
    for _ in range(40):
        total = 3 * len(data)
        given_out: list[int] = []
        state = None
        while len(given_out) < total:
            ranks, batch = rng.randrange(1, 9), rng.randrange(1, 5)
            loaders = [Loader(data, batch, rank=r, ranks=ranks, seed=5) for r in range(ranks)]
            if state is not None:
                for loader in loaders:
                    loader.load_state_dict(state)
            for _ in range(rng.randrange(1, 40)):
                for loader in loaders:
                    first = loader.position + loader.rank * batch
                    given_out += [i for _, i in loader.places(np.arange(first, first + batch))]
                    loader.advance(1)
            states = [loader.state_dict() for loader in loaders]
            assert all(s == states[0] for s in states)
            state = pickle.loads(pickle.dumps(states[0]))
            stops += 1
        n = len(data)
        for epoch in range(3):
            assert sorted(given_out[epoch * n : (epoch + 1) * n]) == list(range(n))
    assert stops > 200


def test_batches_are_the_line_and_resume_with_it(export: str) -> None:
    data = TokenDataset(export, 16)
    whole = [b["tokens"] for _, b in zip(range(40), Loader(data, 4, seed=5), strict=False)]
    loader = Loader(data, 4, seed=5)
    for _ in range(17):
        next(loader)
    again = Loader(data, 4, seed=5)
    again.load_state_dict(loader.state_dict())
    assert all(np.array_equal(a, next(again)["tokens"]) for a in whole[17:])
    halves = [Loader(data, 2, rank=r, ranks=2, seed=5) for r in range(2)]
    for tokens in whole:
        assert np.array_equal(tokens, np.concatenate([next(h)["tokens"] for h in halves]))


def test_epochs_end_at_a_whole_step(export: str) -> None:
    data = TokenDataset(export, 16)
    loaders = [Loader(data, 3, rank=r, ranks=2, epochs=2) for r in range(2)]
    counts = [sum(1 for _ in loader) for loader in loaders]
    assert counts == [2 * len(data) // 6] * 2


def test_a_state_behind_the_last_epoch_gives_nothing_more(export: str) -> None:
    data = TokenDataset(export, length=64)
    long = Loader(data, batch=4, epochs=3)
    long.advance(2 * len(data) // 4)
    short = Loader(data, batch=4, epochs=1)
    short.load_state_dict(long.state_dict())
    assert short.steps_left == 0
    assert next(short, None) is None


def test_files_in_order_without_shuffle(export: str) -> None:
    data = TokenDataset(export, 16)
    first = next(Loader(data, 3, shuffle=False))["tokens"]
    assert first[:, 0].tolist() == [0, 16, 32]


@pytest.mark.parametrize("change", [{"seed": 6}, {"length": 15}, {"shuffle": False}])
def test_a_state_of_other_data_is_refused(export: str, change: dict[str, int]) -> None:
    length = change.pop("length", 16)
    state = Loader(TokenDataset(export, 16), 4, seed=5).state_dict()
    with pytest.raises(ConfigError, match="saved with another"):
        Loader(TokenDataset(export, length), 4, **{"seed": 5, **change}).load_state_dict(state)


def test_datasets_travel_to_workers(export: str) -> None:
    data = pickle.loads(pickle.dumps(TokenDataset(export, 16)))
    assert data[3]["tokens"].tolist() == list(range(48, 65))


def test_mixture_draws_by_weight_and_each_part_in_its_own_order(
    export: str, make_export: Callable[..., str], tmp_path: Path
) -> None:
    small = make_export(tmp_path / "small", [[[9] * 100, [8] * 61]])
    mixture = Mixture({"web": (TokenDataset(export, 16), 3.0), "books": (TokenDataset(small, 16), 1.0)})
    part, before = mixture.draws(np.arange(20_000), seed=3)
    assert abs((part == 1).mean() - 0.25) < 0.002
    for p in (0, 1):
        assert before[part == p].tolist() == list(range((part == p).sum()))
    # anywhere in the line the same, without what came before
    a, b = mixture.draws(np.array([11_111, 5, 19_999]), seed=3)
    assert (a.tolist(), b.tolist()) == (part[[11_111, 5, 19_999]].tolist(), before[[11_111, 5, 19_999]].tolist())
    plan = mixture.plan(1_000)
    assert plan["books"]["sequences"] == 250
    assert plan["books"]["epochs"] == pytest.approx(25.0)
    loader, again = Loader(mixture, 4, seed=3), Loader(mixture, 4, seed=3)
    batches = [next(loader)["tokens"] for _ in range(30)]
    again.advance(20)
    assert all(np.array_equal(x, next(again)["tokens"]) for x in batches[20:])
    assert not np.array_equal(batches[0], batches[1])


def test_temperature_draws_small_parts_more(export: str) -> None:
    data = TokenDataset(export, 16)
    plain = Mixture({"a": (data, 9.0), "b": (data, 1.0)})
    warm = Mixture({"a": (data, 9.0), "b": (data, 1.0)}, temperature=2.0)
    assert plain.shares[1] == pytest.approx(0.1)
    assert warm.shares[1] == pytest.approx(0.25)


def test_a_temperature_near_zero_leaves_the_largest_part(export: str) -> None:
    data = TokenDataset(export, 16)
    cold = Mixture({"a": (data, 2e-3), "b": (data, 1e-3)}, temperature=5e-4)
    assert cold.shares.tolist() == [1.0, 0.0]


def test_mistakes_are_named(export: str, tmp_path: Path, make_export: Callable[..., str]) -> None:
    data = TokenDataset(export, 16)
    with pytest.raises(ConfigError, match=r"no manifest\.json"):
        TokenFiles(str(tmp_path))
    with pytest.raises(ConfigError, match="no split 'validation'"):
        TokenDataset(export, 16, split="validation")
    with pytest.raises(ConfigError, match="a sequence takes"):
        TokenDataset(export, 10**9)
    with pytest.raises(ConfigError, match="mode"):
        TokenDataset(export, 16, mode="packed")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="positive weight"):
        Mixture({"a": (data, 0.0)})
    with pytest.raises(ConfigError, match="no epochs"):
        Loader(Mixture({"a": (data, 1.0)}), 1, epochs=1)
    folder = Path(make_export(tmp_path / "cut", [[[1, 2, 3]], [[4, 5]]]))
    (folder / "train-00001-of-00002.bin").write_bytes(b"\x01")
    with pytest.raises(CorruptShardError, match="1 bytes, 4 expected"):
        TokenFiles(str(folder))
    (folder / "train-00001-of-00002.bin").unlink()
    with pytest.raises(CorruptShardError, match="missing"):
        TokenFiles(str(folder))
