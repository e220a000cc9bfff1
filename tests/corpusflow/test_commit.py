"""Commit records and seals: one whole attempt per shard, whatever else lies there."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import CorruptShardError, PlanDriftError
from corpusflow.commit import Attempt, Dataset, file_digest, run_of
from corpusflow.fingerprint import fingerprint
from corpusflow.record import PartFile, Record, content_digest
from corpusflow.storage import LocalStorage

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return Dataset(str(tmp_path / "stage" / "score-abc"), "abc" * 21)


def attempt(dataset: Dataset, data: bytes = b"data", shard: int = 3, key: str = KEY) -> Attempt:
    """An attempt with one finished part."""
    made = dataset.attempt(shard, key)
    name, upload = made.create("bin")
    with upload:
        upload.write(data)
    made.add("rows", name, upload, 1)
    return made


def test_a_commit_and_what_it_leaves(dataset: Dataset) -> None:
    assert dataset.record(3, KEY) is None
    made = attempt(dataset)
    record = made.commit({"in": 5, "kept": 4}, {"note": 1}, {"pyarrow": "1"}, {"seconds": 0.5})
    found = dataset.record(3, KEY)
    assert found is not None
    assert found.content() == record.content()
    assert (found.attempt, found.counters, found.info) == (made.id, {"in": 5, "kept": 4}, {"note": 1})
    assert found.advice["seconds"] == 0.5
    assert {"started", "finished", "host", "pid"} <= set(found.advice)
    part = found.part("rows")
    assert part is not None
    assert part.size == 4
    assert found.part("other") is None
    assert dataset.storage.get(dataset.path(part.path)) == b"data"
    assert dataset.records({3: KEY, 4: KEY}) == {3: found}
    dataset.verify(found)


def test_another_key_or_fingerprint_is_another_output(dataset: Dataset) -> None:
    attempt(dataset).commit({})
    assert dataset.record(3, "f" * 32) is None
    # twelve digits of the key are in the name; the whole key is in the record
    assert dataset.record(3, KEY[:12] + "f" * 20) is None
    assert Dataset(dataset.root, "other").record(3, KEY) is None


def test_the_second_attempt_finds_the_first(dataset: Dataset) -> None:
    first, second = attempt(dataset), attempt(dataset)
    assert first.id != second.id
    won = first.commit({"kept": 1})
    assert second.commit({"kept": 1}).attempt == won.attempt == first.id
    assert dataset.failures() == []


def test_two_attempts_that_differ_are_noted(dataset: Dataset) -> None:
    first, second = attempt(dataset, b"one"), attempt(dataset, b"two")
    first.commit({})
    assert second.commit({}).attempt == first.id
    (note,) = dataset.failures()
    assert (note["shard"], note["nondeterminism"], note["other"]) == (3, True, first.id)
    record = dataset.record(3, KEY)
    assert record is not None
    dataset.verify(record)


def test_committing_twice_is_committing_once(dataset: Dataset) -> None:
    """The storage layer may have tried again after a lost reply."""
    made = attempt(dataset)
    assert made.commit({}).attempt == made.commit({}).attempt == made.id
    assert len(list(dataset.storage.list(dataset.path("_commits")))) == 1


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:30] + b"X" + b[31:]]
)
def test_a_torn_record_counts_as_none(dataset: Dataset, damage: Callable[[bytes], bytes]) -> None:
    """On filesystems without hard links a record may be torn; the next attempt takes the next generation."""
    attempt(dataset).commit({"kept": 1})
    path = Path(dataset.record_path(3, KEY, 0))
    path.write_bytes(damage(path.read_bytes()))
    assert dataset.record(3, KEY) is None
    assert dataset.records({3: KEY}) == {}
    second = attempt(dataset)
    assert second.commit({"kept": 1}).generation == 1
    for found in (dataset.record(3, KEY), dataset.records({3: KEY})[3]):
        assert found is not None
        assert (found.attempt, found.generation) == (second.id, 1)


def test_a_slow_writer_of_an_old_generation_changes_nothing(dataset: Dataset) -> None:
    slow = attempt(dataset)
    path = Path(dataset.record_path(3, KEY, 0))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{torn")
    fast = attempt(dataset)
    fast.commit({})
    path.unlink()
    slow.commit({})  # completes generation 0 after generation 1
    found = dataset.record(3, KEY)
    assert found is not None
    assert found.attempt in (fast.id, slow.id)
    assert dataset.records({3: KEY})[3].attempt == found.attempt == fast.id


def test_many_at_once(dataset: Dataset) -> None:
    start = threading.Barrier(8)

    def one(_: int) -> tuple[str, str]:
        made = attempt(dataset)
        start.wait()
        return made.id, made.commit({"kept": 1}).attempt

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(one, range(8)))
    winners = {counted for _, counted in ends}
    assert len(winners) == 1
    assert winners <= {made for made, _ in ends}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('aé昨"\\\n#', max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text("ab", max_size=2), v, max_size=3),
    max_leaves=6,
)
tables = st.dictionaries(st.text("abc", max_size=3), json_values, max_size=3)
records = st.builds(
    Record,
    fp=st.text("0f", min_size=4, max_size=4),
    shard=st.integers(0, 9),
    key=st.just(KEY),
    attempt=st.text("0f", min_size=4, max_size=4),
    parts=st.lists(
        st.builds(
            PartFile, st.text("ab", max_size=2), st.just("p"), st.integers(0, 9), st.just("d"), st.integers(0, 9)
        ),
        max_size=2,
    ).map(tuple),
    counters=tables,
    info=tables,
    libraries=st.just({"a": "1"}),
    advice=tables,
)


@settings(max_examples=100, deadline=None)
@given(records, st.integers(0, 99))
def test_records_survive_encoding(record: Record, generation: int) -> None:
    again = Record.decode(record.encode(), generation)
    assert again is not None
    assert again.content() == record.content()
    assert (again.advice, again.generation, again.libraries) == (record.advice, generation, record.libraries)


@settings(max_examples=60, deadline=None)
@given(records, st.data())
def test_any_changed_byte_is_noticed(record: Record, data: st.DataObject) -> None:
    encoded = bytearray(record.encode())
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    again = Record.decode(bytes(encoded), 0)
    assert again is None or again.encode() == record.encode()


def test_content_digest_ignores_attempts_and_order(dataset: Dataset) -> None:
    a = [attempt(dataset, shard=s).commit({"kept": s}) for s in (1, 2)]
    other = Dataset(dataset.root + "-other", dataset.fp)
    b = [attempt(other, shard=s).commit({"kept": s}) for s in (2, 1)]
    assert content_digest(a) == content_digest(b) == fingerprint([r.content() for r in a])
    assert content_digest([]) == fingerprint([])
    c = [attempt(other, b"else", shard=5).commit({"kept": 1}), b[1]]
    assert content_digest(c) != content_digest(b)


# ---- plans and seals ----


def test_no_flipped_bit_of_a_seal_passes(dataset: Dataset) -> None:
    digest = dataset.seal(0, [attempt(dataset).commit({"kept": 1})])
    path = Path(dataset.path("_SEALED-0000.json"))
    whole, seal = path.read_bytes(), dataset.seal_of(0)
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(data))
        assert dataset.seal_of(0) in (None, seal), bytes(data)
    older = json.loads(whole)
    del older["self"]
    path.write_text(json.dumps(older))
    assert dataset.sealed(0) == digest


def test_a_flipped_bit_of_a_manifest_is_noticed_or_harmless(dataset: Dataset) -> None:
    records = [attempt(dataset, shard=s).commit({"kept": s}) for s in (1, 2, 3)]
    dataset.seal(0, records)
    path = next(Path(dataset.root).glob("manifest-*"))
    whole, expected = path.read_bytes(), dataset.sealed_records(0)
    assert expected is not None
    hints = set()
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            assert dataset.sealed_records(0) == expected
        except CorruptShardError as e:
            hints.add(e.hint)
    assert len(hints) == 1


def test_library_versions_are_pinned(dataset: Dataset) -> None:
    plan: dict[str, Any] = {"stage": "s", "libraries": {"a": "1", "b": "2"}}
    dataset.plan(0, plan)
    dataset.plan(0, plan)
    for epoch in (0, 1):  # adding input must not mix versions either
        with pytest.raises(PlanDriftError, match="a 1 -> 3") as caught:
            dataset.plan(epoch, {**plan, "libraries": {"a": "3", "b": "2"}})
        assert "a==1" in str(caught.value.hint)
    assert not dataset.storage.exists(dataset.path("PLAN-0001.json"))
    with pytest.raises(PlanDriftError, match="b 2 -> absent"):
        dataset.plan(0, {**plan, "libraries": {"a": "1"}})
    dataset.plan(1, {**plan, "libraries": {"a": "3", "b": "2"}}, allow_drift=True)


def test_seals(dataset: Dataset) -> None:
    records = [attempt(dataset, shard=s).commit({"kept": s}) for s in (2, 0, 1)]
    assert dataset.sealed(0) is None
    assert dataset.sealed_records(0) is None
    digest = dataset.seal(0, records)
    assert dataset.seal(0, records[::-1]) == digest == dataset.sealed(0) == content_digest(records)
    assert dataset.sealed(1) is None
    found = dataset.sealed_records(0)
    assert found is not None
    assert {s: r.content() for s, r in found.items()} == {r.shard: r.content() for r in records}
    assert sorted(n for n in os.listdir(dataset.root) if n.startswith(("_SEALED", "manifest"))) == [
        "_SEALED-0000.json",
        f"manifest-{digest[:16]}.parquet",
    ]


def test_a_seal_outlives_late_records(dataset: Dataset) -> None:
    """A zombie that commits behind the seal changes nothing for readers."""
    record = attempt(dataset).commit({})
    dataset.seal(0, [record])
    path = dataset.record_path(3, KEY, 1)
    late = Record(dataset.fp, 3, KEY, "ffff", (), {"kept": 9})
    dataset.storage.put_exclusive(path, late.encode())
    found = dataset.sealed_records(0)
    assert found is not None
    assert found[3].attempt == record.attempt


# ---- verification ----


def test_verify_names_what_is_wrong(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "plan.json").touch()
    record = attempt(dataset).commit({})
    part = record.part("rows")
    assert part is not None
    path = Path(dataset.path(part.path))
    path.write_bytes(b"dbta")
    dataset.verify(record, digests=False)
    with pytest.raises(CorruptShardError, match="does not have the bytes") as caught:
        dataset.verify(record)
    assert f"corpusflow verify {tmp_path} --repair" in str(caught.value.hint)
    path.write_bytes(b"dat")
    with pytest.raises(CorruptShardError, match="has 3 bytes, its record says 4"):
        dataset.verify(record, digests=False)
    path.unlink()
    with pytest.raises(CorruptShardError, match="named by a commit record but missing"):
        dataset.verify(record, digests=False)


def test_run_of(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert run_of(str(tmp_path / "a" / "b")) == str(tmp_path / "a")
    (tmp_path / "plan.json").touch()
    assert run_of(str(tmp_path / "a" / "b")) == str(tmp_path)


def test_file_digest(tmp_path: Path) -> None:
    import xxhash

    (tmp_path / "x").write_bytes(b"a" * 3_000_000)
    assert file_digest(LocalStorage(), str(tmp_path / "x")) == xxhash.xxh3_128(b"a" * 3_000_000).hexdigest()


@pytest.fixture
def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted", target)

    monkeypatch.setattr(os, "link", refuse)


def test_everything_without_hard_links(dataset: Dataset, without_links: None) -> None:
    first, second = attempt(dataset), attempt(dataset)
    first.commit({"kept": 1})
    assert second.commit({"kept": 1}).attempt == first.id
    dataset.plan(0, {"libraries": {}})
    dataset.plan(0, {"libraries": {}})
    record = dataset.record(3, KEY)
    assert record is not None
    assert dataset.seal(0, [record]) == dataset.seal(0, [record])
    assert not list(Path(dataset.root).rglob(".tmp-*"))


def test_a_torn_seal_or_plan_without_hard_links_is_no_traceback(dataset: Dataset) -> None:
    record = attempt(dataset).commit({})
    Path(dataset.path("_SEALED-0000.json")).write_bytes(b'{"digest')
    Path(dataset.path("PLAN-0000.json")).write_bytes(b"")
    assert dataset.sealed(0) is None
    assert dataset.sealed_records(0) is None
    dataset.plan(0, {"stage": "s", "libraries": {"a": "1"}})
    assert json.loads(dataset.storage.get(dataset.path("PLAN-0000.json")))["libraries"] == {"a": "1"}
    digest = dataset.seal(0, [record])
    assert dataset.sealed(0) == digest
